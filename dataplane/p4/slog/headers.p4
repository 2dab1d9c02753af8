// SPDX-License-Identifier: Apache-2.0
// What the load generator reads and writes.
#ifndef BOBTAIL_SLOG_HEADERS
#define BOBTAIL_SLOG_HEADERS

typedef bit<9> port_t;
typedef bit<8> target_t;
typedef int<32> word_t; // of a register

const bit<16> ETHERNET_IPV4 = 0x0800;
const bit<16> ETHERNET_ARP = 0x0806;
const bit<16> ARP_REPLY = 2;
const bit<8> IPV4_PLAIN = 0x45; // version 4, no options
const bit<8> IP_UDP = 17;

// What became of a packet (W-13, S-23): indices of a counter.
const bit<4> OUT_NONE = 0;
const bit<4> OUT_SKIPPED = 1;   // a template between two that are kept
const bit<4> OUT_SPENT = 2;     // all packets of the run were sent
const bit<4> OUT_NOWHERE = 3;   // there is no target of this number
const bit<4> OUT_SENT = 4;
const bit<4> OUT_RECEIVED = 5;  // and in a bucket
const bit<4> OUT_RANGE = 6;     // a latency that cannot be (S-20)
const bit<4> OUT_UNMATCHED = 7; // for our addresses, and no reply of a target
const bit<4> OUT_STRANGE = 8;   // others' traffic, for a station that is not known
const bit<4> OUT_BROKEN = 9;    // the frame ends before its headers do

// In front of what a Tofino's packet generator makes.
header timer_h {
    bit<48> words;
}

// From ingress to egress.
header mark_h {
    bit<8> stamps;
}

header ethernet_h {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

header arp_h {
    bit<16> hardware;
    bit<16> protocol;
    bit<8> hardware_length;
    bit<8> protocol_length;
    bit<16> operation;
    bit<48> sender_mac;
    bit<32> sender;
    bit<48> target_mac;
    bit<32> target;
}

header ipv4_h {
    bit<8> version;
    bit<8> tos;
    bit<16> length;
    bit<16> id;
    bit<16> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<16> src_net;
    bit<16> src_host;
    bit<16> dst_net;
    bit<16> dst_host;
}

header udp_h {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    timer_h timer;
    mark_h mark;
    ethernet_h ethernet;
    arp_h arp;
    ipv4_h ipv4;
    udp_h udp;
}

struct pair_t {
    word_t lo;
    word_t hi;
}

struct meta_t {
    bit<1> broken; // the frame ends before its headers do
    bit<1> bad_checksum;
    bit<3> discard;
    bit<1> generated;
    bit<1> ours;
    bit<1> reply;
    bit<1> asked;
    bit<48> mac;
    bit<32> run;
    bit<32> packets;
    bit<16> last;
    bit<16> draw;
    bit<32> gap;
    bit<32> kept;
    bit<32> within;
    bit<32> turn;
    target_t target;
    bit<31> sent;
    bit<31> came;
    bit<31> latency;
    bit<12> bucket;
    bit<4> outcome;
    bit<1> stamped;
    bit<31> now;
}

#endif
