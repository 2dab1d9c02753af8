// SPDX-License-Identifier: Apache-2.0
// The flow-control box of a HovercRaft group in a pipeline (R-330 to R-334): dataplane/src/replica/box.c with
// `as_switch` is its twin. It lets a bounded number of requests into a group, sends each to every member by a multicast
// group, and answers DROP to the rest. A shell includes this file behind its architecture and its spelling of registers
// (W-1, ../spelling/README.md).
//
// What is in the group has a slot. Requests are offered the slots of their group in turn, so that the slot that is
// offered is the one that was taken longest ago. FEEDBACK frees a slot. What nobody frees is free again by itself when
// its time is over (R-332): nothing leaks, and nobody has to come and count.
//
// What was said of a pair its copies hear, too (I-6). So a pair has a place while it is in the group, and for a moment
// after that. A request that finds no slot makes a second pass, which ends its stay before it is answered. A pair may be
// in either of two places; while others have both, a request is passed over in silence.
//
// A fresh switch is all zeros: every slot and every place is free, since stamps have their first bit set (W-2).
#ifndef BOBTAIL_BOX
#define BOBTAIL_BOX

#include "headers.p4"

#define GROUPS 256
#define SLOTS 65536  // of all groups
#define PLACES 32768 // each of two
#define SAIDS 65536  // by which of the two, and place
#define OUTCOMES 8192 // by group and reason

// In units of 2^20 ns, or of 2^10 µs on bmv2. A request that was not answered for so long is in the group no more: a
// member keeps one for a second without an order, and may answer it within another one.
#define STAY 2048
// So long a copy of a packet may be under way behind the end of that.
#define LINGER 16

// A pair's place: who has it, and since when.
#define PLACE(W) \
    PAIRS(places_##W, PLACES) \
    ON_PAIR(claim_##W, places_##W, { \
        if (meta.stamp - v.hi >= STAY) { \
            v.lo = meta.print; \
            v.hi = meta.stamp; \
            rv = PLACE_CLAIMED; \
        } else if (v.lo == meta.print) { \
            rv = PLACE_SAME; \
        } \
    }) \
    ON_PAIR(ask_##W, places_##W, { \
        if (v.lo == meta.print && meta.stamp - v.hi < STAY) { \
            rv = PLACE_SAME; \
        } \
    }) \
    ON_PAIR(leave_##W, places_##W, { \
        if (v.lo == meta.print && v.hi - meta.due - 1 < STAY) { \
            v.hi = meta.due; \
            rv = PLACE_SAME; \
        } \
    })

control Admit(inout headers_t hdr, inout meta_t meta, in port_t in_port, in bit<31> now, inout port_t out_port,
              inout bit<16> group, inout bit<3> discard) {
    HASHES

    // Requests take turns, also those that get no slot.
    WORDS(turns, GROUPS)
    ON_WORD(next_turn, turns, {
        rv = v;
        if (v >= (bit<32>)meta.last) {
            v = 0;
        } else {
            v = v + 1;
        }
    })

    PLACE(a)
    PLACE(b)

    // Which slot a pair was offered.
    WORDS(offers, SAIDS)
    ON_WORD(offer, offers, { v = meta.mine; })
    ON_WORD(offered, offers, { rv = v; })

    // Who has a slot, and since when.
    PAIRS(slots, SLOTS)
    ON_PAIR(take, slots, {
        if (meta.stamp - v.hi >= STAY) {
            v.lo = meta.print;
            v.hi = meta.stamp;
            rv = SAID_PASSED;
        }
    })
    ON_PAIR(free, slots, {
        if (v.lo == meta.print) {
            v.hi = 0;
            rv = 1;
        }
    })

    WORDS(saids, SAIDS)
    ON_WORD(say, saids, { v = meta.took; })
    ON_WORD(said_before, saids, { rv = v; })

    COUNTER(outcomes, OUTCOMES, 0x12000001)

    @id(0x01000001)
    action admit(number_t number, bit<16> base, bit<16> last, bit<16> longest, bit<16> copies) {
        meta.served = 1;
        meta.number = number;
        meta.base = base;
        meta.last = last;
        meta.longest = longest;
        meta.copies = copies;
    }

    @id(0x02000001)
    table box_of {
        key = {
            hdr.ipv4.dst: exact;
            hdr.udp.dst: exact;
        }
        actions = { admit; NoAction; }
        default_action = NoAction();
        size = GROUPS;
    }

    // FEEDBACK is believed by where it comes from (W-8).
    @id(0x01000002)
    action is_member(number_t number) {
        meta.member = 1;
        meta.number = number;
    }

    @id(0x02000002)
    table member {
        key = {
            hdr.ipv4.src: exact;
            hdr.udp.src: exact;
            in_port: exact;
            hdr.ipv4.dst: exact;
            hdr.udp.dst: exact;
        }
        actions = { is_member; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    @id(0x01000003)
    action is_own() {
        meta.own = 1;
    }

    @id(0x02000003)
    table own {
        key = { hdr.ipv4.dst: exact; }
        actions = { is_own; NoAction; }
        default_action = NoAction();
        size = GROUPS;
    }

    // Who asks for an address of ours is told where it is.
    @id(0x01000004)
    action is_asked(bit<48> mac) {
        meta.asked = 1;
        meta.mac = mac;
    }

    @id(0x02000004)
    table address {
        key = {
            hdr.arp.target: exact;
            hdr.arp.operation: exact;
            hdr.arp.protocol: exact;
        }
        actions = { is_asked; NoAction; }
        default_action = NoAction();
        size = GROUPS;
    }

    // Everybody else's traffic.
    @id(0x01000005)
    action to_port(port_t port) {
        out_port = port;
    }

    // A group for each port, of all others: who sends to everybody does not hear himself.
    @id(0x01000006)
    action to_group(bit<16> number) {
        group = number + (bit<16>)in_port;
    }

    @id(0x01000007)
    action nowhere() {
        discard = 1;
        meta.reason = R_NOWHERE;
    }

    @id(0x02000005)
    table station {
        key = { hdr.ethernet.dst: exact; }
        actions = { to_port; to_group; nowhere; }
        default_action = nowhere();
        size = 4096;
    }

    // The DROP of a request: its word in the body, what follows becomes the frame's trailer (W-9).
    action answer() {
        bit<48> mac = hdr.ethernet.src;
        bit<32> address = hdr.ipv4.src;
        bit<16> udp_port = hdr.udp.src;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = address;
        hdr.ipv4.length = 40;
        hdr.ipv4.ttl = 64;
        hdr.udp.src = hdr.udp.dst;
        hdr.udp.dst = udp_port;
        hdr.udp.length = 20;
        hdr.r2p2.size = 8;
        hdr.r2p2.kind = R2P2_DROP;
        hdr.r2p2.policy = 1;
        hdr.r2p2.first = 1;
        hdr.r2p2.last = 1;
        hdr.r2p2.flags = 0;
        hdr.r2p2.count = 1;
        hdr.four.setValid();
        hdr.four.kind = BODY_DROP[31:24];
        hdr.four.length = BODY_DROP[23:16];
        hdr.four.rest = BODY_DROP[15:0];
        meta.answered = 1;
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

    action refuse(in reason_t why) {
        meta.is = IS_REFUSED;
        meta.reason = why;
    }

    action bad(in reason_t why) {
        meta.is = IS_BAD;
        meta.reason = why;
    }

    action to_all(in reason_t why) {
        meta.reason = why;
        hdr.note.kind = NOTE_COPY;
        group = meta.copies;
    }

    apply {
        // Stage 0: who is it for, and sums of one operation each.
        hdr.note.setValid();
        hdr.note.kind = NOTE_NONE;
        meta.stamp = 1w1 ++ now;
        if (hdr.ipv4.isValid()) {
            own.apply();
        }
        if (hdr.arp.isValid()) {
            address.apply();
        }
        if (hdr.udp.isValid()) {
            box_of.apply();
            member.apply();
            meta.gap = hdr.ipv4.length - hdr.udp.length;
        }
        if (hdr.r2p2.isValid()) {
            meta.room = hdr.udp.length - (bit<16>)hdr.r2p2.size;
        }
        if (hdr.feedback.isValid()) {
            meta.client = hdr.feedback.client;
            meta.client_port = hdr.feedback.port;
            meta.req_id = hdr.feedback.req_id;
        } else if (hdr.r2p2.isValid()) {
            meta.client = hdr.ipv4.src;
            meta.client_port = hdr.udp.src;
            meta.req_id = hdr.r2p2.req_id;
        }

        // Stage 1: what it is.
        hdr.note.number = meta.number;
        meta.spare = meta.room |-| meta.longest;
        meta.due = meta.stamp - (STAY - LINGER);
        if (meta.served == 1) {
            if (hdr.loop.isValid()) {
                meta.is = IS_RELEASE;
            } else if (meta.bad_checksum == 1) {
                bad(R_CHECKSUM);
            } else if (meta.fault == R_OPTION || meta.fault == R_UNORDERED || meta.fault == R_TOO_LONG) {
                if (meta.gap != 20) {
                    bad(R_LENGTH);
                } else if (meta.room[15:15] == 1 || meta.room < 8) {
                    bad(R_SIZE);
                } else {
                    refuse(meta.fault);
                }
            } else if (meta.fault != R_NONE) {
                bad(meta.fault);
            } else if (hdr.r2p2.kind != R2P2_REQUEST) {
                bad(R_TYPE);
            } else if (meta.gap != 20) {
                bad(R_LENGTH);
            } else if (meta.room[15:15] == 1 || meta.room < 8) {
                bad(R_SIZE);
            } else if (meta.spare > 8 || hdr.r2p2.size > 56) {
                refuse(R_TOO_LONG);
            } else {
                meta.is = IS_REQUEST;
            }
        } else if (meta.member == 1) {
            if (meta.bad_checksum == 1) {
                bad(R_CHECKSUM);
            } else if (meta.fault != R_NONE) {
                bad(meta.fault);
            } else if (hdr.r2p2.kind != R2P2_FEEDBACK) {
                bad(R_TYPE);
            } else if (meta.gap != 20) {
                bad(R_LENGTH);
            } else if (meta.room != 40) {
                bad(R_REPORT);
            } else {
                meta.is = IS_REPORT;
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

        // Stage 2: which pair it is of which group.
        HASH16_4(meta.hashed, places_hash, meta.client, meta.client_port, meta.req_id, meta.number)
        HASH32_4(meta.print, prints_hash, meta.client, meta.client_port, meta.req_id, meta.number)
        meta.place_a = meta.hashed & 0x7fff;
        meta.place_b = meta.print[15:0] | 0x8000;

        // Stages 3 to 5: is the pair known? Who finds his first place taken tries the second one.
        if (meta.is == IS_REQUEST) {
            RUN(meta.turn, next_turn, meta.number);
            meta.mine = (bit<32>)meta.base + meta.turn;
            RUN(meta.a, claim_a, meta.place_a);
            if (meta.a == PLACE_TAKEN) {
                RUN(meta.b, claim_b, meta.place_b[14:0]);
            } else {
                RUN(meta.b, ask_b, meta.place_b[14:0]);
            }
        } else if (meta.is == IS_REPORT || meta.is == IS_RELEASE) {
            RUN(meta.a, leave_a, meta.place_a);
            RUN(meta.b, leave_b, meta.place_b[14:0]);
        }

        // Stages 6 and 7: the place that counts.
        if (meta.b != PLACE_TAKEN) {
            meta.place = meta.place_b;
        } else {
            meta.place = meta.place_a;
        }
        if (meta.b == PLACE_SAME) {
            meta.known = 1;
        } else if (meta.b == PLACE_CLAIMED) {
            meta.fresh = 1;
        } else if (meta.a == PLACE_SAME) {
            meta.known = 1;
        } else if (meta.a == PLACE_CLAIMED) {
            meta.fresh = 1;
        }

        // Stages 8 to 10: the slot, and what is said.
        if (meta.is == IS_REQUEST) {
            if (meta.fresh == 1) {
                DO(offer, meta.place);
                RUN(meta.took, take, meta.mine);
                DO(say, meta.place);
            } else if (meta.known == 1) {
                RUN(meta.said, said_before, meta.place);
            }
        } else if (meta.is == IS_REPORT) {
            if (meta.known == 1) {
                RUN(meta.slot, offered, meta.place);
                RUN(meta.took, free, meta.slot);
            }
        }

        // The last stage: where it goes.
        if (meta.is == IS_REQUEST) {
            if (meta.took == SAID_PASSED) {
                to_all(R_PASSED);
            } else if (meta.said == SAID_PASSED) {
                to_all(R_PASSED_AGAIN);
            } else if (meta.fresh == 1) {
                hdr.loop.setValid();
                hdr.loop.port = (bit<16>)in_port;
                out_port = LOOP_PORT;
            } else if (meta.known == 1) {
                meta.reason = R_BUSY_AGAIN;
                answer();
                out_port = in_port;
            } else {
                discard = 1;
                meta.reason = R_CROWDED;
            }
        } else if (meta.is == IS_REPORT) {
            discard = 1;
            if (meta.took == 1) {
                meta.reason = R_ANSWERED;
            } else {
                meta.reason = R_UNKNOWN;
            }
        } else if (meta.is == IS_RELEASE) {
            meta.reason = R_BUSY;
            out_port = hdr.loop.port[8:0];
            hdr.loop.setInvalid();
            answer();
        } else if (meta.is == IS_REFUSED) {
            out_port = in_port;
            answer();
        } else if (meta.is == IS_BAD) {
            discard = 1;
        } else if (meta.asked == 1) {
            answer_arp();
            out_port = in_port;
        } else {
            station.apply();
        }
        if (meta.reason != R_NONE) {
            COUNT(outcomes, INDEX(meta.number, meta.reason));
        }
    }
}

// What each copy becomes: a request for one member, with the client's address.
control Copy(inout headers_t hdr, inout meta_t meta, in bit<16> copy, inout bit<3> discard) {
    @id(0x01000008)
    action to_member(bit<48> mac, bit<32> ip, bit<16> udp_port) {
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = ip;
        hdr.udp.src = hdr.udp.dst;
        hdr.udp.dst = udp_port;
    }

    @id(0x01000009)
    action to_nobody() {
        discard = 1;
    }

    @id(0x02000006)
    table receiver {
        key = {
            hdr.note.number: exact;
            copy: exact;
        }
        actions = { to_member; to_nobody; }
        default_action = to_nobody();
        size = 4096;
    }

    apply {
        if (hdr.note.kind == NOTE_COPY) {
            hdr.forwarded.setValid();
            hdr.forwarded.kind = OPTION_FORWARDED;
            hdr.forwarded.length = 8;
            hdr.forwarded.port = hdr.udp.src;
            hdr.forwarded.address = hdr.ipv4.src;
            hdr.ipv4.length = hdr.ipv4.length + 8;
            hdr.ipv4.ttl = 64;
            hdr.udp.length = hdr.udp.length + 8;
            hdr.r2p2.size = hdr.r2p2.size + 8;
            meta.copied = 1;
            if (hdr.udp.checksum != 0) {
                meta.forwarded = 1;
            }
            receiver.apply();
        }
        hdr.note.setInvalid();
    }
}
#endif
