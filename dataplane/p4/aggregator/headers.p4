// SPDX-License-Identifier: Apache-2.0
// What the aggregator reads and writes: the frame, the messages of a group (dataplane/src/wire/group.h), the note from
// ingress to egress, and what a packet is known by on its way through.
#ifndef BOBTAIL_AGGREGATOR_HEADERS
#define BOBTAIL_AGGREGATOR_HEADERS

typedef bit<9> port_t;
typedef bit<8> number_t; // of a group on this switch
typedef bit<16> slot_t;  // of a member in its group, 1 to 9: its place among the ids; also its copy of a multicast
typedef bit<5> reason_t;
typedef bit<32> word_t; // of a register

const bit<16> ETHERNET_IPV4 = 0x0800;
const bit<16> ETHERNET_ARP = 0x0806;
const bit<16> ARP_REPLY = 2;
const bit<8> IPV4_PLAIN = 0x45; // version 4, no options
const bit<8> IP_UDP = 17;
const bit<8> R2P2_MAGIC = 0xcc;
const bit<4> R2P2_GROUP = 5;

const bit<8> GROUP_VERSION = 1;
const bit<16> FROM_AGGREGATOR = 0xffff;
const bit<8> TYPE_COMMITTED = 4;
const bit<8> TYPE_PROBE = 5;
const bit<8> TYPE_PROBE_REPLY = 6;
const bit<8> TYPE_SHARED = 12;
const bit<8> TYPE_SHARED_REPLY = 13;

// What a packet is to this switch.
const bit<8> IS_OTHER = 0;  // for somebody else
const bit<8> IS_PROBE = 1;  // a leader asks
const bit<8> IS_SHARED = 2; // a leader's entries
const bit<8> IS_ANSWER = 3; // a follower's answer
const bit<8> IS_BAD = 4;    // discarded

// How a number stands to the one that is kept.
const bit<32> SAME = 0;
const bit<32> NEWER = 1;
const bit<32> OLDER = 2;

// The kinds of a note.
const bit<8> NOTE_NONE = 0;
const bit<8> NOTE_PROBE = 1;
const bit<8> NOTE_SHARED = 2;
const bit<8> NOTE_ANSWER = 3;

// What became of a packet (W-13): indices of a counter. The parser gives the first ones.
const reason_t R_NONE = 0;
const reason_t R_SHORT = 1;
const reason_t R_MAGIC = 2;
const reason_t R_OPTIONS = 3; // R2P2 options: to a switch members send none, not even a tag (W-8)
const reason_t R_TRUNCATED = 4;
const reason_t R_FRAGMENT = 5;
const reason_t R_IP_OPTIONS = 6;
const reason_t R_CHECKSUM = 7;
const reason_t R_LENGTH = 8;
const reason_t R_TYPE = 9;       // no R2P2 packet of type 5 that is one packet
const reason_t R_NOT_SERVED = 10; // for an address of ours, and no group's
const reason_t R_SOURCE = 11;    // of nobody who is in the group, by address and port (W-8)
const reason_t R_MALFORMED = 12;
const reason_t R_FOREIGN = 13; // of another cluster or group
const reason_t R_UNKNOWN = 14; // of a type that is not for an aggregator
const reason_t R_STALE = 15;
const reason_t R_EPOCH = 16;
const reason_t R_STRANGER = 17;
const reason_t R_LOW = 18;
const reason_t R_HIGH = 19;
const reason_t R_REFUSAL = 20;
const reason_t R_PROBE = 21;
const reason_t R_PASSED = 22;
const reason_t R_ANNOUNCED = 23;
const reason_t R_NOTHING_NEW = 24;
const reason_t R_MANY = 25; // a probe with more members than there are slots
const reason_t R_NOWHERE = 26; // others' traffic, for a station that is not known

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

// Numbers of 64 bits are two words: `…_high`, and the low half, which is kept (W-11).
header group_h {
    bit<8> version;
    bit<8> kind;
    bit<16> from;
    bit<32> group;
    bit<32> term_high;
    bit<32> term;
    bit<32> cluster_high;
    bit<32> cluster;
}

// A leader's entries follow.
header shared_h {
    bit<32> count;
    bit<32> prev_high;
    bit<32> prev;
    bit<32> prev_term_high;
    bit<32> prev_term;
    bit<32> commit_high;
    bit<32> commit;
    bit<32> epoch_high;
    bit<32> epoch;
}

header answer_h {
    bit<32> flags;
    bit<32> index_high;
    bit<32> index;
    bit<32> last_high;
    bit<32> last;
    bit<32> applied_high;
    bit<32> applied;
    bit<32> epoch_high;
    bit<32> epoch;
}

header probe_h {
    bit<32> flags;
    bit<32> epoch_high;
    bit<32> epoch;
    bit<32> floor_high;
    bit<32> floor;
}

// The configuration of a probe: read for its checksum alone. Who is in the group the tables say (R-344).
header members_h {
    bit<16> count;
}

header member_h {
    bit<32> word;
}

header committed_h {
    bit<32> count;
    bit<32> epoch_high;
    bit<32> epoch;
    bit<32> commit_high;
    bit<32> commit;
}

header done_h {
    bit<16> id;
    bit<16> reserved;
    bit<32> applied_high;
    bit<32> applied;
}

// Which disk the sender has (group_packet.h).
header disk_h {
    bit<32> high;
    bit<32> low;
}

// In front of all others between ingress and egress.
header note_h {
    bit<8> kind;
    number_t number;
    slot_t slot;  // of who sent it
    bit<8> fresh; // the registers begin anew
    bit<8> loud;  // a commit is told to all
    bit<8> rose;  // and is what the answer says
    bit<8> told;  // its applied index is of the same high half
}

// What checksums are of, in order.
#define GROUP_FIELDS \
    hdr.r2p2.magic, hdr.r2p2.size, hdr.r2p2.kind, hdr.r2p2.policy, hdr.r2p2.first, hdr.r2p2.last, hdr.r2p2.flags, \
    hdr.r2p2.req_id, hdr.r2p2.count, hdr.group.version, hdr.group.kind, hdr.group.from, hdr.group.group, \
    hdr.group.term_high, hdr.group.term, hdr.group.cluster_high, hdr.group.cluster
#define DISK_FIELDS hdr.disk.high, hdr.disk.low
#define PROBE_FIELDS \
    hdr.probe.flags, hdr.probe.epoch_high, hdr.probe.epoch, hdr.probe.floor_high, hdr.probe.floor
#define ANSWER_FIELDS \
    hdr.answer.flags, hdr.answer.index_high, hdr.answer.index, hdr.answer.last_high, hdr.answer.last, \
    hdr.answer.applied_high, hdr.answer.applied, hdr.answer.epoch_high, hdr.answer.epoch
#define PROBE_REPLY_FIELDS GROUP_FIELDS, PROBE_FIELDS, DISK_FIELDS
#define DONE_FIELDS(K) hdr.d##K.id, hdr.d##K.reserved, hdr.d##K.applied_high, hdr.d##K.applied
#define COMMIT_FIELDS \
    GROUP_FIELDS, hdr.committed.count, hdr.committed.epoch_high, hdr.committed.epoch, hdr.committed.commit_high, \
    hdr.committed.commit, DONE_FIELDS(1), DONE_FIELDS(2), DONE_FIELDS(3), DONE_FIELDS(4), DONE_FIELDS(5), \
    DONE_FIELDS(6), DONE_FIELDS(7), DONE_FIELDS(8), DONE_FIELDS(9), DISK_FIELDS

struct headers_t {
    note_h note;
    ethernet_h ethernet;
    arp_h arp;
    ipv4_h ipv4;
    udp_h udp;
    r2p2_h r2p2;
    group_h group;
    shared_h shared;
    answer_h answer;
    probe_h probe;
    members_h members;
    member_h m1;
    member_h m2;
    member_h m3;
    member_h m4;
    member_h m5;
    member_h m6;
    member_h m7;
    member_h m8;
    member_h m9;
    committed_h committed;
    done_h d1;
    done_h d2;
    done_h d3;
    done_h d4;
    done_h d5;
    done_h d6;
    done_h d7;
    done_h d8;
    done_h d9;
    disk_h disk;
}

struct pair_t {
    word_t lo;
    word_t hi;
}

struct meta_t {
    // set by the parser
    reason_t fault;
    bit<1> bad_checksum;
    bit<1> bad_sum; // UDP's
    bit<8> kind; // 0: none that is for an aggregator
    bit<32> epoch_high;
    bit<32> epoch;
    bit<32> high;  // of the index that is judged
    bit<32> index; // and its low half
    bit<3> discard;
    bit<16> zero;
    // what the tables say
    bit<8> is;
    bit<1> served;
    bit<1> member;
    bit<1> own;
    bit<1> asked; // by ARP for an address of ours
    bit<48> mac;
    number_t number;
    bit<32> group;
    bit<32> cluster_high;
    bit<32> cluster;
    bit<32> table_high; // the epoch of the tables
    bit<32> table_low;
    bit<32> half; // half of the voters
    bit<16> copies; // the multicast group of its members
    slot_t slot;
    slot_t counts; // the slot whose register it raises; 0: a learner
    bit<16> id;
    // what is found
    bit<16> gap;
    bit<16> room;
    bit<32> end;
    bit<1> crosses;
    bit<32> term_is;
    bit<32> leader;
    bit<1> fresh;
    bit<32> high_is;
    bit<32> lack; // answers that a quorum lacks, less one
    bit<32> lacks;
    bit<32> h1;
    bit<32> h2;
    bit<32> h3;
    bit<32> h4;
    bit<32> h5;
    bit<32> h6;
    bit<32> h7;
    bit<32> h8;
    bit<32> h9;
    bit<32> below;
    bit<32> above;
    bit<32> rose;
    bit<32> pending;
    bit<32> spent; // of a register action that tells nothing
    reason_t reason;
    // checksums
    bit<1> passed;
    bit<1> answered;
    bit<1> announced;
    bit<16> sum; // of what the UDP checksum covers, without what is rewritten
    // what was, for an architecture that has only whole sums
    bit<16> less_sum;
    bit<32> less_src;
    bit<32> less_dst;
    bit<16> less_from;
    bit<16> less_to;
}

#endif
