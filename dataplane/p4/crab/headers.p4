// SPDX-License-Identifier: Apache-2.0
// What the balancer of connections reads and writes.
#ifndef BOBTAIL_CRAB_HEADERS
#define BOBTAIL_CRAB_HEADERS

typedef bit<9> port_t;
typedef bit<8> vip_t;
typedef bit<5> reason_t;
typedef int<32> word_t; // of a register

const bit<16> ETHERNET_IPV4 = 0x0800;
const bit<16> ETHERNET_ARP = 0x0806;
const bit<16> ARP_REPLY = 2;
const bit<8> IPV4_PLAIN = 0x45; // version 4, no options
const bit<8> IP_TCP = 6;

// The option of connection redirection (C-1), and what fills it up where it is put in.
const bit<16> REDIRECT = 0x2a06;
const bit<16> NOP_REDIRECT = 0x012a; // and its length in the next byte
const bit<16> TWO_NOPS = 0x0101;
const bit<8> NOT_FOUND = 255;

// What to do with a segment.
const bit<8> IS_OTHER = 0;    // for somebody else
const bit<8> IS_SYN = 1;      // to be redirected
const bit<8> IS_FALLBACK = 2; // by the hash (C-41)
const bit<8> IS_BAD = 3;      // discarded

// How a server is chosen (C-60).
const bit<8> CHOOSE_TURN = 0;
const bit<8> CHOOSE_RANDOM = 1;

// What became of a segment for a VIP (W-13): indices of a counter.
const reason_t R_NONE = 0;
const reason_t R_REDIRECTED = 1;
const reason_t R_INSERTED = 2;    // redirected, the option was put in (C-22)
const reason_t R_FALLBACK_SYN = 3;    // by the hash: a client that cannot be redirected (C-40)
const reason_t R_FALLBACK_SPACE = 4;  // by the hash: no room for the option (C-8)
const reason_t R_FALLBACK_OTHER = 5;  // by the hash: no SYN (C-41)
const reason_t R_FALLBACK_UNREAD = 6; // by the hash: options that this program does not read
const reason_t R_FALLBACK_SERVERS = 7; // by the hash: no server that echoes (C-43)
const reason_t R_TRUNCATED = 8;
const reason_t R_HEADER = 9;
const reason_t R_CHECKSUM = 10;
const reason_t R_FRAGMENT = 11;
const reason_t R_IP_OPTIONS = 12;
const reason_t R_TTL = 13;
const reason_t R_NO_SERVER = 14;
const reason_t R_FALLBACK = 15; // this VIP has none
const reason_t R_NOT_SERVED = 16; // for an address of ours, and no VIP's port
const reason_t R_NOWHERE = 17;    // others' traffic, for a station that is not known

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
    bit<32> src;
    bit<32> dst;
}

header tcp_h {
    bit<16> src;
    bit<16> dst;
    bit<32> seq;
    bit<32> ack;
    bit<4> offset;
    bit<4> reserved;
    bit<8> flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

// An option that is put in front of all others (C-22).
header inserted_h {
    bit<16> head;
    bit<32> address;
    bit<16> tail;
}

// Four bytes of options.
header word_h {
    bit<16> high;
    bit<16> low;
}

struct headers_t {
    ethernet_h ethernet;
    arp_h arp;
    ipv4_h ipv4;
    tcp_h tcp;
    inserted_h inserted;
    word_h w0;
    word_h w1;
    word_h w2;
    word_h w3;
    word_h w4;
    word_h w5;
    word_h w6;
    word_h w7;
    word_h w8;
    word_h w9;
}

struct pair_t {
    word_t lo;
    word_t hi;
}

struct meta_t {
    // set by the parser
    reason_t fault;
    bit<1> bad_checksum;
    bit<1> unread;     // options that are none of those that are read
    bit<8> found;      // the word in which the option begins
    bit<1> whole;      // its address is the word behind that one, not half of each
    bit<16> was_high;  // the address that stood in it
    bit<16> was_low;
    bit<16> sum;       // of what the TCP checksum covers, without what is rewritten
    bit<3> discard;
    // what the tables say
    bit<8> is;
    bit<1> asked;
    bit<48> mac;
    bit<1> own;
    bit<1> served;
    vip_t vip;
    bit<8> choose;
    bit<16> last;
    bit<16> mask;
    bit<1> direct;
    bit<1> capable;
    bit<1> inserts;
    bit<1> foreign;
    bit<32> address; // of the VIP
    // the choice
    bit<16> left; // bytes behind the IP header
    bit<16> need; // and in the TCP header
    bit<16> short;
    bit<16> draw;
    bit<32> turn;
    bit<16> flow;
    bit<16> place;
    bit<32> print;
    bit<32> time;
    bit<32> before;
    bit<32> choice;
    bit<12> spread;
    reason_t reason;
    // checksums
    bit<1> passed; // it goes on, perhaps as it is: TTL
    bit<1> redirected;
    // what was, for an architecture that has only whole sums
    bit<16> less_sum;
    bit<16> less_dst_high;
    bit<16> less_dst_low;
    bit<16> less_word;
    bit<16> less_high;
    bit<16> less_low;
}

#endif
