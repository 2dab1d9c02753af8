// SPDX-License-Identifier: Apache-2.0
// The parser's states, between the braces of a shell's parser: it begins with parse_ethernet. A packet that is no
// message of a group is parsed as far as it goes; whether that matters the tables say. What an answer or a probe says
// is covered by UDP's checksum whole: nobody else looks at it. A leader's entries are judged by those who get them.
    state parse_ethernet {
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) {
            ETHERNET_IPV4: parse_ipv4;
            ETHERNET_ARP: parse_arp;
            default: accept;
        }
    }

    state parse_arp {
        pkt.extract(hdr.arp);
        transition accept;
    }

    state parse_ipv4 {
        pkt.extract(hdr.ipv4);
        IPV4_READ
        transition select(hdr.ipv4.version, hdr.ipv4.fragment, hdr.ipv4.protocol) {
            (IPV4_PLAIN, 0 &&& 0x3fff, IP_UDP): parse_udp;
            (IPV4_PLAIN, 0 &&& 0x3fff, _): accept;
            (IPV4_PLAIN, _, _): fragment;
            default: ip_options;
        }
    }

    state fragment {
        meta.fault = R_FRAGMENT;
        transition accept;
    }

    state ip_options {
        meta.fault = R_IP_OPTIONS;
        transition accept;
    }

    state parse_udp {
        pkt.extract(hdr.udp);
        UDP_READ
        transition select(hdr.udp.length) {
            0 &&& 0xfff0: short_datagram;
            default: judge_checksum;
        }
    }

    state short_datagram {
        meta.fault = R_SHORT;
        transition accept;
    }

    state judge_checksum {
        transition select(hdr.udp.checksum) {
            0: no_checksum;
            default: parse_r2p2;
        }
    }

    // W-8: without a tag a checksum is all that speaks for a packet.
    state no_checksum {
        meta.fault = R_CHECKSUM;
        transition accept;
    }

    state parse_r2p2 {
        pkt.extract(hdr.r2p2);
        SUMMED(r2p2)
        transition select(hdr.r2p2.magic, hdr.r2p2.size, hdr.r2p2.kind, hdr.r2p2.policy) {
            (R2P2_MAGIC, 8, R2P2_GROUP, 0): judge_whole;
            (R2P2_MAGIC, 8, _, _): bad_type;
            (R2P2_MAGIC, _, _, _): options;
            default: bad_magic;
        }
    }

    state bad_type {
        meta.fault = R_TYPE;
        transition accept;
    }

    state options {
        meta.fault = R_OPTIONS;
        transition accept;
    }

    state bad_magic {
        meta.fault = R_MAGIC;
        transition accept;
    }

    state judge_whole {
        transition select(hdr.r2p2.first, hdr.r2p2.last, hdr.r2p2.count) {
            (1, 1, 1): parse_group;
            default: bad_type;
        }
    }

    state parse_group {
        pkt.extract(hdr.group);
        SUMMED(group)
        transition select(hdr.group.version, hdr.group.from) {
            (GROUP_VERSION, 0): malformed;
            (GROUP_VERSION, FROM_AGGREGATOR): malformed;
            (GROUP_VERSION, _): judge_term_high;
            default: malformed;
        }
    }

    state malformed {
        meta.fault = R_MALFORMED;
        transition accept;
    }

    state judge_term_high {
        transition select(hdr.group.term_high) {
            0: judge_term;
            0x80000000 &&& 0x80000000: malformed;
            default: judge_type;
        }
    }

    state judge_term {
        transition select(hdr.group.term) {
            0: malformed;
            default: judge_type;
        }
    }

    state judge_type {
        transition select(hdr.group.kind) {
            TYPE_SHARED: parse_shared;
            TYPE_SHARED_REPLY: parse_answer;
            TYPE_PROBE: parse_probe;
            default: accept;
        }
    }

    state parse_shared {
        pkt.extract(hdr.shared);
        meta.kind = TYPE_SHARED;
        meta.epoch_high = hdr.shared.epoch_high;
        meta.epoch = hdr.shared.epoch;
        meta.high = hdr.shared.prev_high;
        meta.index = hdr.shared.prev;
        transition select(hdr.shared.count) {
            0 &&& 0xffffffc0: judge_shared;
            64: judge_shared;
            default: malformed;
        }
    }

    state judge_shared {
        transition select(hdr.shared.prev_high[31:31], hdr.shared.commit_high[31:31], hdr.shared.epoch_high[31:31]) {
            (0, 0, 0): accept;
            default: malformed;
        }
    }

    state parse_answer {
        pkt.extract(hdr.answer);
        SUMMED(answer)
        meta.kind = TYPE_SHARED_REPLY;
        meta.epoch_high = hdr.answer.epoch_high;
        meta.epoch = hdr.answer.epoch;
        meta.high = hdr.answer.index_high;
        meta.index = hdr.answer.index;
        transition select(hdr.answer.flags) {
            0: judge_answer;
            4: judge_answer;
            default: malformed;
        }
    }

    state judge_answer {
        transition select(hdr.answer.index_high[31:31], hdr.answer.last_high[31:31], hdr.answer.applied_high[31:31],
                          hdr.answer.epoch_high[31:31]) {
            (0, 0, 0, 0): parse_disk;
            default: malformed;
        }
    }

    state parse_probe {
        pkt.extract(hdr.probe);
        SUMMED(probe)
        meta.kind = TYPE_PROBE;
        meta.epoch_high = hdr.probe.epoch_high;
        meta.epoch = hdr.probe.epoch;
        meta.high = hdr.probe.floor_high;
        meta.index = hdr.probe.floor;
        transition select(hdr.probe.flags) {
            0: judge_probe;
            8: judge_probe;
            default: malformed;
        }
    }

    state judge_probe {
        transition select(hdr.probe.epoch_high[31:31], hdr.probe.floor_high[31:31]) {
            (0, 0): judge_floor_high;
            default: malformed;
        }
    }

    state judge_floor_high {
        transition select(hdr.probe.floor_high) {
            0: judge_floor;
            default: parse_members;
        }
    }

    state judge_floor {
        transition select(hdr.probe.floor) {
            0: malformed;
            default: parse_members;
        }
    }

    state parse_members {
        pkt.extract(hdr.members);
        SUMMED(members)
        transition select(hdr.members.count, hdr.udp.length) {
            (1, 74): parse_m1;
            (2, 78): parse_m1;
            (3, 82): parse_m1;
            (4, 86): parse_m1;
            (5, 90): parse_m1;
            (6, 94): parse_m1;
            (7, 98): parse_m1;
            (8, 102): parse_m1;
            (9, 106): parse_m1;
            (0, _): malformed;
            (0 &&& 0xfff8, _): bad_length;
            (8, _): bad_length;
            (9, _): bad_length;
            (0 &&& 0xfff0, _): too_many;
            (16, _): too_many;
            default: malformed;
        }
    }

    state bad_length {
        meta.fault = R_LENGTH;
        transition accept;
    }

    state too_many {
        meta.fault = R_MANY;
        transition accept;
    }

// Member K of a configuration, and K1 behind it.
#define MEMBER(K, K1) \
    state parse_m##K { \
        pkt.extract(hdr.m##K); \
        SUMMED(m##K) \
        transition select(hdr.members.count) { \
            K: parse_disk; \
            default: parse_m##K1; \
        } \
    }

    MEMBER(1, 2)
    MEMBER(2, 3)
    MEMBER(3, 4)
    MEMBER(4, 5)
    MEMBER(5, 6)
    MEMBER(6, 7)
    MEMBER(7, 8)
    MEMBER(8, 9)

    state parse_m9 {
        pkt.extract(hdr.m9);
        SUMMED(m9)
        transition parse_disk;
    }

    state parse_disk {
        pkt.extract(hdr.disk);
        DISK_READ
        transition accept;
    }
