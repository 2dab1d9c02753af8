// SPDX-License-Identifier: Apache-2.0
// The aggregator for Tofino (TNA). All members of a group are on ports of one pipe: registers are a pipe's own.
#include <core.p4>
#include <tna.p4>

#define IPV4_READ ipv4_sum.add(hdr.ipv4); meta.bad_checksum = (bit<1>)ipv4_sum.verify();
#define UDP_READ \
    udp_sum.add({ hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, hdr.udp.length, hdr.udp.src, hdr.udp.dst, \
        hdr.udp.length, hdr.udp.checksum });
#define SUMMED(H) udp_sum.add(hdr.H);
#define DISK_READ udp_sum.add(hdr.disk); meta.bad_sum = (bit<1>)udp_sum.verify();

#include "../spelling/tna.p4"

#include "aggregator.p4"

// Metadata begins with zeros, as it does in bmv2.
@pa_auto_init_metadata
parser IngressPacket(packet_in pkt, out headers_t hdr, out meta_t meta, out ingress_intrinsic_metadata_t intrinsic) {
    Checksum() ipv4_sum;
    Checksum() udp_sum;

    state start {
        pkt.extract(intrinsic);
        pkt.advance(PORT_METADATA_SIZE);
        transition parse_ethernet;
    }

#include "parser.p4"
}

control Ingress(inout headers_t hdr, inout meta_t meta, in ingress_intrinsic_metadata_t intrinsic,
                in ingress_intrinsic_metadata_from_parser_t parsed,
                inout ingress_intrinsic_metadata_for_deparser_t deparsing,
                inout ingress_intrinsic_metadata_for_tm_t traffic) {
    Aggregate() aggregate;

    apply {
        if (parsed.parser_err != PARSER_ERROR_OK) {
            meta.fault = R_TRUNCATED;
        }
        aggregate.apply(hdr, meta, intrinsic.ingress_port, traffic.ucast_egress_port, traffic.mcast_grp_a,
                        deparsing.drop_ctl);
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
    Checksum() udp_sum;

    state start {
        pkt.extract(intrinsic);
        pkt.extract(hdr.note);
        transition select(hdr.note.kind) {
            NOTE_NONE: accept;
            default: parse_frame;
        }
    }

    state parse_frame {
        pkt.extract(hdr.ethernet);
        pkt.extract(hdr.ipv4);
        pkt.extract(hdr.udp);
        udp_sum.subtract({ hdr.udp.checksum, hdr.ipv4.src, hdr.ipv4.dst, hdr.udp.src, hdr.udp.dst });
        meta.sum = udp_sum.get();
        transition select(hdr.note.kind) {
            NOTE_SHARED: accept;
            default: parse_group;
        }
    }

    state parse_group {
        pkt.extract(hdr.r2p2);
        pkt.extract(hdr.group);
        transition select(hdr.note.kind) {
            NOTE_PROBE: parse_probe;
            default: parse_answer;
        }
    }

    state parse_probe {
        pkt.extract(hdr.probe);
        transition parse_disk;
    }

    state parse_answer {
        pkt.extract(hdr.answer);
        transition parse_disk;
    }

    state parse_disk {
        pkt.extract(hdr.disk);
        transition accept;
    }
}

control Egress(inout headers_t hdr, inout meta_t meta, in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t parsed,
               inout egress_intrinsic_metadata_for_deparser_t deparsing,
               inout egress_intrinsic_metadata_for_output_port_t output) {
    Tell() tell;

    apply {
        tell.apply(hdr, meta, intrinsic.egress_rid, deparsing.drop_ctl);
    }
}

control EgressDeparse(packet_out pkt, inout headers_t hdr, in meta_t meta,
                      in egress_intrinsic_metadata_for_deparser_t deparsing) {
    Checksum() ipv4_sum;
    Checksum() passed_sum;
    Checksum() probe_sum;
    Checksum() commit_sum;

    apply {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = ipv4_sum.update({ hdr.ipv4.version, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
                hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
        }
        if (meta.passed == 1) {
            hdr.udp.checksum = passed_sum.update({ meta.sum, hdr.ipv4.src, hdr.ipv4.dst, hdr.udp.src, hdr.udp.dst });
        }
        if (meta.answered == 1) {
            hdr.udp.checksum = probe_sum.update({ hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, hdr.udp.length,
                hdr.udp.src, hdr.udp.dst, hdr.udp.length, PROBE_REPLY_FIELDS });
        }
        if (meta.announced == 1) {
            hdr.udp.checksum = commit_sum.update({ hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, hdr.udp.length,
                hdr.udp.src, hdr.udp.dst, hdr.udp.length, COMMIT_FIELDS });
        }
        pkt.emit(hdr);
    }
}

Pipeline(IngressPacket(), Ingress(), IngressDeparse(), EgressPacket(), Egress(), EgressDeparse()) pipe;

Switch(pipe) main;
