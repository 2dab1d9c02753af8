// SPDX-License-Identifier: Apache-2.0
// The parser's states, between the braces of a shell's parser: it begins with parse_loop or parse_ethernet. A packet
// that is no R2P2 is parsed as far as it goes; whether that matters the tables say.
    state parse_loop {
        pkt.extract(hdr.loop);
        transition select(hdr.loop.kind) {
            LOOP_CREDIT: accept;
            default: parse_ethernet;
        }
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
        UDP_READ
        transition select(hdr.udp.length) {
            0 &&& 0xfff0: short_datagram;
            default: parse_r2p2;
        }
    }

    state short_datagram {
        meta.fault = R_SHORT;
        transition accept;
    }

    // The 16-byte FEEDBACK of old workers has a header of any kind (R-7) and no counters: not for a switch (W-3).
    state parse_r2p2 {
        pkt.extract(hdr.r2p2);
        R2P2_READ
        transition select(hdr.udp.length, hdr.r2p2.magic, hdr.r2p2.size, hdr.r2p2.kind) {
            (24, _, _, R2P2_FEEDBACK): bad_report;
            (_, R2P2_MAGIC, 8, R2P2_REQUEST): parse_request;
            (_, R2P2_MAGIC, 8, R2P2_FEEDBACK): parse_feedback;
            (_, R2P2_MAGIC, 12, R2P2_FEEDBACK): skip_4;
            (_, R2P2_MAGIC, 16, R2P2_FEEDBACK): skip_8;
            (_, R2P2_MAGIC, 20, R2P2_FEEDBACK): skip_12;
            (_, R2P2_MAGIC, 24, R2P2_FEEDBACK): skip_16;
            (_, R2P2_MAGIC, 28, R2P2_FEEDBACK): skip_20;
            (_, R2P2_MAGIC, 32, R2P2_FEEDBACK): skip_24;
            (_, R2P2_MAGIC, 36, R2P2_FEEDBACK): skip_28;
            (_, R2P2_MAGIC, 40, R2P2_FEEDBACK): skip_32;
            (_, R2P2_MAGIC, 44, R2P2_FEEDBACK): skip_36;
            (_, R2P2_MAGIC, 48, R2P2_FEEDBACK): skip_40;
            (_, R2P2_MAGIC, 52, R2P2_FEEDBACK): skip_44;
            (_, R2P2_MAGIC, 56, R2P2_FEEDBACK): skip_48;
            (_, R2P2_MAGIC, 60, R2P2_FEEDBACK): skip_52;
            (_, R2P2_MAGIC, 64, R2P2_FEEDBACK): skip_56;
            (_, R2P2_MAGIC, 64, R2P2_REQUEST): parse_request;
            (_, R2P2_MAGIC, 0 &&& 0xf8, _): bad_size;
            (_, R2P2_MAGIC, 1 &&& 1, _): bad_option_size;
            (_, R2P2_MAGIC, 2 &&& 3, _): bad_option_size;
            (_, R2P2_MAGIC, 0x40 &&& 0xc0, _): bad_option_size;
            (_, R2P2_MAGIC, 0x80 &&& 0x80, _): bad_option_size;
            (_, R2P2_MAGIC, _, R2P2_REQUEST): parse_request;
            (_, R2P2_MAGIC, _, _): bad_type;
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

    // The first option is judged here, those behind it by the worker.
    state judge_option {
        transition select(hdr.four.kind, hdr.four.length) {
            (0, _): judge_flags; // padding: one byte
            (_, 0 &&& 0xfe): bad_option_length;
            (0x80 &&& 0x80, _): must_understand;
            (1, 8): from_router;
            (1, 20): from_router;
            (2, 12): from_router;
            (5, 6): from_router;
            (6, 6): from_router;
            (3, 4): class_option;
            (4, 10): judge_flags;
            (7, 18): judge_flags;
            (8, 4): judge_flags;
            (0 &&& 0xf8, _): bad_option_length; // 1 to 7, which are known
            (8, _): bad_option_length;
            default: judge_flags;
        }
    }

    state class_option {
        meta.label = hdr.four.rest;
        transition judge_flags;
    }

    state bad_option_length {
        meta.fault = R_OPTION_LENGTH;
        transition accept;
    }

    state from_router {
        meta.fault = R_FORWARDER;
        transition accept;
    }

    // As judge_flags: what is no request has no answer.
    state must_understand {
        transition select(hdr.r2p2.first, hdr.r2p2.last, hdr.r2p2.count) {
            (1, 1, 1): other_option;
            (1, _, 0): bad_count;
            (1, 0, 1): bad_single;
            (1, 0, _): other_option;
            (1, 1, _): bad_single;
            (0, _, 0): bad_index;
            default: bad_type;
        }
    }

    // Nothing is known to be refused before it is known whom to answer.
    state other_option {
        transition select(hdr.ipv4.src, hdr.udp.src) {
            (0xe0000000 &&& 0xe0000000, _): bad_source;
            (0, _): bad_source;
            (_, 0): bad_source;
            default: refused_option;
        }
    }

    state refused_option {
        meta.fault = R_OPTION;
        transition accept;
    }

    state judge_flags {
        transition select(hdr.r2p2.first, hdr.r2p2.last, hdr.r2p2.count) {
            (1, 1, 1): judge_policy;
            (1, _, 0): bad_count;
            (1, 0, 1): bad_single;
            (1, 0, _): judge_policy;
            (1, 1, _): bad_single;
            (0, _, 0): bad_index;
            default: bad_type;
        }
    }

    state bad_count {
        meta.fault = R_COUNT;
        transition accept;
    }

    state bad_single {
        meta.fault = R_SINGLE;
        transition accept;
    }

    state bad_index {
        meta.fault = R_INDEX;
        transition accept;
    }

    state judge_policy {
        transition select(hdr.r2p2.policy) {
            0: judge_source;
            default: other_policy;
        }
    }

    state other_policy {
        transition select(hdr.ipv4.src, hdr.udp.src) {
            (0xe0000000 &&& 0xe0000000, _): bad_source;
            (0, _): bad_source;
            (_, 0): bad_source;
            default: refused_policy;
        }
    }

    state refused_policy {
        meta.fault = R_POLICY;
        transition accept;
    }

    state judge_source {
        transition select(hdr.ipv4.src, hdr.udp.src) {
            (0xe0000000 &&& 0xe0000000, _): bad_source;
            (0, _): bad_source;
            (_, 0): bad_source;
            default: accept;
        }
    }

    state bad_source {
        meta.fault = R_SOURCE;
        transition accept;
    }

    // FEEDBACK is consumed: its options are passed over.
    state skip_4 { pkt.advance(32); transition parse_feedback; }
    state skip_8 { pkt.advance(64); transition parse_feedback; }
    state skip_12 { pkt.advance(96); transition parse_feedback; }
    state skip_16 { pkt.advance(128); transition parse_feedback; }
    state skip_20 { pkt.advance(160); transition parse_feedback; }
    state skip_24 { pkt.advance(192); transition parse_feedback; }
    state skip_28 { pkt.advance(224); transition parse_feedback; }
    state skip_32 { pkt.advance(256); transition parse_feedback; }
    state skip_36 { pkt.advance(288); transition parse_feedback; }
    state skip_40 { pkt.advance(320); transition parse_feedback; }
    state skip_44 { pkt.advance(352); transition parse_feedback; }
    state skip_48 { pkt.advance(384); transition parse_feedback; }
    state skip_52 { pkt.advance(416); transition parse_feedback; }
    state skip_56 { pkt.advance(448); transition parse_feedback; }

    state parse_feedback {
        pkt.extract(hdr.feedback);
        transition select(hdr.r2p2.first, hdr.r2p2.last, hdr.r2p2.count, hdr.feedback.version) {
            (1, 1, 1, 0): bad_report;
            (1, 1, 1, 2): bad_report; // an IPv6 pair
            (1, 1, 1, _): accept;
            (1, 1, _, _): bad_single;
            default: bad_count;
        }
    }
