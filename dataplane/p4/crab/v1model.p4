// SPDX-License-Identifier: Apache-2.0
// The balancer of connections for bmv2 (v1model). Time is in microseconds.
#include <core.p4>
#include <v1model.p4>

#define PATIENCE 3000000

#define IPV4_READ
#define TCP_READ
#define FOUND

#include "../spelling/v1model.p4"

#include "crab.p4"

parser Packet(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    state start {
        transition parse_ethernet;
    }

#include "parser.p4"
}

control Verify(inout headers_t hdr, inout meta_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.version == IPV4_PLAIN,
            { hdr.ipv4.version, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Ingress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    Balance() balance;

    apply {
        meta.bad_checksum = standard.checksum_error;
        if (standard.parser_error != error.NoError) {
            meta.fault = R_TRUNCATED;
        }
        if (hdr.tcp.isValid()) {
            meta.less_sum = ~hdr.tcp.checksum;
            meta.less_dst_high = ~hdr.ipv4.dst[31:16];
            meta.less_dst_low = ~hdr.ipv4.dst[15:0];
            meta.less_word = ~(hdr.tcp.offset ++ hdr.tcp.reserved ++ hdr.tcp.flags);
            meta.less_high = ~meta.was_high;
            meta.less_low = ~meta.was_low;
        }
        balance.apply(hdr, meta, standard.ingress_port, standard.ingress_global_timestamp[31:0], standard.egress_spec,
                      standard.mcast_grp, meta.discard);
        if (meta.discard != 0) {
            mark_to_drop(standard);
        }
    }
}

control Egress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    apply {
    }
}

control Compute(inout headers_t hdr, inout meta_t meta) {
    apply {
        update_checksum(meta.passed == 1,
            { hdr.ipv4.version, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        // What was is taken out of the sum, and what is put in (RFC 1624): C-22, C-23.
        update_checksum(meta.redirected == 1 && meta.inserts == 0,
            { meta.less_sum, meta.less_dst_high, meta.less_dst_low, meta.less_high, meta.less_low, hdr.ipv4.dst,
              meta.address },
            hdr.tcp.checksum, HashAlgorithm.csum16);
        update_checksum(meta.redirected == 1 && meta.inserts == 1,
            { meta.less_sum, meta.less_dst_high, meta.less_dst_low, meta.less_word, hdr.ipv4.dst, hdr.tcp.offset,
              hdr.tcp.reserved, hdr.tcp.flags, hdr.inserted.head, hdr.inserted.address, hdr.inserted.tail, 16w8 },
            hdr.tcp.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr);
    }
}

V1Switch(Packet(), Verify(), Ingress(), Egress(), Compute(), Deparse()) main;
