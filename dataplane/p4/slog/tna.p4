// SPDX-License-Identifier: Apache-2.0
// The load generator for Tofino (TNA): templates come from the packet generator of pipe 0, by its port 68, behind a
// header of six bytes. Time is in nanoseconds.
#include <core.p4>
#include <tna.p4>

#ifndef GENERATOR_PORT
#define GENERATOR_PORT 68
#endif

#define IPV4_READ ipv4_sum.add(hdr.ipv4); meta.bad_checksum = (bit<1>)ipv4_sum.verify();

#include "../spelling/tna.p4"

#include "slog.p4"

// Metadata begins with zeros, as it does in bmv2.
@pa_auto_init_metadata
parser IngressPacket(packet_in pkt, out headers_t hdr, out meta_t meta, out ingress_intrinsic_metadata_t intrinsic) {
    Checksum() ipv4_sum;

    state start {
        pkt.extract(intrinsic);
        pkt.advance(PORT_METADATA_SIZE);
        transition select(intrinsic.ingress_port) {
            GENERATOR_PORT: parse_timer;
            default: parse_ethernet;
        }
    }

    state parse_timer {
        pkt.extract(hdr.timer);
        transition parse_ethernet;
    }

#include "parser.p4"
}

control Ingress(inout headers_t hdr, inout meta_t meta, in ingress_intrinsic_metadata_t intrinsic,
                in ingress_intrinsic_metadata_from_parser_t parsed,
                inout ingress_intrinsic_metadata_for_deparser_t deparsing,
                inout ingress_intrinsic_metadata_for_tm_t traffic) {
    Generate() slog;

    apply {
        if (parsed.parser_err != PARSER_ERROR_OK) {
            meta.broken = 1;
        }
        slog.apply(hdr, meta, intrinsic.ingress_port, intrinsic.ingress_mac_tstamp[30:0], traffic.ucast_egress_port,
                   traffic.mcast_grp_a, deparsing.drop_ctl);
    }
}

control IngressDeparse(packet_out pkt, inout headers_t hdr, in meta_t meta,
                       in ingress_intrinsic_metadata_for_deparser_t deparsing) {
    apply {
        pkt.emit(hdr);
    }
}

@pa_auto_init_metadata
parser EgressPacket(packet_in pkt, out headers_t hdr, out meta_t meta, out egress_intrinsic_metadata_t intrinsic) {
    state start {
        pkt.extract(intrinsic);
        pkt.extract(hdr.mark);
        transition select(hdr.mark.stamps) {
            1: parse_frame;
            default: accept;
        }
    }

    state parse_frame {
        pkt.extract(hdr.ethernet);
        pkt.extract(hdr.ipv4);
        pkt.extract(hdr.udp);
        transition accept;
    }
}

control Egress(inout headers_t hdr, inout meta_t meta, in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t parsed,
               inout egress_intrinsic_metadata_for_deparser_t deparsing,
               inout egress_intrinsic_metadata_for_output_port_t output) {
    Stamp() stamp;

    apply {
        stamp.apply(hdr, meta, parsed.global_tstamp[30:0]);
    }
}

control EgressDeparse(packet_out pkt, inout headers_t hdr, in meta_t meta,
                      in egress_intrinsic_metadata_for_deparser_t deparsing) {
    Checksum() ipv4_sum;

    apply {
        if (meta.stamped == 1) {
            hdr.ipv4.checksum = ipv4_sum.update({ hdr.ipv4.version, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
                hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_net, hdr.ipv4.src_host,
                hdr.ipv4.dst_net, hdr.ipv4.dst_host });
        }
        pkt.emit(hdr);
    }
}

Pipeline(IngressPacket(), Ingress(), IngressDeparse(), EgressPacket(), Egress(), EgressDeparse()) pipe;

Switch(pipe) main;
