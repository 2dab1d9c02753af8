// SPDX-License-Identifier: Apache-2.0
// The balancer of connections for Tofino (TNA). Time is in units of 1,024 nanoseconds.
#include <core.p4>
#include <tna.p4>

#define PATIENCE 2929688 // three seconds

#define IPV4_READ ipv4_sum.add(hdr.ipv4); meta.bad_checksum = (bit<1>)ipv4_sum.verify();
#define TCP_READ \
    tcp_sum.subtract({ hdr.tcp.checksum, hdr.ipv4.dst, hdr.tcp.offset, hdr.tcp.reserved, hdr.tcp.flags }); \
    meta.sum = tcp_sum.get();
#define FOUND tcp_sum.subtract({ meta.was_high, meta.was_low }); meta.sum = tcp_sum.get();

#include "../spelling/tna.p4"

#define HASHES \
    Hash<bit<16>>(HashAlgorithm_t.CRC16) place_of_flow; \
    Hash<bit<16>>(HashAlgorithm_t.CRC16) place_of_syn; \
    Hash<bit<32>>(HashAlgorithm_t.CRC32) print_of_syn;

#include "crab.p4"

// Metadata begins with zeros, as it does in bmv2.
@pa_auto_init_metadata
parser IngressPacket(packet_in pkt, out headers_t hdr, out meta_t meta, out ingress_intrinsic_metadata_t intrinsic) {
    Checksum() ipv4_sum;
    Checksum() tcp_sum;

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
    Balance() balance;

    apply {
        if (parsed.parser_err != PARSER_ERROR_OK) {
            meta.fault = R_TRUNCATED;
        }
        balance.apply(hdr, meta, intrinsic.ingress_port, intrinsic.ingress_mac_tstamp[41:10],
                      traffic.ucast_egress_port, traffic.mcast_grp_a, deparsing.drop_ctl);
    }
}

control IngressDeparse(packet_out pkt, inout headers_t hdr, in meta_t meta,
                       in ingress_intrinsic_metadata_for_deparser_t deparsing) {
    Checksum() ipv4_sum;
    Checksum() named_sum;
    Checksum() inserted_sum;

    apply {
        if (meta.passed == 1) {
            hdr.ipv4.checksum = ipv4_sum.update({ hdr.ipv4.version, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
                hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
        }
        if (meta.redirected == 1) {
            if (meta.inserts == 0) {
                hdr.tcp.checksum = named_sum.update({ meta.sum, hdr.ipv4.dst, hdr.tcp.offset, hdr.tcp.reserved,
                    hdr.tcp.flags, meta.address });
            } else {
                hdr.tcp.checksum = inserted_sum.update({ meta.sum, hdr.ipv4.dst, hdr.tcp.offset, hdr.tcp.reserved,
                    hdr.tcp.flags, hdr.inserted.head, hdr.inserted.address, hdr.inserted.tail, 16w8 });
            }
        }
        pkt.emit(hdr);
    }
}

parser EgressPacket(packet_in pkt, out headers_t hdr, out meta_t meta, out egress_intrinsic_metadata_t intrinsic) {
    state start {
        pkt.extract(intrinsic);
        transition accept;
    }
}

control Egress(inout headers_t hdr, inout meta_t meta, in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t parsed,
               inout egress_intrinsic_metadata_for_deparser_t deparsing,
               inout egress_intrinsic_metadata_for_output_port_t output) {
    apply {
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
