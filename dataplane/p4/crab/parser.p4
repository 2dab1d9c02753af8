// SPDX-License-Identifier: Apache-2.0
// The parser's states, between the braces of a shell's parser: it begins with parse_ethernet.
//
// Options of a SYN are read four bytes at a time, in the forms that TCPs write: MSS; NOP and window scale; SACK
// permitted and timestamps, together or with NOPs; NOPs; and the option of redirection, at the beginning of a word or
// behind two NOPs. What is none of these is not guessed at: `unread`.
    state parse_ethernet {
        pkt.extract(hdr.ethernet);
        meta.found = NOT_FOUND;
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
            (IPV4_PLAIN, 0 &&& 0x3fff, IP_TCP): parse_tcp;
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

    state parse_tcp {
        pkt.extract(hdr.tcp);
        TCP_READ
        transition select(hdr.tcp.offset, hdr.tcp.flags) {
            (0 &&& 12, _): bad_header;
            (4, _): bad_header;
            (_, 2 &&& 0x17): at_0; // SYN without ACK, RST and FIN (C-20)
            default: accept;
        }
    }

    state bad_header {
        meta.fault = R_HEADER;
        transition accept;
    }

    state unread {
        meta.unread = 1;
        transition accept;
    }

// A word in place K; behind it N1, behind two more N3. END: the offset of a header that ends before it.
#define WORD(K, K1, K2, END, END1, END2) \
    state at_##K { \
        transition select(hdr.tcp.offset) { \
            END: accept; \
            default: word_##K; \
        } \
    } \
    state word_##K { \
        pkt.extract(hdr.w##K); \
        transition select(hdr.w##K.high, hdr.w##K.low) { \
            (0x0204, _): at_##K1; \
            (0x0103, 0x0300 &&& 0xff00): at_##K1; \
            (0x0303, 0x0001 &&& 0x00ff): at_##K1; \
            (0x0101, 0x0402): at_##K1; \
            (0x0402, 0x0101): at_##K1; \
            (0x0101, 0x0101): at_##K1; \
            (0x0402, 0x080a): stamps_##K; \
            (0x0101, 0x080a): stamps_##K; \
            (REDIRECT, _): split_##K; \
            (TWO_NOPS, REDIRECT): whole_##K; \
            (0 &&& 0xff00, _): accept; \
            (0x0100 &&& 0xffff, _): accept; \
            (0x0101, 0 &&& 0xff00): accept; \
            default: unread; \
        } \
    } \
    state stamps_##K { \
        transition select(hdr.tcp.offset) { \
            END1: unread; \
            END2: unread; \
            default: skip_##K; \
        } \
    } \
    state skip_##K { \
        pkt.extract(hdr.w##K1); \
        pkt.extract(hdr.w##K2); \
        transition AFTER_##K; \
    } \
    state split_##K { \
        transition select(hdr.tcp.offset) { \
            END1: unread; \
            default: address_##K; \
        } \
    } \
    state address_##K { \
        pkt.extract(hdr.w##K1); \
        meta.found = K; \
        meta.was_high = hdr.w##K.low; \
        meta.was_low = hdr.w##K1.high; \
        transition found; \
    } \
    state whole_##K { \
        transition select(hdr.tcp.offset) { \
            END1: unread; \
            default: behind_##K; \
        } \
    } \
    state behind_##K { \
        pkt.extract(hdr.w##K1); \
        meta.found = K; \
        meta.whole = 1; \
        meta.was_high = hdr.w##K1.high; \
        meta.was_low = hdr.w##K1.low; \
        transition found; \
    }

#define AFTER_0 at_3
#define AFTER_1 at_4
#define AFTER_2 at_5
#define AFTER_3 at_6
#define AFTER_4 at_7
#define AFTER_5 at_8
#define AFTER_6 at_9
#define AFTER_7 accept

    WORD(0, 1, 2, 5, 6, 7)
    WORD(1, 2, 3, 6, 7, 8)
    WORD(2, 3, 4, 7, 8, 9)
    WORD(3, 4, 5, 8, 9, 10)
    WORD(4, 5, 6, 9, 10, 11)
    WORD(5, 6, 7, 10, 11, 12)
    WORD(6, 7, 8, 11, 12, 13)
    WORD(7, 8, 9, 12, 13, 14)

    // The last two words have room for the option alone, and one of them for none.
    state at_8 {
        transition select(hdr.tcp.offset) {
            13: accept;
            14: accept;
            default: word_8;
        }
    }

    state word_8 {
        pkt.extract(hdr.w8);
        transition select(hdr.w8.high, hdr.w8.low) {
            (REDIRECT, _): address_8;
            (TWO_NOPS, REDIRECT): behind_8;
            (NOP_REDIRECT, _): unread;
            default: accept;
        }
    }

    state address_8 {
        pkt.extract(hdr.w9);
        meta.found = 8;
        meta.was_high = hdr.w8.low;
        meta.was_low = hdr.w9.high;
        transition found;
    }

    state behind_8 {
        pkt.extract(hdr.w9);
        meta.found = 8;
        meta.whole = 1;
        meta.was_high = hdr.w9.high;
        meta.was_low = hdr.w9.low;
        transition found;
    }

    state at_9 {
        transition accept;
    }

    state found {
        FOUND
        transition accept;
    }
