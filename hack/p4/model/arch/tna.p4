// SPDX-License-Identifier: Apache-2.0
// What a program of the TNA architecture (Tofino 1) may name. The objects are in extern.go and call.go.
typedef bit<9> PortId_t;
typedef bit<16> MulticastGroupId_t;
typedef bit<5> QueueId_t;
typedef bit<3> MirrorType_t;
typedef bit<10> MirrorId_t;
typedef bit<3> ResubmitType_t;
typedef bit<3> DigestType_t;
typedef bit<16> ReplicationId_t;
typedef bit<16> L1ExclusionId_t;
typedef bit<9> L2ExclusionId_t;

const bit<32> PORT_METADATA_SIZE = 64;
const bit<16> PARSER_ERROR_OK = 0;
const bit<16> PARSER_ERROR_NO_MATCH = 1;
const bit<16> PARSER_ERROR_PARTIAL_HDR = 2;

header ingress_intrinsic_metadata_t {
    bit<1> resubmit_flag;
    bit<1> _pad1;
    bit<2> packet_version;
    bit<3> _pad2;
    PortId_t ingress_port;
    bit<48> ingress_mac_tstamp;
}

struct ingress_intrinsic_metadata_for_tm_t {
    PortId_t ucast_egress_port;
    bit<1> bypass_egress;
    bit<1> deflect_on_drop;
    bit<3> ingress_cos;
    QueueId_t qid;
    bit<3> icos_for_copy_to_cpu;
    bit<1> copy_to_cpu;
    bit<2> packet_color;
    bit<1> disable_ucast_cutthru;
    bit<1> enable_mcast_cutthru;
    MulticastGroupId_t mcast_grp_a;
    MulticastGroupId_t mcast_grp_b;
    bit<13> level1_mcast_hash;
    bit<13> level2_mcast_hash;
    L1ExclusionId_t level1_exclusion_id;
    L2ExclusionId_t level2_exclusion_id;
    bit<16> rid;
}

struct ingress_intrinsic_metadata_from_parser_t {
    bit<48> global_tstamp;
    bit<32> global_ver;
    bit<16> parser_err;
}

struct ingress_intrinsic_metadata_for_deparser_t {
    bit<3> drop_ctl;
    DigestType_t digest_type;
    ResubmitType_t resubmit_type;
    MirrorType_t mirror_type;
}

header egress_intrinsic_metadata_t {
    bit<7> _pad0;
    PortId_t egress_port;
    bit<5> _pad1;
    bit<19> enq_qdepth;
    bit<6> _pad2;
    bit<2> enq_congest_stat;
    bit<14> _pad3;
    bit<18> enq_tstamp;
    bit<5> _pad4;
    bit<19> deq_qdepth;
    bit<6> _pad5;
    bit<2> deq_congest_stat;
    bit<8> app_pool_congest_stat;
    bit<14> _pad6;
    bit<18> deq_timedelta;
    bit<16> egress_rid;
    bit<7> _pad7;
    bit<1> egress_rid_first;
    bit<3> _pad8;
    QueueId_t egress_qid;
    bit<5> _pad9;
    bit<3> egress_cos;
    bit<7> _pad10;
    bit<1> deflection_flag;
    bit<16> pkt_length;
}

struct egress_intrinsic_metadata_from_parser_t {
    bit<48> global_tstamp;
    bit<32> global_ver;
    bit<16> parser_err;
}

struct egress_intrinsic_metadata_for_deparser_t {
    bit<3> drop_ctl;
    MirrorType_t mirror_type;
    bit<1> coalesce_flush;
    bit<7> coalesce_length;
}

struct egress_intrinsic_metadata_for_output_port_t {
    bit<1> capture_tstamp_on_tx;
    bit<1> update_delay_on_tx;
}
