// SPDX-License-Identifier: Apache-2.0
// The load generator for bmv2 (v1model), which has no packet generator: templates come in by a port. Time is in
// microseconds, so that nothing is to be learnt from its latencies (S-32).
#include <core.p4>
#include <v1model.p4>

#define IPV4_READ

#include "../spelling/v1model.p4"

#include "slog.p4"

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
              hdr.ipv4.protocol, hdr.ipv4.src_net, hdr.ipv4.src_host, hdr.ipv4.dst_net, hdr.ipv4.dst_host },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Ingress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    Generate() slog;

    apply {
        meta.bad_checksum = standard.checksum_error;
        if (standard.parser_error != error.NoError) {
            meta.broken = 1;
        }
        slog.apply(hdr, meta, standard.ingress_port, standard.ingress_global_timestamp[30:0], standard.egress_spec,
                   standard.mcast_grp, meta.discard);
        if (meta.discard != 0) {
            mark_to_drop(standard);
        }
    }
}

control Egress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    Stamp() stamp;

    apply {
        stamp.apply(hdr, meta, standard.egress_global_timestamp[30:0]);
    }
}

control Compute(inout headers_t hdr, inout meta_t meta) {
    apply {
        update_checksum(meta.stamped == 1,
            { hdr.ipv4.version, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src_net, hdr.ipv4.src_host, hdr.ipv4.dst_net, hdr.ipv4.dst_host },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr);
    }
}

V1Switch(Packet(), Verify(), Ingress(), Egress(), Compute(), Deparse()) main;
