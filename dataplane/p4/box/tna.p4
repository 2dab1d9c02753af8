// SPDX-License-Identifier: Apache-2.0
// The flow-control box for Tofino (TNA). All members of a group are on ports of one pipe: registers are a pipe's own.
// A refused request goes round once by the recirculation port of that pipe, 68 of pipe 0.
#include <core.p4>
#include <tna.p4>

#ifndef LOOP_PORT
#define LOOP_PORT 68
#endif

#define IPV4_READ ipv4_sum.add(hdr.ipv4); meta.bad_checksum = (bit<1>)ipv4_sum.verify();

#include "../spelling/tna.p4"

#define HASHES \
    Hash<bit<16>>(HashAlgorithm_t.CRC16) places_hash; \
    Hash<bit<32>>(HashAlgorithm_t.CRC32) prints_hash;

#include "box.p4"

// Metadata begins with zeros, as it does in bmv2.
@pa_auto_init_metadata
parser IngressPacket(packet_in pkt, out headers_t hdr, out meta_t meta, out ingress_intrinsic_metadata_t intrinsic) {
    Checksum() ipv4_sum;

    state start {
        pkt.extract(intrinsic);
        pkt.advance(PORT_METADATA_SIZE);
        transition select(intrinsic.ingress_port) {
            LOOP_PORT: parse_loop;
            default: parse_ethernet;
        }
    }

#include "parser.p4"
}

control Ingress(inout headers_t hdr, inout meta_t meta, in ingress_intrinsic_metadata_t intrinsic,
                in ingress_intrinsic_metadata_from_parser_t parsed,
                inout ingress_intrinsic_metadata_for_deparser_t deparsing,
                inout ingress_intrinsic_metadata_for_tm_t traffic) {
    Admit() admit;

    apply {
        if (parsed.parser_err != PARSER_ERROR_OK) {
            meta.fault = R_TRUNCATED;
        }
        admit.apply(hdr, meta, intrinsic.ingress_port, (bit<31>)intrinsic.ingress_mac_tstamp[47:20],
                    traffic.ucast_egress_port, traffic.mcast_grp_a, deparsing.drop_ctl);
    }
}

control IngressDeparse(packet_out pkt, inout headers_t hdr, in meta_t meta,
                       in ingress_intrinsic_metadata_for_deparser_t deparsing) {
    Checksum() ipv4_sum;
    Checksum() drop_sum;

    apply {
        if (meta.answered == 1) {
            hdr.ipv4.checksum = ipv4_sum.update({ hdr.ipv4.version, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
                hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
            hdr.udp.checksum = drop_sum.update({ hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, hdr.udp.length,
                hdr.udp.src, hdr.udp.dst, hdr.udp.length, hdr.r2p2.magic, hdr.r2p2.size, hdr.r2p2.kind,
                hdr.r2p2.policy, hdr.r2p2.first, hdr.r2p2.last, hdr.r2p2.flags, hdr.r2p2.req_id, hdr.r2p2.count,
                hdr.four.kind, hdr.four.length, hdr.four.rest });
        }
        pkt.emit(hdr);
    }
}

@pa_auto_init_metadata
parser EgressPacket(packet_in pkt, out headers_t hdr, out meta_t meta, out egress_intrinsic_metadata_t intrinsic) {
    Checksum() udp_sum;

    state start {
        pkt.extract(intrinsic);
        pkt.extract(hdr.note);
        transition select(hdr.note.kind) {
            NOTE_COPY: parse_frame;
            default: accept;
        }
    }

    state parse_frame {
        pkt.extract(hdr.ethernet);
        pkt.extract(hdr.ipv4);
        pkt.extract(hdr.udp);
        pkt.extract(hdr.r2p2);
        udp_sum.subtract({ hdr.udp.checksum, hdr.ipv4.src, hdr.ipv4.dst, hdr.udp.src, hdr.udp.dst, hdr.udp.length,
            hdr.udp.length, hdr.r2p2.magic, hdr.r2p2.size });
        meta.sum = udp_sum.get();
        transition accept;
    }
}

control Egress(inout headers_t hdr, inout meta_t meta, in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t parsed,
               inout egress_intrinsic_metadata_for_deparser_t deparsing,
               inout egress_intrinsic_metadata_for_output_port_t output) {
    Copy() copy;

    apply {
        copy.apply(hdr, meta, intrinsic.egress_rid, deparsing.drop_ctl);
    }
}

control EgressDeparse(packet_out pkt, inout headers_t hdr, in meta_t meta,
                      in egress_intrinsic_metadata_for_deparser_t deparsing) {
    Checksum() ipv4_sum;
    Checksum() udp_sum;

    apply {
        if (meta.copied == 1) {
            hdr.ipv4.checksum = ipv4_sum.update({ hdr.ipv4.version, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
                hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
        }
        if (meta.forwarded == 1) {
            hdr.udp.checksum = udp_sum.update({ meta.sum, hdr.ipv4.src, hdr.ipv4.dst, hdr.udp.src, hdr.udp.dst,
                hdr.udp.length, hdr.udp.length, hdr.r2p2.magic, hdr.r2p2.size, hdr.forwarded.kind,
                hdr.forwarded.length, hdr.forwarded.port, hdr.forwarded.address });
        }
        pkt.emit(hdr);
    }
}

Pipeline(IngressPacket(), Ingress(), IngressDeparse(), EgressPacket(), Egress(), EgressDeparse()) pipe;

Switch(pipe) main;
