// SPDX-License-Identifier: Apache-2.0
// The flow-control box for bmv2 (v1model): a refused request is recirculated once.
#include <core.p4>
#include <v1model.p4>

#define LOOP_PORT 510
#define RECIRCULATED 4

#define IPV4_READ

#include "../spelling/v1model.p4"

#include "box.p4"

parser Packet(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    state start {
        transition select(standard.instance_type) {
            RECIRCULATED: parse_loop;
            default: parse_ethernet;
        }
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
    Admit() admit;

    apply {
        meta.bad_checksum = standard.checksum_error;
        if (standard.parser_error != error.NoError) {
            meta.fault = R_TRUNCATED;
        }
        admit.apply(hdr, meta, standard.ingress_port, standard.ingress_global_timestamp[40:10], standard.egress_spec,
                    standard.mcast_grp, meta.discard);
        if (meta.discard != 0) {
            mark_to_drop(standard);
        }
    }
}

control Egress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    Copy() copy;

    apply {
        if (hdr.note.kind == NOTE_COPY) {
            meta.less_sum = ~hdr.udp.checksum;
            meta.less_src = ~hdr.ipv4.src;
            meta.less_dst = ~hdr.ipv4.dst;
            meta.less_from = ~hdr.udp.src;
            meta.less_to = ~hdr.udp.dst;
            meta.less_length = ~hdr.udp.length;
            meta.less_size = ~(hdr.r2p2.magic ++ hdr.r2p2.size);
        }
        copy.apply(hdr, meta, standard.egress_rid, meta.discard);
        if (meta.discard != 0) {
            mark_to_drop(standard);
        } else if (standard.egress_port == LOOP_PORT) {
            recirculate_preserving_field_list(0);
        }
    }
}

control Compute(inout headers_t hdr, inout meta_t meta) {
    apply {
        update_checksum(meta.answered == 1 || meta.copied == 1,
            { hdr.ipv4.version, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        // What was is taken out of the sum, and what is put in (RFC 1624).
        update_checksum(meta.forwarded == 1,
            { meta.less_sum, meta.less_src, meta.less_dst, meta.less_from, meta.less_to, meta.less_length,
              meta.less_length, meta.less_size, hdr.ipv4.src, hdr.ipv4.dst, hdr.udp.src, hdr.udp.dst, hdr.udp.length,
              hdr.udp.length, hdr.r2p2.magic, hdr.r2p2.size, hdr.forwarded.kind, hdr.forwarded.length,
              hdr.forwarded.port, hdr.forwarded.address },
            hdr.udp.checksum, HashAlgorithm.csum16);
        update_checksum(meta.answered == 1,
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, hdr.udp.length, hdr.udp.src, hdr.udp.dst,
              hdr.udp.length, hdr.r2p2.magic, hdr.r2p2.size, hdr.r2p2.kind, hdr.r2p2.policy, hdr.r2p2.first,
              hdr.r2p2.last, hdr.r2p2.flags, hdr.r2p2.req_id, hdr.r2p2.count, hdr.four.kind, hdr.four.length,
              hdr.four.rest },
            hdr.udp.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr);
    }
}

V1Switch(Packet(), Verify(), Ingress(), Egress(), Compute(), Deparse()) main;
