// SPDX-License-Identifier: Apache-2.0
// JBSQ(n) in a pipeline (R-129 to R-135, W-2 to W-13). A shell includes this file behind its architecture and its
// spelling of registers (W-1, ../spelling/README.md).
//
// A fresh switch is all zeros, and gives nobody anything (W-2): a register holds credits, n less what is outstanding.
//
// A request's pass asks the sixteen workers of one row, two to a register, whether they have credits to spare. What
// finds none goes round the loop: the loop is the queue. A FEEDBACK makes two passes: the first compares its counters
// with those known, the second adds what that makes to the credits. Nothing is decremented by it (W-3).
#ifndef BOBTAIL_ROUTER
#define BOBTAIL_ROUTER

#include "headers.p4"

#define ROWS 1024
#define WORKERS 32768 // entries by row and slot
#define SERVICES 2048
#define OUTCOMES 65536 // by service and reason

// One of the eight credit registers of a row.
#define CREDITS(J, LO, HI) \
    PAIRS(credits_##J, ROWS) \
    ON_PAIR(take_##J, credits_##J, { \
        if (v.lo > (int<32>)meta.need) { \
            v.lo = v.lo - 1; \
            rv = LO; \
        } else if (v.hi > (int<32>)meta.need) { \
            v.hi = v.hi - 1; \
            rv = HI; \
        } \
    }) \
    ON_PAIR(add_##J, credits_##J, { \
        v.lo = v.lo + (int<32>)meta.delta_lo; \
        v.hi = v.hi + (int<32>)meta.delta_hi; \
    }) \
    ON_PAIR(clear_lo_##J, credits_##J, { v.lo = 0; }) \
    ON_PAIR(clear_hi_##J, credits_##J, { v.hi = 0; })

// A request that has found nobody yet takes; a change of credits finds its own register.
#define VISIT(J) \
    if (meta.credit == CREDIT_TAKE) { \
        if (meta.found == 0) { \
            RUN(meta.found, take_##J, meta.row); \
        } \
    } else if (meta.pair == J) { \
        if (meta.credit == CREDIT_ADD) { \
            DO(add_##J, meta.row); \
        } else if (meta.credit == CREDIT_CLEAR) { \
            if (meta.half == 0) { \
                DO(clear_lo_##J, meta.row); \
            } else { \
                DO(clear_hi_##J, meta.row); \
            } \
        } \
    }

#include "admission.p4"

control Route(inout headers_t hdr, inout meta_t meta, in port_t in_port, in bit<32> now, inout port_t out_port,
              inout bit<16> group, inout bit<3> discard) {
    GENERATOR
    Ask() ask;
    Watch() watch;

    WORDS(turns, SERVICES)
    // Groups take turns to be the first (R-130), workers in a service without credits.
    ON_WORD(next_turn, turns, {
        rv = v;
        if (v >= (int<32>)(bit<32>)meta.last_group) {
            v = 0;
        } else {
            v = v + 1;
        }
    })

    WORDS(rounds, SERVICES)
    // One access a pass (W-5): a request's first pass reads, that which begins a higher round writes, credit resets.
    ON_WORD(read_round, rounds, { rv = v; })
    ON_WORD(raise_round, rounds, { v = (int<32>)(bit<32>)hdr.loop.round; })
    ON_WORD(reset_round, rounds, { v = 0; })

    WORDS(lives, WORKERS)
    // Is it a later incarnation than the one that is known (R-112)?
    ON_WORD(later_life, lives, {
        if (v == 0 || (int<32>)hdr.feedback.incarnation - v > 0) {
            v = (int<32>)hdr.feedback.incarnation;
            rv = 1;
        }
    })
    WORDS(lives_known, WORKERS)
    // The same once more, to tell the incarnation that was known.
    ON_WORD(known_life, lives_known, {
        rv = v;
        if (v == 0 || (int<32>)hdr.feedback.incarnation - v > 0) {
            v = (int<32>)hdr.feedback.incarnation;
        }
    })

    ON_WORD(read_life, lives_known, { rv = v; })

    WORDS(served, WORKERS)
    ON_WORD(advance_served, served, {
        rv = v;
        if ((int<32>)hdr.feedback.served - v > 0) {
            v = (int<32>)hdr.feedback.served;
        }
    })
    ON_WORD(restart_served, served, { v = (int<32>)hdr.feedback.served; })

    WORDS(received, WORKERS)
    ON_WORD(advance_received, received, {
        if ((int<32>)hdr.feedback.received - v > 0) {
            v = (int<32>)hdr.feedback.received;
        }
        rv = v;
    })
    ON_WORD(restart_received, received, {
        v = (int<32>)hdr.feedback.received;
        rv = v;
    })

    WORDS(granted, WORKERS)
    ON_WORD(grant, granted, {
        rv = v;
        v = (int<32>)meta.n;
    })

    CREDITS(0, 1, 2)
    CREDITS(1, 3, 4)
    CREDITS(2, 5, 6)
    CREDITS(3, 7, 8)
    CREDITS(4, 9, 10)
    CREDITS(5, 11, 12)
    CREDITS(6, 13, 14)
    CREDITS(7, 15, 16)

    WORDS(held, SERVICES)
    // The loop is bounded (W-6).
    ON_WORD(enter, held, {
        if (v < (int<32>)meta.limit) {
            v = v + 1;
            rv = 1;
        }
    })
    ON_WORD(leave, held, { v = v - 1; })

    WORDS(sent, WORKERS)
    ON_WORD(count_sent, sent, { v = v + 1; })
    // What the worker received and we never sent we forgot at a restart, or the network copied it: both will be served.
    ON_WORD(observe_sent, sent, {
        rv = v;
        if ((int<32>)meta.received - v > 0) {
            v = (int<32>)meta.received;
        }
    })
    ON_WORD(restart_sent, sent, { v = (int<32>)meta.received; })

    COUNTER(outcomes, OUTCOMES, 0x12000001)
    COUNTER(waits, SERVICES, 0x12000002)
    COUNTER(forwarded, WORKERS, 0x12000003)

    @id(0x01000001)
    action serve(service_t service, bit<8> choose, row_t base, bit<8> last_group, bit<16> top, bit<16> mask,
                 bit<32> limit, bit<32> patience, bit<32> router) {
        meta.served = 1;
        meta.service = service;
        meta.choose = choose;
        meta.base = base;
        meta.last_group = last_group;
        meta.top = top;
        meta.mask = mask;
        meta.limit = limit;
        meta.patience = patience;
        meta.router = router;
    }

    @id(0x02000001)
    table service {
        key = {
            hdr.ipv4.dst: exact;
            hdr.udp.dst: exact;
        }
        actions = { serve; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    // FEEDBACK is believed by where it comes from (W-8).
    @id(0x01000002)
    action report(service_t service, row_t row, slot_t slot, bit<8> pair, bit<8> half, bit<32> loss) {
        meta.member = 1;
        meta.member_service = service;
        meta.row = row;
        meta.slot = slot;
        meta.pair = pair;
        meta.half = half;
        meta.loss = loss;
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
        actions = { report; NoAction; }
        default_action = NoAction();
        size = 16384;
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
        size = 1024;
    }

    @id(0x01000004)
    action is_own_source() {
        meta.own_source = 1;
    }

    @id(0x02000004)
    table own_source {
        key = { hdr.ipv4.src: exact; }
        actions = { is_own_source; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    // Who asks for an address of ours is told where it is.
    @id(0x0100000a)
    action is_asked(bit<48> mac) {
        meta.asked = 1;
        meta.mac = mac;
    }

    @id(0x02000008)
    table address {
        key = {
            hdr.arp.target: exact;
            hdr.arp.operation: exact;
            hdr.arp.protocol: exact;
        }
        actions = { is_asked; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    // The workers of a service without credits, by number; a service with random choice has 2^k entries.
    @id(0x01000005)
    action pick(row_t row, bit<32> slot, bit<8> pair, bit<32> delta_lo, bit<32> delta_hi) {
        meta.row = row;
        meta.found = slot;
        meta.pair = pair;
        meta.delta_lo = delta_lo; // −1 in one of them
        meta.delta_hi = delta_hi;
        meta.credit = CREDIT_ADD;
    }

    @id(0x02000005)
    table ring {
        key = {
            meta.service: exact;
            meta.turn: exact;
        }
        actions = { pick; NoAction; }
        default_action = NoAction();
        size = 16384;
    }

    @id(0x01000006)
    action to_worker(port_t port, bit<48> own_mac, bit<48> mac, bit<32> address, bit<16> udp_port) {
        out_port = port;
        meta.rewritten = 1;
        meta.forwarded = meta.summed;
        hdr.ethernet.src = own_mac;
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = address;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        hdr.ipv4.length = hdr.ipv4.length + 8;
        hdr.udp.dst = udp_port;
        hdr.udp.length = hdr.udp.length + 8;
        hdr.r2p2.size = hdr.r2p2.size + 8;
        hdr.router.setValid();
        hdr.router.kind = OPTION_ROUTER;
        hdr.router.length = 6;
        hdr.router.id = meta.router;
        hdr.router.padding = 0;
        COUNT(forwarded, INDEX(meta.row, meta.found[4:0]));
    }

    // There is no such worker. The counter that belongs to this table has a place for that in each row: slot 0.
    @id(0x0100000e)
    action no_worker() {
        discard = 1;
        COUNT(forwarded, INDEX(meta.row, NO_SLOT));
    }

    @id(0x02000006)
    table target {
        key = {
            meta.row: exact;
            meta.found: exact;
        }
        actions = { to_worker; no_worker; }
        default_action = no_worker();
        size = 16384;
    }

    // Everybody else's traffic: this program has the switch to itself.
    @id(0x01000008)
    action to_port(port_t port) {
        out_port = port;
    }

    // A group for each port, of all others: who sends to everybody does not hear himself.
    @id(0x01000009)
    action to_group(bit<16> number) {
        group = number + (bit<16>)in_port;
    }

    @id(0x01000007)
    action nowhere() {
        discard = 1;
        meta.reason = R_NOWHERE;
    }

    @id(0x02000007)
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
        meta.rewritten = 1;
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

    // In front of a request that found nobody; `admitted` is written behind all.
    action wait_first() {
        hdr.loop.setValid();
        hdr.loop.kind = LOOP_REQUEST;
        hdr.loop.raised = 0;
        hdr.loop.tried = 0;
        hdr.loop.port = (bit<16>)in_port;
        hdr.loop.service = (bit<16>)meta.service;
        hdr.loop.since = now;
        hdr.loop.admitted = 0;
        hdr.loop.round = meta.round[15:0];
    }

    action next_group() {
        hdr.loop.raised = 0;
        hdr.loop.tried = hdr.loop.tried + 1;
    }

    action same_round() {
        hdr.loop.raised = 0;
        hdr.loop.tried = 0;
    }

    action next_round() {
        hdr.loop.raised = 1;
        hdr.loop.tried = 0;
        hdr.loop.round = hdr.loop.round + 1;
    }

    action refuse(in reason_t why) {
        meta.is = IS_REFUSED;
        meta.reason = why;
    }

    action bad(in reason_t why) {
        meta.is = IS_BAD;
        meta.reason = why;
    }

    apply {
        // Stage 0: who is it for, and sums of one operation each.
        if (hdr.loop.isValid()) {
            meta.age = now - hdr.loop.since;
        }
        if (hdr.ipv4.isValid()) {
            own.apply();
            own_source.apply();
        }
        if (hdr.arp.isValid()) {
            address.apply();
        }
        if (hdr.udp.isValid()) {
            service.apply();
            member.apply();
            meta.gap = hdr.ipv4.length - hdr.udp.length;
            if (hdr.udp.checksum != 0) {
                meta.summed = 1;
            }
        }
        if (hdr.r2p2.isValid()) {
            meta.room = hdr.udp.length - (bit<16>)hdr.r2p2.size;
        }
        if (hdr.feedback.isValid()) {
            meta.backlog = hdr.feedback.received - hdr.feedback.served;
            if (hdr.feedback.leave == 0) {
                meta.n = (bit<32>)hdr.feedback.n;
            }
        }
        DRAW(meta.draw)
        ask.apply(hdr, meta, now);

        // Stages 1 and 2: what it is, and what it asks of which row.
        if (hdr.loop.isValid()) {
            if (hdr.loop.kind == LOOP_CREDIT) {
                meta.is = IS_CREDIT;
                meta.reason = R_CREDITED;
                meta.service = hdr.loop.service[10:0];
                meta.row = hdr.loop.row[10:0];
                meta.pair = hdr.loop.pair;
                if (hdr.loop.half == 0) {
                    meta.delta_lo = hdr.loop.delta;
                } else {
                    meta.delta_hi = hdr.loop.delta;
                }
                DO(reset_round, hdr.loop.service[10:0]);
                // What was said of a former life counts no more: its credits were taken away since.
                RUN(meta.life, read_life, hdr.loop.worker);
                if (meta.life == hdr.loop.life) {
                    meta.credit = CREDIT_ADD;
                }
            } else if (meta.served == 0) {
                bad(R_NOT_SERVED); // the service was deleted while it waited: its place is given back
                meta.service = hdr.loop.service[10:0];
                meta.waits = hdr.loop.admitted[0:0];
            } else if (hdr.loop.admitted == 0) {
                refuse(R_FULL);
            } else {
                meta.is = IS_REQUEST;
                meta.waits = 1;
                meta.left = meta.patience - meta.age;
                if (hdr.loop.raised == 1) {
                    DO(raise_round, meta.service);
                }
                if (meta.left[31:31] == 1) {
                    refuse(R_LATE);
                } else {
                    meta.row = meta.base + (row_t)(bit<16>)hdr.loop.group;
                    meta.need = (bit<32>)(meta.top |-| hdr.loop.round);
                    meta.credit = CREDIT_TAKE;
                    if (hdr.loop.tried != meta.last_group) {
                        next_group();
                    } else if (meta.need == 0) {
                        same_round();
                    } else {
                        next_round();
                    }
                    if (hdr.loop.group == meta.last_group) {
                        hdr.loop.group = 0;
                    } else {
                        hdr.loop.group = hdr.loop.group + 1;
                    }
                }
            }
        } else if (meta.served == 1) {
            if (meta.own_source == 1) {
                bad(R_SOURCE);
            } else if (meta.bad_checksum == 1) {
                bad(R_CHECKSUM);
            } else if (meta.fault != R_NONE && meta.fault != R_POLICY && meta.fault != R_OPTION) {
                bad(meta.fault);
            } else if (hdr.r2p2.kind != R2P2_REQUEST) {
                bad(R_TYPE);
            } else if (meta.gap != 20) {
                bad(R_LENGTH);
            } else if (meta.room[15:15] == 1 || meta.room < 8) {
                bad(R_SIZE);
            } else if (meta.fault != R_NONE) {
                refuse(meta.fault);
            } else if (hdr.udp.length > 1472 || hdr.r2p2.size > 56) {
                refuse(R_NO_ROOM);
            } else {
                meta.is = IS_REQUEST;
                meta.over = meta.rate |-| meta.draw;
                meta.counted = meta.judged;
                if (meta.choose == CHOOSE_RANDOM) {
                    meta.turn = (bit<32>)(meta.draw & meta.mask);
                } else {
                    RUN(meta.turn, next_turn, meta.service);
                }
                if (meta.choose == CHOOSE_CREDIT) {
                    RUN(meta.round, read_round, meta.service);
                }
                if (meta.over != 0 && meta.until[31:31] == 0) {
                    refuse(R_SHED);
                    meta.refused = 1;
                } else if (meta.choose == CHOOSE_CREDIT) {
                    meta.admitted = meta.judged;
                    meta.row = meta.base + meta.turn[10:0];
                    meta.need = (bit<32>)(meta.top |-| meta.round[15:0]);
                    meta.credit = CREDIT_TAKE;
                    wait_first();
                    if (meta.last_group != 0) {
                        hdr.loop.tried = 1;
                    } else if (meta.need != 0) {
                        hdr.loop.raised = 1;
                        hdr.loop.round = hdr.loop.round + 1;
                    }
                    if (meta.turn[7:0] == meta.last_group) {
                        hdr.loop.group = 0;
                    } else {
                        hdr.loop.group = meta.turn[7:0] + 1;
                    }
                } else {
                    meta.admitted = meta.judged;
                    if (!ring.apply().hit) {
                        refuse(R_NOBODY);
                    }
                }
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
            } else if (meta.room[15:15] == 1 || meta.room < 40) {
                bad(R_REPORT);
            } else if (hdr.feedback.version == 1 && meta.room != 40) {
                bad(R_TRAILING);
            } else if (meta.backlog[31:31] == 1 || hdr.feedback.n > 64) {
                bad(R_COUNTERS);
            } else {
                meta.is = IS_REPORT;
                meta.service = meta.member_service;
                meta.reason = R_REPORTED;
                meta.heard = hdr.feedback.flags[0:0]; // it names a pair
                RUN(meta.newer, later_life, INDEX(meta.row, meta.slot));
                RUN(meta.life, known_life, INDEX(meta.row, meta.slot));
                if (meta.newer == 1) {
                    // Everything is taken away before anything is given: whatever is sent in between counts (R-112).
                    meta.credit = CREDIT_CLEAR;
                    meta.delta = meta.n - meta.backlog;
                    DO(restart_served, INDEX(meta.row, meta.slot));
                    RUN(meta.received, restart_received, INDEX(meta.row, meta.slot));
                    DO(grant, INDEX(meta.row, meta.slot));
                } else if (meta.life != hdr.feedback.incarnation) {
                    bad(R_OLD);
                } else {
                    RUN(meta.served_before, advance_served, INDEX(meta.row, meta.slot));
                    RUN(meta.received, advance_received, INDEX(meta.row, meta.slot));
                    meta.progress = hdr.feedback.served - meta.served_before;
                    if (meta.progress[31:31] == 1) {
                        bad(R_OLD);
                    } else {
                        RUN(meta.n_before, grant, INDEX(meta.row, meta.slot));
                        meta.n_change = meta.n - meta.n_before;
                        meta.delta = meta.progress + meta.n_change;
                    }
                }
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

        // Stages 3 to 10.
        watch.apply(hdr, meta);
        VISIT(0)
        VISIT(1)
        VISIT(2)
        VISIT(3)
        VISIT(4)
        VISIT(5)
        VISIT(6)
        VISIT(7)

        // Stage 11: where it goes.
        if (meta.is == IS_REQUEST) {
            if (meta.found != 0) {
                hdr.loop.setInvalid();
                target.apply();
                DO(count_sent, INDEX(meta.row, meta.found[4:0]));
                if (meta.waits == 1) {
                    DO(leave, meta.service);
                }
            } else {
                out_port = LOOP_PORT;
                if (meta.waits == 0) {
                    RUN(hdr.loop.admitted, enter, meta.service);
                    COUNT(waits, meta.service);
                }
            }
        } else if (meta.is == IS_REPORT) {
            hdr.note.setValid();
            hdr.loop.setValid();
            if (meta.newer == 1) {
                DO(restart_sent, INDEX(meta.row, meta.slot));
                hdr.note.sent = meta.received;
            } else {
                RUN(hdr.note.sent, observe_sent, INDEX(meta.row, meta.slot));
            }
            hdr.note.before = now - meta.loss;
            hdr.note.now = now;
            hdr.note.received = meta.received;
            hdr.note.restarted = meta.newer[7:0];
            hdr.loop.kind = LOOP_REPORT;
            hdr.loop.delta = meta.delta;
            hdr.loop.life = hdr.feedback.incarnation;
            hdr.loop.worker = INDEX(meta.row, meta.slot);
            hdr.loop.row = (bit<16>)meta.row;
            hdr.loop.pair = meta.pair;
            hdr.loop.half = meta.half;
            hdr.loop.service = (bit<16>)meta.service;
            hdr.ethernet.setInvalid();
            hdr.ipv4.setInvalid();
            hdr.udp.setInvalid();
            hdr.r2p2.setInvalid();
            hdr.feedback.setInvalid();
            out_port = LOOP_PORT;
        } else if (meta.is == IS_REFUSED) {
            if (hdr.loop.isValid()) {
                out_port = hdr.loop.port[8:0];
                hdr.loop.setInvalid();
            } else {
                out_port = in_port;
            }
            if (meta.waits == 1) {
                DO(leave, meta.service);
            }
            answer();
        } else if (meta.asked == 1) {
            answer_arp();
            out_port = in_port;
        } else if (meta.is == IS_OTHER) {
            station.apply();
        } else {
            discard = 1;
            if (meta.waits == 1) {
                DO(leave, meta.service);
            }
        }
        if (meta.reason != R_NONE) {
            COUNT(outcomes, INDEX(meta.service, meta.reason));
        }
    }
}

// What only a FEEDBACK's first pass needs: requests that never arrived (R-111), and the end of the sum.
control Settle(inout headers_t hdr, inout meta_t meta, inout bit<3> discard) {
    WORDS(dues, WORKERS)
    // T_loss has passed since the sample was taken.
    ON_WORD(is_due, dues, {
        if ((int<32>)hdr.note.before - v >= 0) {
            v = (int<32>)hdr.note.now;
            rv = 1;
        }
    })
    ON_WORD(restart_due, dues, { v = (int<32>)hdr.note.now; })

    WORDS(pasts, WORKERS)
    ON_WORD(sample, pasts, {
        rv = v;
        v = (int<32>)hdr.note.sent;
    })
    ON_WORD(restart_past, pasts, { v = (int<32>)hdr.note.sent; })

    WORDS(losses, WORKERS)
    // What is held to be lost stays until one of its bounds says otherwise.
    ON_WORD(bound, losses, {
        rv = v;
        if ((int<32>)meta.least > v) {
            v = (int<32>)meta.least;
        } else if ((int<32>)meta.most < v) {
            v = (int<32>)meta.most;
        }
    })
    ON_WORD(restart_lost, losses, { v = 0; })

    apply {
        if (hdr.note.isValid()) {
            if (hdr.note.restarted == 1) {
                DO(restart_due, hdr.loop.worker);
                DO(restart_past, hdr.loop.worker);
                DO(restart_lost, hdr.loop.worker);
            } else {
                meta.excess = hdr.note.received - hdr.note.sent;
                RUN(meta.due, is_due, hdr.loop.worker);
                if (meta.excess[31:31] == 0) {
                    hdr.note.sent = hdr.note.received;
                    hdr.loop.delta = hdr.loop.delta - meta.excess;
                }
                if (meta.due == 1) {
                    RUN(meta.past, sample, hdr.loop.worker);
                    meta.least = meta.past - hdr.note.received;
                    if (meta.least[31:31] == 1) {
                        meta.least = 0;
                    }
                }
                meta.most = hdr.note.sent - hdr.note.received;
                RUN(meta.lost, bound, hdr.loop.worker);
                meta.up = meta.least - meta.lost;
                meta.down = meta.most - meta.lost;
                if (meta.up[31:31] == 0) {
                    hdr.loop.delta = hdr.loop.delta + meta.up;
                } else if (meta.down[31:31] == 1) {
                    hdr.loop.delta = hdr.loop.delta + meta.down;
                }
            }
            hdr.note.setInvalid();
            hdr.loop.kind = LOOP_CREDIT;
            if (hdr.loop.delta == 0) {
                discard = 1;
            }
        }
    }
}
#endif
