// SPDX-License-Identifier: Apache-2.0
// The aggregator for bmv2 (v1model).
#include <core.p4>
#include <v1model.p4>

#define IPV4_READ
#define UDP_READ
#define SUMMED(H)
#define DISK_READ

#include "../spelling/v1model.p4"

#include "aggregator.p4"

parser Packet(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    state start {
        transition parse_ethernet;
    }

#include "parser.p4"
}

// A checksum is among what it is of, so that a sum of nothing, which is written as 0xffff, is right as well.
#define DATAGRAM \
    hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, hdr.udp.length, hdr.udp.src, hdr.udp.dst, hdr.udp.length, \
    hdr.udp.checksum, GROUP_FIELDS
#define PROBE_OF(K, FIELDS) \
    verify_checksum(hdr.disk.isValid() && hdr.members.isValid() && hdr.members.count == K, \
        { DATAGRAM, PROBE_FIELDS, hdr.members.count, FIELDS, DISK_FIELDS }, meta.zero, HashAlgorithm.csum16);
#define M2 hdr.m1.word, hdr.m2.word
#define M3 M2, hdr.m3.word
#define M4 M3, hdr.m4.word
#define M5 M4, hdr.m5.word
#define M6 M5, hdr.m6.word
#define M7 M6, hdr.m7.word
#define M8 M7, hdr.m8.word
#define M9 M8, hdr.m9.word

control Verify(inout headers_t hdr, inout meta_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.version == IPV4_PLAIN,
            { hdr.ipv4.version, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        verify_checksum(hdr.disk.isValid() && hdr.answer.isValid(), { DATAGRAM, ANSWER_FIELDS, DISK_FIELDS },
            meta.zero, HashAlgorithm.csum16);
        PROBE_OF(1, hdr.m1.word)
        PROBE_OF(2, M2)
        PROBE_OF(3, M3)
        PROBE_OF(4, M4)
        PROBE_OF(5, M5)
        PROBE_OF(6, M6)
        PROBE_OF(7, M7)
        PROBE_OF(8, M8)
        PROBE_OF(9, M9)
    }
}

control Ingress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    Aggregate() aggregate;

    apply {
        meta.bad_checksum = standard.checksum_error;
        if (standard.parser_error != error.NoError) {
            meta.fault = R_TRUNCATED;
        }
        aggregate.apply(hdr, meta, standard.ingress_port, standard.egress_spec, standard.mcast_grp, meta.discard);
        if (meta.discard != 0) {
            mark_to_drop(standard);
        }
    }
}

control Egress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    Tell() tell;

    apply {
        if (hdr.note.kind == NOTE_SHARED) {
            meta.less_sum = ~hdr.udp.checksum;
            meta.less_src = ~hdr.ipv4.src;
            meta.less_dst = ~hdr.ipv4.dst;
            meta.less_from = ~hdr.udp.src;
            meta.less_to = ~hdr.udp.dst;
        }
        tell.apply(hdr, meta, standard.egress_rid, meta.discard);
        if (meta.discard != 0) {
            mark_to_drop(standard);
        }
    }
}

control Compute(inout headers_t hdr, inout meta_t meta) {
    apply {
        update_checksum(meta.passed == 1 || meta.answered == 1 || meta.announced == 1,
            { hdr.ipv4.version, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        // What was is taken out of the sum, and what is put in (RFC 1624).
        update_checksum(meta.passed == 1,
            { meta.less_sum, meta.less_src, meta.less_dst, meta.less_from, meta.less_to, hdr.ipv4.src, hdr.ipv4.dst,
              hdr.udp.src, hdr.udp.dst },
            hdr.udp.checksum, HashAlgorithm.csum16);
        update_checksum(meta.answered == 1,
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, hdr.udp.length, hdr.udp.src, hdr.udp.dst,
              hdr.udp.length, PROBE_REPLY_FIELDS },
            hdr.udp.checksum, HashAlgorithm.csum16);
        update_checksum(meta.announced == 1,
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, hdr.udp.length, hdr.udp.src, hdr.udp.dst,
              hdr.udp.length, COMMIT_FIELDS },
            hdr.udp.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr);
    }
}

V1Switch(Packet(), Verify(), Ingress(), Egress(), Compute(), Deparse()) main;
