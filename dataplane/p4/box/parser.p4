// SPDX-License-Identifier: Apache-2.0
// The parser's states, between the braces of a shell's parser: it begins with parse_loop or parse_ethernet. A packet
// that is no R2P2 is parsed as far as it goes; whether that matters the tables say.
    state parse_loop {
        pkt.extract(hdr.loop);
        transition parse_ethernet;
    }

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
        transition select(hdr.udp.length) {
            0 &&& 0xfff0: short_datagram;
            default: parse_r2p2;
        }
    }

    state short_datagram {
        meta.fault = R_SHORT;
        transition accept;
    }

    state parse_r2p2 {
        pkt.extract(hdr.r2p2);
        transition select(hdr.r2p2.magic, hdr.r2p2.size, hdr.r2p2.kind) {
            (R2P2_MAGIC, 8, R2P2_REQUEST): parse_request;
            (R2P2_MAGIC, 8, R2P2_FEEDBACK): parse_feedback;
            (R2P2_MAGIC, 12, R2P2_FEEDBACK): skip_4;
            (R2P2_MAGIC, 16, R2P2_FEEDBACK): skip_8;
            (R2P2_MAGIC, 20, R2P2_FEEDBACK): skip_12;
            (R2P2_MAGIC, 24, R2P2_FEEDBACK): skip_16;
            (R2P2_MAGIC, 28, R2P2_FEEDBACK): skip_20;
            (R2P2_MAGIC, 32, R2P2_FEEDBACK): skip_24;
            (R2P2_MAGIC, 64, R2P2_REQUEST): parse_request;
            (R2P2_MAGIC, 0 &&& 0xf8, _): bad_size;
            (R2P2_MAGIC, 1 &&& 1, _): bad_option_size;
            (R2P2_MAGIC, 2 &&& 3, _): bad_option_size;
            (R2P2_MAGIC, 0x40 &&& 0xc0, _): bad_option_size;
            (R2P2_MAGIC, 0x80 &&& 0x80, _): bad_option_size;
            (R2P2_MAGIC, _, R2P2_REQUEST): parse_request;
            (R2P2_MAGIC, _, R2P2_FEEDBACK): bad_report;
            (R2P2_MAGIC, _, _): bad_type;
            default: bad_magic;
        }
    }

    state bad_magic {
        meta.fault = R_MAGIC;
        transition accept;
    }

    state bad_size {
        meta.fault = R_SIZE;
        transition accept;
    }

    state bad_option_size {
        meta.fault = R_OPTION_SIZE;
        transition accept;
    }

    state bad_type {
        meta.fault = R_TYPE;
        transition accept;
    }

    state bad_report {
        meta.fault = R_REPORT;
        transition accept;
    }

    state parse_request {
        transition select(hdr.udp.length) {
            16: judge_flags;
            17: judge_flags;
            18: judge_flags;
            19: judge_flags;
            default: parse_four;
        }
    }

    state parse_four {
        pkt.extract(hdr.four);
        transition select(hdr.r2p2.size) {
            8: judge_flags;
            default: judge_option;
        }
    }

    // The first option is judged here, those behind it by the members.
    state judge_option {
        transition select(hdr.four.kind, hdr.four.length) {
            (0x80 &&& 0x80, _): must_understand;
            (1, _): forged;
            (2, _): forged;
            (5, _): forged;
            (6, _): forged;
            (7, 18): judge_flags;
            (7, _): bad_option_length;
            default: judge_flags;
        }
    }

    state bad_option_length {
        meta.fault = R_OPTION_LENGTH;
        transition accept;
    }

    state forged {
        meta.fault = R_FORGED;
        transition accept;
    }

    // Nothing is known to be refused before it is known whom to answer.
    state must_understand {
        meta.fault = R_OPTION;
        transition judge_flags;
    }

    state judge_flags {
        transition select(hdr.r2p2.first, hdr.r2p2.last, hdr.r2p2.count) {
            (1, 1, 1): judge_source;
            (1, _, 0): bad_count;
            (1, 0, 1): bad_count;
            (1, 0, _): judge_source;
            (1, 1, _): bad_count;
            (0, _, 0): bad_count;
            default: rest;
        }
    }

    state bad_count {
        meta.fault = R_COUNT;
        transition accept;
    }

    state rest {
        meta.fault = R_REST;
        transition accept;
    }

    state judge_source {
        transition select(hdr.ipv4.src, hdr.udp.src) {
            (0xe0000000 &&& 0xe0000000, _): bad_source;
            (0, _): bad_source;
            (_, 0): bad_source;
            default: judge_order;
        }
    }

    state bad_source {
        meta.fault = R_SOURCE;
        transition accept;
    }

    // Only a request that some order is for goes to all.
    state judge_order {
        transition select(meta.fault, hdr.r2p2.policy, hdr.r2p2.last) {
            (R_OPTION, _, _): accept;
            (_, 2, 1): accept;
            (_, 3, 1): accept;
            (_, 2, 0): too_long;
            (_, 3, 0): too_long;
            default: unordered;
        }
    }

    state too_long {
        meta.fault = R_TOO_LONG;
        transition accept;
    }

    state unordered {
        meta.fault = R_UNORDERED;
        transition accept;
    }

    // FEEDBACK is consumed: its options are passed over.
    state skip_4 { pkt.advance(32); transition parse_feedback; }
    state skip_8 { pkt.advance(64); transition parse_feedback; }
    state skip_12 { pkt.advance(96); transition parse_feedback; }
    state skip_16 { pkt.advance(128); transition parse_feedback; }
    state skip_20 { pkt.advance(160); transition parse_feedback; }
    state skip_24 { pkt.advance(192); transition parse_feedback; }

    state parse_feedback {
        pkt.extract(hdr.feedback);
        transition select(hdr.r2p2.first, hdr.r2p2.last, hdr.r2p2.count, hdr.feedback.version, hdr.feedback.pair) {
            (1, 1, 1, 1, 1): accept;
            (1, 1, 1, _, _): bad_report; // no pair, or one of IPv6
            default: bad_count;
        }
    }
