// SPDX-License-Identifier: Apache-2.0
// CRAB's balancer in a pipeline (C-20 to C-28, C-40 to C-43): of a connection it sees the SYN, writes the VIP into the
// option of redirection, sends the SYN to a server and forgets it. What cannot be redirected goes by a hash to a server
// of the same network, its addresses untouched. A shell includes this file behind its architecture and says its
// spelling of registers (W-1, ../spelling/README.md).
#ifndef BOBTAIL_CRAB
#define BOBTAIL_CRAB

#include "headers.p4"

#define VIPS 256
#define RECENT 65536 // SYNs of the last three seconds, by their hash
#define OUTCOMES 8192 // by VIP and reason

control Balance(inout headers_t hdr, inout meta_t meta, in port_t in_port, in bit<32> now, inout port_t out_port,
                inout bit<16> group, inout bit<3> discard) {
    GENERATOR
    HASHES

    WORDS(turns, VIPS)
    ON_WORD(next_turn, turns, {
        rv = v;
        if (v >= (int<32>)(bit<32>)meta.last) {
            v = 0;
        } else {
            v = v + 1;
        }
    })

    // Whose SYN was the last one in this place: addresses, ports and first number.
    WORDS(prints, RECENT)
    ON_WORD(look, prints, {
        rv = v;
        v = (int<32>)meta.print;
    })

    // When it was first seen, and whom it was given to (C-25).
    PAIRS(recent, RECENT)
    ON_PAIR(again, recent, {
        if ((int<32>)meta.time - v.lo <= PATIENCE) {
            rv = v.hi;
        } else {
            rv = (int<32>)meta.turn;
            v.lo = (int<32>)meta.time;
            v.hi = (int<32>)meta.turn;
        }
    })
    ON_PAIR(first, recent, {
        rv = (int<32>)meta.turn;
        v.lo = (int<32>)meta.time;
        v.hi = (int<32>)meta.turn;
    })

    COUNTER(outcomes, OUTCOMES, 0x12000001)
    COUNTER(foreign, VIPS, 0x12000002)
    COUNTER(chosen, 65536, 0x12000003)

    // `last`: of the turns; `mask`: of the 2^k numbers that chance draws from.
    @id(0x01000001)
    action balance(vip_t number, bit<8> choose, bit<16> last, bit<16> mask, bit<1> direct, bit<1> capable) {
        meta.served = 1;
        meta.vip = number;
        meta.choose = choose;
        meta.last = last;
        meta.mask = mask;
        meta.direct = direct;
        meta.capable = capable;
        meta.address = hdr.ipv4.dst;
    }

    @id(0x02000001)
    table vip {
        key = {
            hdr.ipv4.dst: exact;
            hdr.tcp.dst: exact;
        }
        actions = { balance; NoAction; }
        default_action = NoAction();
        size = VIPS;
    }

    @id(0x01000002)
    action is_own() {
        meta.own = 1;
    }

    @id(0x02000002)
    table own {
        key = { hdr.ipv4.dst: exact; }
        actions = { is_own; NoAction; }
        default_action = NoAction();
        size = VIPS;
    }

    // Who asks for a VIP is told where it is.
    @id(0x01000003)
    action is_asked(bit<48> mac) {
        meta.asked = 1;
        meta.mac = mac;
    }

    @id(0x02000003)
    table address {
        key = {
            hdr.arp.target: exact;
            hdr.arp.operation: exact;
            hdr.arp.protocol: exact;
        }
        actions = { is_asked; NoAction; }
        default_action = NoAction();
        size = VIPS;
    }

    // Servers that echo the option, by turn or chance; a weight is as many entries. Source and ports stay (C-21).
    @id(0x01000004)
    action to_server(bit<16> number, port_t port, bit<48> own_mac, bit<48> mac, bit<32> server) {
        out_port = port;
        hdr.ethernet.src = own_mac;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        hdr.ipv4.dst = server;
        meta.passed = 1;
        meta.redirected = 1;
        COUNT(chosen, number);
    }

    @id(0x02000004)
    table ring {
        key = {
            meta.vip: exact;
            meta.choice: exact;
        }
        actions = { to_server; NoAction; }
        default_action = NoAction();
        size = 65536;
    }

    // All servers that are up, filled as Maglev does (C-41), in 4,096 places a VIP.
    @id(0x01000005)
    action to_neighbour(port_t port, bit<48> own_mac, bit<48> mac) {
        out_port = port;
        hdr.ethernet.src = own_mac;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        meta.passed = 1;
    }

    @id(0x02000005)
    table spread {
        key = {
            meta.vip: exact;
            meta.spread: exact;
        }
        actions = { to_neighbour; NoAction; }
        default_action = NoAction();
        size = 131072;
    }

    // Everybody else's traffic.
    @id(0x01000006)
    action to_port(port_t port) {
        out_port = port;
    }

    @id(0x01000007)
    action to_group(bit<16> number) {
        group = number + (bit<16>)in_port;
    }

    @id(0x01000008)
    action nowhere() {
        discard = 1;
        meta.reason = R_NOWHERE;
    }

    @id(0x02000006)
    table station {
        key = { hdr.ethernet.dst: exact; }
        actions = { to_port; to_group; nowhere; }
        default_action = nowhere();
        size = 4096;
    }

    action answer_arp() {
        bit<32> asker = hdr.arp.sender;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = meta.mac;
        hdr.arp.operation = ARP_REPLY;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.sender_mac = meta.mac;
        hdr.arp.sender = hdr.arp.target;
        hdr.arp.target = asker;
    }

    action put_in() {
        hdr.inserted.setValid();
        hdr.inserted.head = REDIRECT;
        hdr.inserted.address = meta.address;
        hdr.inserted.tail = TWO_NOPS;
        hdr.tcp.offset = hdr.tcp.offset + 2;
        hdr.ipv4.length = hdr.ipv4.length + 8;
    }

    action bad(in reason_t why) {
        meta.is = IS_BAD;
        meta.reason = why;
    }

    action fall_back(in reason_t why) {
        meta.is = IS_FALLBACK;
        meta.reason = why;
    }

// The address stands in the halves of two words, or in the word behind.
#define NAME(K, K1) \
    if (meta.found == K) { \
        if (meta.whole == 1) { \
            hdr.w##K1.high = meta.address[31:16]; \
            hdr.w##K1.low = meta.address[15:0]; \
        } else { \
            hdr.w##K.low = meta.address[31:16]; \
            hdr.w##K1.high = meta.address[15:0]; \
        } \
    }

    apply {
        // Stage 0: who is it for, and sums of one operation each.
        meta.time = now;
        if (hdr.ipv4.isValid()) {
            own.apply();
        }
        if (hdr.arp.isValid()) {
            address.apply();
        }
        if (hdr.tcp.isValid()) {
            vip.apply();
            meta.left = hdr.ipv4.length - 20;
            meta.need = 10w0 ++ hdr.tcp.offset ++ 2w0;
            HASH16(meta.flow, place_of_flow, hdr.ipv4.src, hdr.tcp.src, hdr.ipv4.dst)
            meta.spread = meta.flow[11:0];
            HASH16_4(meta.place, place_of_syn, hdr.ipv4.src, hdr.tcp.src, hdr.ipv4.dst, hdr.tcp.seq)
            HASH32_4(meta.print, print_of_syn, hdr.ipv4.src, hdr.tcp.src, hdr.ipv4.dst, hdr.tcp.seq)
        }
        DRAW(meta.draw)

        // Stages 1 and 2: what it is.
        if (meta.served == 1) {
            meta.short = meta.left - meta.need;
            if (meta.bad_checksum == 1) {
                bad(R_CHECKSUM);
            } else if (meta.fault != R_NONE) {
                bad(meta.fault);
            } else if (meta.short[15:15] == 1) {
                bad(R_TRUNCATED);
            } else if (hdr.ipv4.ttl == 0 || hdr.ipv4.ttl == 1) {
                bad(R_TTL);
            } else if (hdr.tcp.flags[4:4] == 1 || hdr.tcp.flags[2:0] != 2) {
                fall_back(R_FALLBACK_OTHER);
            } else if (meta.found != NOT_FOUND) {
                meta.is = IS_SYN;
                meta.reason = R_REDIRECTED;
                if (meta.was_high != 0 || meta.was_low != 0) {
                    meta.foreign = 1; // overwritten (C-28)
                }
            } else if (meta.unread == 1) {
                fall_back(R_FALLBACK_UNREAD);
            } else if (meta.capable == 0) {
                fall_back(R_FALLBACK_SYN);
            } else if (hdr.tcp.offset == 14 || hdr.tcp.offset == 15) {
                fall_back(R_FALLBACK_SPACE);
            } else {
                meta.is = IS_SYN;
                meta.reason = R_INSERTED;
                meta.inserts = 1;
            }
        } else if (meta.own == 1) {
            if (meta.fault == R_NONE) {
                bad(R_NOT_SERVED);
            } else {
                bad(meta.fault);
            }
        } else if (!hdr.ethernet.isValid()) {
            bad(R_TRUNCATED);
        }

        // Stages 3 to 6: which server. A repeated SYN takes its turn, too, and goes where the first one went.
        if (meta.is == IS_SYN) {
            if (meta.choose == CHOOSE_RANDOM) {
                meta.turn = (bit<32>)(meta.draw & meta.mask);
            } else {
                RUN(meta.turn, next_turn, meta.vip);
            }
            RUN(meta.before, look, meta.place);
            if (meta.before == meta.print) {
                RUN(meta.choice, again, meta.place);
            } else {
                RUN(meta.choice, first, meta.place);
            }
            if (!ring.apply().hit) {
                fall_back(R_FALLBACK_SERVERS);
            }
        }

        // The rest: where it goes.
        if (meta.is == IS_SYN) {
            if (meta.inserts == 1) {
                put_in();
            }
            NAME(0, 1)
            NAME(1, 2)
            NAME(2, 3)
            NAME(3, 4)
            NAME(4, 5)
            NAME(5, 6)
            NAME(6, 7)
            NAME(7, 8)
            NAME(8, 9)
        } else if (meta.is == IS_FALLBACK) {
            if (!spread.apply().hit) {
                bad(R_NO_SERVER);
                discard = 1;
            } else if (meta.direct == 0) {
                bad(R_FALLBACK);
                discard = 1;
            }
        } else if (meta.is == IS_BAD) {
            discard = 1;
        } else if (meta.asked == 1) {
            answer_arp();
            out_port = in_port;
        } else {
            station.apply();
        }
        if (meta.reason != R_NONE) {
            COUNT(outcomes, INDEX(meta.vip, meta.reason));
        }
        if (meta.foreign == 1) {
            COUNT(foreign, meta.vip);
        }
    }
}
#endif
