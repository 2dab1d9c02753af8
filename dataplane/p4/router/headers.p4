// SPDX-License-Identifier: Apache-2.0
// What the router reads and writes: the frame, the loop's own header, and what a packet is known by on its way through.
#ifndef BOBTAIL_ROUTER_HEADERS
#define BOBTAIL_ROUTER_HEADERS

typedef bit<9> port_t;
typedef bit<11> row_t;     // 16 workers, two to each of the eight credit registers
typedef bit<5> slot_t;     // 1 to 16 in a row; 0: none
typedef bit<11> service_t;
typedef bit<5> reason_t;
typedef int<32> word_t; // of a register

const slot_t NO_SLOT = 0;

const bit<16> ETHERNET_IPV4 = 0x0800;
const bit<16> ETHERNET_ARP = 0x0806;
const bit<16> ARP_REQUEST = 1;
const bit<16> ARP_REPLY = 2;
const bit<8> IPV4_PLAIN = 0x45; // version 4, no options
const bit<8> IP_UDP = 17;
const bit<8> R2P2_MAGIC = 0xcc;
const bit<4> R2P2_REQUEST = 0;
const bit<4> R2P2_FEEDBACK = 2;
const bit<4> R2P2_DROP = 4;
const bit<8> OPTION_ROUTER = 5;
const bit<32> BODY_DROP = 0x44524f50; // "DROP"

// The kinds of the loop's header.
const bit<8> LOOP_REQUEST = 1; // a request that waits
const bit<8> LOOP_REPORT = 2;  // a FEEDBACK between ingress and egress of its first pass
const bit<8> LOOP_CREDIT = 3;  // its second pass: a change of credits

// What a packet is to this switch.
const bit<8> IS_OTHER = 0;   // for somebody else
const bit<8> IS_REQUEST = 1; // to be given to a worker
const bit<8> IS_REPORT = 2;  // FEEDBACK
const bit<8> IS_CREDIT = 3;
const bit<8> IS_REFUSED = 4; // a request that is answered with DROP
const bit<8> IS_BAD = 5;     // discarded

// What is to be done with a worker's credits.
const bit<8> CREDIT_KEEP = 0;
const bit<8> CREDIT_TAKE = 1;
const bit<8> CREDIT_ADD = 2;
const bit<8> CREDIT_CLEAR = 3;

// How a service chooses (R-130, R-107).
const bit<8> CHOOSE_CREDIT = 0;
const bit<8> CHOOSE_TURN = 1;
const bit<8> CHOOSE_RANDOM = 2;

// Why a packet was not simply passed on (W-13). The parser gives the first ones; the numbers are indices of a counter.
const reason_t R_NONE = 0;
const reason_t R_SHORT = 1;        // M-1
const reason_t R_MAGIC = 2;        // M-2
const reason_t R_SIZE = 3;         // M-3
const reason_t R_TRUNCATED = 4;    // M-4: the frame ends before its headers do
const reason_t R_FRAGMENT = 5;     // M-4
const reason_t R_IP_OPTIONS = 6;   // M-4
const reason_t R_CHECKSUM = 7;     // M-4
const reason_t R_LENGTH = 8;       // M-4: IP and UDP lengths contradict
const reason_t R_TYPE = 9;         // M-5
const reason_t R_COUNT = 10;       // M-7
const reason_t R_SINGLE = 11;      // M-8
const reason_t R_INDEX = 12;       // M-9
const reason_t R_REPORT = 13;      // M-21
const reason_t R_COUNTERS = 14;    // M-22
const reason_t R_SOURCE = 15;      // M-23
const reason_t R_OPTION_SIZE = 16; // R-55
const reason_t R_OPTION_LENGTH = 17;
const reason_t R_FORWARDER = 18;   // options that only routers write
const reason_t R_TRAILING = 19;    // M-25
const reason_t R_NOT_SERVED = 20;  // for an address of ours, and no service's
const reason_t R_OPTION = 21;      // refused: an option that must be understood
const reason_t R_POLICY = 22;      // refused: a policy other than 0 (R-12)
const reason_t R_NO_ROOM = 23;     // refused: no room for the router's option (R-62)
const reason_t R_FULL = 24;        // refused: as many wait as may
const reason_t R_LATE = 25;        // refused: waited too long
const reason_t R_OLD = 26;         // FEEDBACK older than what is known (R-109)
const reason_t R_REPORTED = 27;    // FEEDBACK that was believed
const reason_t R_CREDITED = 28;    // its second pass
const reason_t R_NOBODY = 29;      // refused: a service without workers
const reason_t R_SHED = 30;        // refused: by the rate of its class (R-205)
const reason_t R_NOWHERE = 31;     // others' traffic, for a station that is not known

// What was noted of a request's pair.
const bit<3> NOTE_NONE = 0;
const bit<3> NOTE_KNOWN = 1;    // its time is known
const bit<3> NOTE_LOST = 2;     // and that of another one is not any more (R-209)
const bit<3> NOTE_AGAIN = 3;    // the same pair before its FEEDBACK: neither's is known
const bit<3> NOTE_MEASURED = 4; // its FEEDBACK came
const bit<3> NOTE_UNSEEN = 5;   // the FEEDBACK of a pair that is not known
const bit<3> NOTE_DROPPED = 6;  // its worker dropped it (R-211)

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

// Option 5, which a Transparent router puts before all others (R-62), filled up to a multiple of four.
header router_h {
    bit<8> kind;
    bit<8> length;
    bit<32> id;
    bit<16> padding;
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
    bit<6> flags;
    bit<1> leave;
    bit<1> join;
    bit<16> n;
    bit<32> incarnation;
    bit<32> received_high; // the low halves are compared by signed difference
    bit<32> received;
    bit<32> served_high;
    bit<32> served;
}

// In front of all others while a packet is in the loop.
header loop_h {
    bit<8> kind;
    bit<8> raised; // this is the first pass of a higher round (W-5)
    bit<16> round;
    bit<8> group;
    bit<8> tried;    // groups of this round
    bit<16> port;    // where the request came in
    bit<32> since;   // and when
    bit<32> admitted; // 0: the loop was full
    bit<32> delta;
    bit<32> life; // of whom it was said
    bit<16> worker;
    bit<16> row;
    bit<8> pair;
    bit<8> half;
    bit<16> service;
}

// From ingress to egress of a FEEDBACK's first pass.
header note_h {
    bit<32> before; // T_loss ago
    bit<32> now;
    bit<32> received;
    bit<32> sent;
    bit<8> restarted;
}

struct headers_t {
    loop_h loop;
    note_h note;
    ethernet_h ethernet;
    arp_h arp;
    ipv4_h ipv4;
    udp_h udp;
    r2p2_h r2p2;
    router_h router;
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
    bit<16> sum; // of what the UDP checksum covers, without what a router rewrites
    bit<3> discard;
    // what the tables say
    bit<8> is;
    bit<1> served;
    bit<1> member;
    bit<1> own;
    bit<1> own_source;
    bit<1> asked; // by ARP for an address of ours
    bit<48> mac;
    bit<8> choose;
    service_t service;
    service_t member_service;
    row_t base;
    bit<8> last_group;
    bit<16> top; // depth − 1
    bit<16> mask;
    bit<32> limit;
    bit<32> patience;
    bit<32> loss;
    bit<32> router;
    // credits
    bit<8> credit;
    bit<32> spent; // of a register action that tells nothing
    row_t row;
    bit<32> found;
    bit<32> need;
    bit<8> pair;
    bit<8> half;
    bit<32> delta;
    bit<32> delta_lo;
    bit<32> delta_hi;
    slot_t slot;
    // the request
    bit<32> turn;
    bit<16> draw;
    bit<32> round;
    bit<32> age;
    bit<32> left;
    bit<16> gap;
    bit<16> room;
    bit<1> waits;
    // the FEEDBACK
    bit<16> worker;
    bit<32> backlog;
    bit<32> newer;
    bit<32> life;
    bit<32> n;
    bit<32> n_before;
    bit<32> n_change;
    bit<32> received;
    bit<32> served_before;
    bit<32> progress;
    bit<32> sent;
    reason_t reason;
    // admission
    bit<16> label; // class and flags of option 3
    bit<1> judged;
    bit<12> class_number;
    bit<7> measure;
    bit<16> rate;
    bit<16> over;
    bit<32> until;
    bit<32> time;
    bit<16> place;
    bit<32> print;
    bit<32> start;
    bit<32> latency;
    bit<9> bucket;
    bit<3> noted;
    bit<1> admitted;
    bit<1> heard;
    bit<1> told;
    bit<1> counted;
    bit<1> refused;
    // egress
    bit<32> excess;
    bit<32> due;
    bit<32> past;
    bit<32> least;
    bit<32> most;
    bit<32> lost;
    bit<32> up;
    bit<32> down;
    // checksums
    bit<1> summed; // it came with a UDP checksum
    bit<1> rewritten;
    bit<1> forwarded; // with a UDP checksum that has to follow
    bit<1> answered;
    // what was, for an architecture that has only whole sums
    bit<16> less_sum;
    bit<16> less_dst_high;
    bit<16> less_dst_low;
    bit<16> less_port;
    bit<16> less_length;
    bit<16> less_size;
}

#endif
