// SPDX-License-Identifier: Apache-2.0
// What the flow-control box reads and writes: the frame, the loop's own header, the note from ingress to egress, and
// what a packet is known by on its way through.
#ifndef BOBTAIL_BOX_HEADERS
#define BOBTAIL_BOX_HEADERS

typedef bit<9> port_t;
typedef bit<8> number_t; // of a group on this switch
typedef bit<5> reason_t;
typedef bit<32> word_t; // of a register

const bit<16> ETHERNET_IPV4 = 0x0800;
const bit<16> ETHERNET_ARP = 0x0806;
const bit<16> ARP_REPLY = 2;
const bit<8> IPV4_PLAIN = 0x45; // version 4, no options
const bit<8> IP_UDP = 17;
const bit<8> R2P2_MAGIC = 0xcc;
const bit<4> R2P2_REQUEST = 0;
const bit<4> R2P2_FEEDBACK = 2;
const bit<4> R2P2_DROP = 4;
const bit<8> OPTION_FORWARDED = 1;
const bit<32> BODY_DROP = 0x44524f50; // "DROP"

// What a packet is to this switch.
const bit<8> IS_OTHER = 0;   // for somebody else
const bit<8> IS_REQUEST = 1; // of a client
const bit<8> IS_REPORT = 2;  // a member's FEEDBACK: a request was answered
const bit<8> IS_REFUSED = 3; // a request that is answered with DROP
const bit<8> IS_RELEASE = 4; // the second pass of one that found no slot
const bit<8> IS_BAD = 5;     // discarded

// Of a place for a pair.
const bit<32> PLACE_TAKEN = 0;   // it is another pair's
const bit<32> PLACE_CLAIMED = 1; // it was free
const bit<32> PLACE_SAME = 2;    // it is this pair's already

// What was said of a pair.
const bit<32> SAID_REFUSED = 0;
const bit<32> SAID_PASSED = 1;

// The kinds of a note.
const bit<8> NOTE_NONE = 0;
const bit<8> NOTE_COPY = 1; // to every member

// What became of a packet (W-13): indices of a counter. The parser gives the first ones.
const reason_t R_NONE = 0;
const reason_t R_SHORT = 1;         // M-1
const reason_t R_MAGIC = 2;         // M-2
const reason_t R_SIZE = 3;          // M-3
const reason_t R_TRUNCATED = 4;     // M-4: the frame ends before its headers do
const reason_t R_FRAGMENT = 5;      // M-4
const reason_t R_IP_OPTIONS = 6;    // M-4
const reason_t R_CHECKSUM = 7;      // M-4
const reason_t R_LENGTH = 8;        // M-4: IP and UDP lengths contradict
const reason_t R_TYPE = 9;          // M-5
const reason_t R_COUNT = 10;        // M-7, M-8
const reason_t R_REST = 11;         // of a request of several packets, refused with its first
const reason_t R_REPORT = 12;       // M-21: no FEEDBACK about a pair
const reason_t R_SOURCE = 13;       // M-23
const reason_t R_OPTION_SIZE = 14;  // R-55
const reason_t R_OPTION_LENGTH = 15;
const reason_t R_FORGED = 16;       // options that only boxes and routers write
const reason_t R_NOT_SERVED = 17;   // for an address of ours, and no group's
const reason_t R_CROWDED = 18;      // not answered: other pairs have both of its places
const reason_t R_UNKNOWN = 19;      // FEEDBACK of a pair that is not here (any more)
const reason_t R_OPTION = 20;       // refused: an option that must be understood
const reason_t R_UNORDERED = 21;    // refused: policies 0 and 1 go to a member
const reason_t R_TOO_LONG = 22;     // refused: more than one packet of a member carries (R-314)
const reason_t R_BUSY = 23;         // refused: at the limit (R-330)
const reason_t R_BUSY_AGAIN = 24;   // refused as its first copy was
const reason_t R_PASSED = 25;       // to every member
const reason_t R_PASSED_AGAIN = 26; // and a copy of it
const reason_t R_ANSWERED = 27;     // FEEDBACK that freed a slot
const reason_t R_NOWHERE = 28;      // others' traffic, for a station that is not known

header ethernet_h {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

// Of Ethernet and IPv4.
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

header udp_h {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;
}

header r2p2_h {
    bit<8> magic;
    bit<8> size;
    bit<4> kind;
    bit<4> policy;
    bit<1> first;
    bit<1> last;
    bit<6> flags;
    bit<16> req_id;
    bit<16> count;
}

// Option 1: the client's address, before all others.
header forwarded_h {
    bit<8> kind;
    bit<8> length;
    bit<16> port;
    bit<32> address;
}

// The first four bytes behind the R2P2 header: the first option, or the body. A DROP has its word there (W-9).
header four_h {
    bit<8> kind;
    bit<8> length;
    bit<16> rest;
}

header feedback_h {
    bit<16> req_id;
    bit<16> port;
    bit<32> client;
    bit<8> version;
    bit<5> flags;
    bit<1> pair;
    bit<1> leave;
    bit<1> join;
    bit<16> n;
}

// In front of all others while a refused request is in the loop.
header loop_h {
    bit<16> port; // where it came in
}

// In front of all others between ingress and egress.
header note_h {
    bit<8> kind;
    number_t number;
}

struct headers_t {
    note_h note;
    loop_h loop;
    ethernet_h ethernet;
    arp_h arp;
    ipv4_h ipv4;
    udp_h udp;
    r2p2_h r2p2;
    forwarded_h forwarded;
    four_h four;
    feedback_h feedback;
}

struct pair_t {
    word_t lo;
    word_t hi;
}

struct meta_t {
    // set by the parser
    reason_t fault;
    bit<1> bad_checksum;
    bit<16> sum; // of what the UDP checksum covers, without what is rewritten
    bit<3> discard;
    // what the tables say
    bit<8> is;
    bit<1> served;
    bit<1> member;
    bit<1> own;
    bit<1> asked; // by ARP for an address of ours
    bit<48> mac;
    number_t number;
    bit<16> base;    // its slots begin there
    bit<16> last;    // slots less one
    bit<16> longest; // body that it takes
    bit<16> copies;  // the multicast group of its members
    // the request
    bit<16> gap;
    bit<16> room;
    bit<16> spare;
    bit<32> client;
    bit<16> client_port;
    bit<16> req_id;
    bit<16> hashed;
    bit<32> print;
    bit<32> stamp;
    bit<32> due;
    bit<16> place_a;
    bit<16> place_b;
    bit<16> place;
    bit<32> turn;
    bit<32> mine; // the slot that it may take
    bit<32> a;
    bit<32> b;
    bit<1> fresh;
    bit<1> known;
    bit<32> slot;
    bit<32> took;
    bit<32> said;
    bit<32> spent; // of a register action that tells nothing
    reason_t reason;
    // checksums
    bit<1> summed; // it came with a UDP checksum
    bit<1> copied;
    bit<1> forwarded; // with a UDP checksum that has to follow
    bit<1> answered;
    // what was, for an architecture that has only whole sums
    bit<16> less_sum;
    bit<32> less_src;
    bit<32> less_dst;
    bit<16> less_from;
    bit<16> less_to;
    bit<16> less_length;
    bit<16> less_size;
}

#endif
