// SPDX-License-Identifier: Apache-2.0
// The router for Tofino (TNA): the loop is the recirculation port of the pipe that its services live in, 68 of pipe 0.
// Time is in units of 1,024 nanoseconds.
#include <core.p4>
#include <tna.p4>

#ifndef LOOP_PORT
#define LOOP_PORT 68
#endif

// FEEDBACK goes round in a queue of its own, which the port serves first (R-118).
#define FEEDBACK_QUEUE 1

#define IPV4_READ ipv4_sum.add(hdr.ipv4); meta.bad_checksum = (bit<1>)ipv4_sum.verify();
#define UDP_READ udp_sum.subtract({ hdr.udp.checksum, hdr.ipv4.dst, hdr.udp.dst, hdr.udp.length, hdr.udp.length });
#define R2P2_READ udp_sum.subtract({ hdr.r2p2.magic, hdr.r2p2.size }); meta.sum = udp_sum.get();

#include "../spelling/tna.p4"

#define HASHES \
    Hash<bit<16>>(HashAlgorithm_t.CRC16) place_asked; \
    Hash<bit<16>>(HashAlgorithm_t.CRC16) place_told; \
    Hash<bit<32>>(HashAlgorithm_t.CRC32) print_asked; \
    Hash<bit<32>>(HashAlgorithm_t.CRC32) print_told;

#include "router.p4"

// Metadata begins with zeros, as it does in bmv2.
@pa_auto_init_metadata
parser IngressPacket(packet_in pkt, out headers_t hdr, out meta_t meta, out ingress_intrinsic_metadata_t intrinsic) {
    Checksum() ipv4_sum;
    Checksum() udp_sum;

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
    Route() route;

    apply {
        if (parsed.parser_err != PARSER_ERROR_OK) {
            meta.fault = R_TRUNCATED;
        }
        route.apply(hdr, meta, intrinsic.ingress_port, intrinsic.ingress_mac_tstamp[41:10], traffic.ucast_egress_port,
                    traffic.mcast_grp_a, deparsing.drop_ctl);
        if (meta.is == IS_REPORT) {
            traffic.qid = FEEDBACK_QUEUE;
        }
    }
}

control IngressDeparse(packet_out pkt, inout headers_t hdr, in meta_t meta,
                       in ingress_intrinsic_metadata_for_deparser_t deparsing) {
    Checksum() ipv4_sum;
    Checksum() udp_sum;
    Checksum() drop_sum;

    apply {
        if (meta.rewritten == 1) {
            hdr.ipv4.checksum = ipv4_sum.update({ hdr.ipv4.version, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
                hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
        }
        if (meta.forwarded == 1) {
            hdr.udp.checksum = udp_sum.update({ meta.sum, hdr.ipv4.dst, hdr.udp.dst, hdr.udp.length, hdr.udp.length,
                hdr.r2p2.magic, hdr.r2p2.size, hdr.router.kind, hdr.router.length, hdr.router.id,
                hdr.router.padding });
        }
        if (meta.answered == 1) {
            hdr.udp.checksum = drop_sum.update({ hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, hdr.udp.length,
                hdr.udp.src, hdr.udp.dst, hdr.udp.length, hdr.r2p2.magic, hdr.r2p2.size, hdr.r2p2.kind,
                hdr.r2p2.policy, hdr.r2p2.first, hdr.r2p2.last, hdr.r2p2.flags, hdr.r2p2.req_id, hdr.r2p2.count,
                hdr.four.kind, hdr.four.length, hdr.four.rest });
        }
        pkt.emit(hdr);
    }
}

parser EgressPacket(packet_in pkt, out headers_t hdr, out meta_t meta, out egress_intrinsic_metadata_t intrinsic) {
    state start {
        pkt.extract(intrinsic);
        transition select(intrinsic.egress_port) {
            LOOP_PORT: parse_loop;
            default: accept;
        }
    }

    state parse_loop {
        pkt.extract(hdr.loop);
        transition select(hdr.loop.kind) {
            LOOP_REPORT: parse_note;
            default: accept;
        }
    }

    state parse_note {
        pkt.extract(hdr.note);
        transition accept;
    }
}

control Egress(inout headers_t hdr, inout meta_t meta, in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t parsed,
               inout egress_intrinsic_metadata_for_deparser_t deparsing,
               inout egress_intrinsic_metadata_for_output_port_t output) {
    Settle() settle;

    apply {
        settle.apply(hdr, meta, deparsing.drop_ctl);
    }
}

control EgressDeparse(packet_out pkt, inout headers_t hdr, in meta_t meta,
                      in egress_intrinsic_metadata_for_deparser_t deparsing) {
    apply {
        pkt.emit(hdr);
    }
}

Pipeline(IngressPacket(), Ingress(), IngressDeparse(), EgressPacket(), Egress(), EgressDeparse()) pipe;

Switch(pipe) main;
