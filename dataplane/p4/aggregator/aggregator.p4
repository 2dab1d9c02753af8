// SPDX-License-Identifier: Apache-2.0
// The aggregator of HovercRaft++ in a pipeline (R-335 to R-344, W-11): dataplane/src/replica/aggregator.c with
// `as_switch` is its twin. It passes a leader's entries on to all others of the group, gathers their answers, and tells
// everybody once how far a quorum is. A shell includes this file behind its architecture and says its spelling of
// registers (W-1, ../spelling/README.md).
//
// Who is in a group, where, and by which entry of its log (the epoch), a controller writes into tables (R-344). Who leads,
// in which term, and from which index on, a leader's probe writes into registers. A fresh switch is all zeros: it knows
// no leader and passes nothing on (W-2, R-342).
//
// Registers keep low halves (W-11). Of indices the high half is that of the floor; what has another one is dropped. So
// low halves are compared as numbers, however far apart they are. Terms have a high half of 0.
#ifndef BOBTAIL_AGGREGATOR
#define BOBTAIL_AGGREGATOR

#include "headers.p4"

#define GROUPS 256
#define OUTCOMES 8192 // by group and reason

// What one member answered: the match index. Before it answers it is the floor, which is below all that is counted.
#define MATCH(K) \
    WORDS(match_##K, GROUPS) \
    ON_WORD(raise_##K, match_##K, { \
        if (meta.index > v) { \
            v = meta.index; \
        } \
        rv = 1; \
    }) \
    ON_WORD(ask_##K, match_##K, { \
        if (v >= meta.index) { \
            rv = 1; \
        } \
    }) \
    ON_WORD(begin_##K, match_##K, { v = meta.index; })

// Does member K hold what this answer says? The one who says so does.
#define VISIT(K) \
    if (meta.is == IS_PROBE) { \
        if (meta.fresh == 1 || meta.high_is == NEWER) { \
            DO(begin_##K, meta.number); \
        } \
    } else if (meta.is == IS_ANSWER && meta.high_is == SAME) { \
        if (meta.counts == K) { \
            RUN(meta.h##K, raise_##K, meta.number); \
        } else { \
            RUN(meta.h##K, ask_##K, meta.number); \
        } \
    }

control Aggregate(inout headers_t hdr, inout meta_t meta, in port_t in_port, inout port_t out_port,
                  inout bit<16> group, inout bit<3> discard) {
    WORDS(terms, GROUPS)
    ON_WORD(raise_term, terms, {
        if (hdr.group.term > v) {
            v = hdr.group.term;
            rv = NEWER;
        } else if (hdr.group.term < v) {
            rv = OLDER;
        }
    })
    ON_WORD(is_term, terms, {
        if (hdr.group.term != v) {
            rv = OLDER;
        }
    })

    // Of which epoch the registers are (its low half; the tables have all of it), and the slot of who leads; 0: nobody.
    PAIRS(reigns, GROUPS)
    ON_PAIR(set_reign, reigns, {
        v.lo = meta.epoch;
        v.hi = (bit<32>)meta.slot;
    })
    ON_PAIR(claim, reigns, {
        if (v.hi == 0 || v.lo != meta.epoch) {
            v.lo = meta.epoch;
            v.hi = (bit<32>)meta.slot;
        } else {
            rv = v.hi;
        }
    })
    ON_PAIR(who_leads, reigns, {
        if (v.lo == meta.epoch) {
            rv = v.hi;
        }
    })
    ON_PAIR(depose, reigns, { v.hi = 0; })

    // The floor: what the leader had committed when it probed.
    WORDS(high_halves, GROUPS)
    ON_WORD(set_high, high_halves, { v = meta.high; })
    ON_WORD(raise_high, high_halves, {
        if (meta.high > v) {
            v = meta.high;
            rv = NEWER;
        } else if (meta.high < v) {
            rv = OLDER;
        }
    })
    ON_WORD(is_high, high_halves, {
        if (meta.high != v) {
            rv = OLDER;
        }
    })
    WORDS(floors, GROUPS)
    ON_WORD(set_floor, floors, { v = meta.index; })
    ON_WORD(read_floor, floors, { rv = v; })
    ON_WORD(is_below, floors, {
        if (meta.index < v) {
            rv = 1;
        }
    })

    WORDS(quorums, GROUPS)
    ON_WORD(set_quorum, quorums, { v = meta.lack; })
    ON_WORD(read_quorum, quorums, { rv = v; })

    MATCH(1)
    MATCH(2)
    MATCH(3)
    MATCH(4)
    MATCH(5)
    MATCH(6)
    MATCH(7)
    MATCH(8)
    MATCH(9)

    WORDS(lasts, GROUPS)
    ON_WORD(raise_last, lasts, {
        if (meta.end > v) {
            v = meta.end;
            rv = 1;
        }
    })
    ON_WORD(set_last, lasts, { v = meta.index; })

    WORDS(commits, GROUPS)
    ON_WORD(raise_commit, commits, {
        if (meta.index > v) {
            v = meta.index;
            rv = 1;
        }
    })
    ON_WORD(set_commit, commits, { v = meta.index; })

    // The next answer makes it announce again (R-343).
    WORDS(pendings, GROUPS)
    ON_WORD(owe, pendings, { v = 1; })
    ON_WORD(pay, pendings, {
        rv = v;
        v = 0;
    })

    COUNTER(outcomes, OUTCOMES, 0x12000001)
    COUNTER(flushes, GROUPS, 0x12000002)

    @id(0x01000001)
    action aggregate(number_t number, bit<32> id, bit<32> cluster_high, bit<32> cluster, bit<32> epoch_high,
                     bit<32> epoch, bit<32> half, bit<16> copies) {
        meta.served = 1;
        meta.number = number;
        meta.group = id;
        meta.cluster_high = cluster_high;
        meta.cluster = cluster;
        meta.table_high = epoch_high;
        meta.table_low = epoch;
        meta.half = half;
        meta.copies = copies;
    }

    @id(0x02000001)
    table group_of {
        key = {
            hdr.ipv4.dst: exact;
            hdr.udp.dst: exact;
        }
        actions = { aggregate; NoAction; }
        default_action = NoAction();
        size = GROUPS;
    }

    // A member is believed by where it sends from (W-8). `counts` is its slot, or 0 of one that has no vote.
    @id(0x01000002)
    action is_member(slot_t slot, slot_t counts, bit<16> id) {
        meta.member = 1;
        meta.slot = slot;
        meta.counts = counts;
        meta.id = id;
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
        COUNT(outcomes, INDEX(meta.number, R_NOWHERE));
    }

    @id(0x02000005)
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

    action bad(in reason_t why) {
        meta.is = IS_BAD;
        meta.reason = why;
    }

    // The probe becomes its reply.
    action answer_probe() {
        bit<48> mac = hdr.ethernet.src;
        bit<32> ip = hdr.ipv4.src;
        bit<16> udp_port = hdr.udp.src;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = ip;
        hdr.ipv4.length = 88;
        hdr.ipv4.ttl = 64;
        hdr.udp.src = hdr.udp.dst;
        hdr.udp.dst = udp_port;
        hdr.udp.length = 68;
        hdr.r2p2.req_id = 0;
        hdr.group.kind = TYPE_PROBE_REPLY;
        hdr.group.from = FROM_AGGREGATOR;
        hdr.probe.flags = 0;
        hdr.members.setInvalid();
        hdr.m1.setInvalid();
        hdr.m2.setInvalid();
        hdr.m3.setInvalid();
        hdr.m4.setInvalid();
        hdr.m5.setInvalid();
        hdr.m6.setInvalid();
        hdr.m7.setInvalid();
        hdr.m8.setInvalid();
        hdr.m9.setInvalid();
        hdr.disk.high = 0;
        hdr.disk.low = 0;
    }

    apply {
        // Stage 0: who is it for, and sums of one operation each.
        hdr.note.setValid();
        hdr.note.kind = NOTE_NONE;
        hdr.note.fresh = 0;
        hdr.note.loud = 0;
        hdr.note.rose = 0;
        hdr.note.told = 0;
        if (hdr.ipv4.isValid()) {
            own.apply();
        }
        if (hdr.arp.isValid()) {
            address.apply();
        }
        if (hdr.udp.isValid()) {
            group_of.apply();
            member.apply();
            meta.gap = hdr.ipv4.length - hdr.udp.length;
        }
        if (hdr.group.isValid()) {
            meta.room = hdr.udp.length - 84;
        }
        if (hdr.shared.isValid()) {
            meta.end = hdr.shared.prev + hdr.shared.count;
        }

        // Stage 1: what it is. All of a message is of the tables' epoch, or nothing of it counts (R-344).
        hdr.note.number = meta.number;
        hdr.note.slot = meta.slot;
        if (meta.served == 1) {
            if (meta.bad_checksum == 1 || meta.bad_sum == 1) {
                bad(R_CHECKSUM);
            } else if (meta.fault != R_NONE) {
                bad(meta.fault);
            } else if (meta.gap != 20 || meta.room[15:15] == 1 && meta.kind == TYPE_SHARED ||
                       meta.room != 0 && meta.kind == TYPE_SHARED_REPLY) {
                bad(R_LENGTH);
            } else if (meta.member == 0) {
                bad(R_SOURCE);
            } else if (hdr.group.group != meta.group || hdr.group.cluster_high != meta.cluster_high ||
                       hdr.group.cluster != meta.cluster) {
                bad(R_FOREIGN);
            } else if (meta.kind == 0) {
                bad(R_UNKNOWN);
            } else if (hdr.group.from != meta.id) {
                bad(R_STRANGER);
            } else if (hdr.group.term_high != 0) {
                bad(R_HIGH);
            } else if (meta.epoch_high != meta.table_high || meta.epoch != meta.table_low) {
                bad(R_EPOCH);
            } else if (meta.kind == TYPE_PROBE) {
                meta.is = IS_PROBE;
                RUN(meta.term_is, raise_term, meta.number);
                // R-335: a leader counts that has a vote, and what it sends on its disk.
                if (meta.counts != 0 && hdr.probe.flags == 8) {
                    meta.lack = meta.half - 1;
                } else {
                    meta.lack = meta.half;
                }
            } else if (meta.kind == TYPE_SHARED) {
                meta.is = IS_SHARED;
                RUN(meta.term_is, raise_term, meta.number);
                if (hdr.shared.prev[31:31] == 1 && meta.end[31:31] == 0) {
                    meta.crosses = 1;
                }
            } else {
                meta.is = IS_ANSWER;
                RUN(meta.term_is, is_term, meta.number);
                if (hdr.answer.applied_high == hdr.answer.index_high) {
                    hdr.note.told = 1;
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

        // Stage 2: of which term, and who leads in it.
        if (meta.is == IS_PROBE) {
            if (meta.term_is == OLDER) {
                bad(R_STALE);
            } else if (meta.term_is == NEWER) {
                DO(set_reign, meta.number);
            } else {
                RUN(meta.leader, claim, meta.number);
            }
        } else if (meta.is == IS_SHARED) {
            if (meta.term_is == OLDER) {
                bad(R_STALE);
            } else if (meta.term_is == NEWER) {
                DO(depose, meta.number); // somebody else leads now, and did not probe
                bad(R_EPOCH);
            } else {
                RUN(meta.leader, who_leads, meta.number);
            }
        } else if (meta.is == IS_ANSWER) {
            if (meta.term_is != SAME) {
                bad(R_STALE);
            } else {
                RUN(meta.leader, who_leads, meta.number);
            }
        }

        // Stage 3: is it the leader, or is it not; and the high half of its index.
        if (meta.is == IS_PROBE) {
            if (meta.leader == 0) {
                meta.fresh = 1;
                DO(set_high, meta.number);
            } else if (meta.leader != (bit<32>)meta.slot) {
                bad(R_EPOCH);
            } else {
                RUN(meta.high_is, raise_high, meta.number);
            }
        } else if (meta.is == IS_SHARED) {
            if (meta.leader == 0) {
                bad(R_EPOCH);
            } else if (meta.leader != (bit<32>)meta.slot) {
                bad(R_STRANGER);
            } else {
                RUN(meta.high_is, is_high, meta.number);
            }
        } else if (meta.is == IS_ANSWER) {
            if (meta.leader == 0) {
                bad(R_EPOCH);
            } else if (meta.leader == (bit<32>)meta.slot) {
                bad(R_STRANGER);
            } else if (hdr.answer.flags == 0) {
                bad(R_REFUSAL);
            } else {
                RUN(meta.high_is, is_high, meta.number);
            }
        }

        // Stages 4 to 6: who holds it.
        VISIT(1)
        VISIT(2)
        VISIT(3)
        VISIT(4)
        VISIT(5)
        VISIT(6)
        VISIT(7)
        VISIT(8)
        VISIT(9)
        if (meta.is == IS_PROBE) {
            if (meta.high_is == OLDER) {
                bad(R_HIGH); // late: the leader left the aggregator since, and came back
            } else if (meta.fresh == 1 || meta.high_is == NEWER) {
                hdr.note.fresh = 1;
                DO(set_quorum, meta.number);
                DO(set_floor, meta.number);
                DO(set_last, meta.number);
                DO(set_commit, meta.number);
                DO(pay, meta.number);
                COUNT(flushes, meta.number);
            } else {
                RUN(hdr.probe.floor, read_floor, meta.number);
            }
        } else if (meta.is == IS_SHARED) {
            if (meta.high_is != SAME || meta.crosses == 1) {
                bad(R_HIGH);
            } else {
                RUN(meta.below, is_below, meta.number);
                if (meta.below == 1) {
                    bad(R_LOW);
                } else {
                    RUN(meta.above, raise_last, meta.number);
                    if (meta.above == 0) {
                        DO(owe, meta.number); // nothing new, or what was announced did not arrive
                    }
                }
            }
        } else if (meta.is == IS_ANSWER) {
            if (meta.high_is != SAME) {
                bad(R_HIGH);
            } else {
                // Stages 5 to 9: how many.
                RUN(meta.lack, read_quorum, meta.number);
                meta.h1 = meta.h1 + meta.h2;
                meta.h3 = meta.h3 + meta.h4;
                meta.h5 = meta.h5 + meta.h6;
                meta.h7 = meta.h7 + meta.h8;
                meta.h1 = meta.h1 + meta.h3;
                meta.lack = meta.lack - meta.h9;
                meta.h5 = meta.h5 + meta.h7;
                meta.lack = meta.lack - meta.h1;
                meta.lacks = meta.lack - meta.h5;
                // Stage 10: a quorum, and more than was announced.
                if (meta.lacks[31:31] == 1) {
                    RUN(meta.rose, raise_commit, meta.number);
                }
                RUN(meta.pending, pay, meta.number);
            }
        }

        // The last stage: where it goes.
        if (meta.is == IS_PROBE) {
            answer_probe();
            hdr.note.kind = NOTE_PROBE;
            out_port = in_port;
            COUNT(outcomes, INDEX(meta.number, R_PROBE));
        } else if (meta.is == IS_SHARED) {
            hdr.note.kind = NOTE_SHARED;
            group = meta.copies;
            COUNT(outcomes, INDEX(meta.number, R_PASSED));
        } else if (meta.is == IS_ANSWER) {
            hdr.note.kind = NOTE_ANSWER;
            hdr.note.rose = meta.rose[7:0];
            if (meta.rose == 1 || meta.pending == 1) {
                hdr.note.loud = 1;
                group = meta.copies;
                COUNT(outcomes, INDEX(meta.number, R_ANNOUNCED));
            } else {
                out_port = in_port; // egress notes how far it applied, and that is all
                COUNT(outcomes, INDEX(meta.number, R_NOTHING_NEW));
            }
        } else if (meta.is == IS_BAD) {
            discard = 1;
            COUNT(outcomes, INDEX(meta.number, meta.reason));
        } else if (meta.asked == 1) {
            answer_arp();
            out_port = in_port;
        } else {
            station.apply();
        }
    }
}

// How far a member applied. An answer's copies all say the same, and raising it twice is raising it once.
#define APPLIED(K) \
    WORDS(applied_##K, GROUPS) \
    ON_WORD(apply_##K, applied_##K, { \
        if (hdr.answer.applied > v) { \
            v = hdr.answer.applied; \
        } \
        rv = v; \
    }) \
    ON_WORD(read_##K, applied_##K, { rv = v; }) \
    ON_WORD(forget_##K, applied_##K, { v = 0; })

// 0 is the word of one who said nothing yet.
#define TELL(K) \
    if (hdr.note.kind == NOTE_ANSWER) { \
        hdr.d##K.setValid(); \
        if (hdr.note.slot == K && hdr.note.told == 1) { \
            RUN(hdr.d##K.applied, apply_##K, hdr.note.number); \
        } else { \
            RUN(hdr.d##K.applied, read_##K, hdr.note.number); \
        } \
        hdr.d##K.reserved = 0; \
        if (hdr.d##K.applied == 0) { \
            hdr.d##K.applied_high = 0; \
        } else { \
            hdr.d##K.applied_high = hdr.answer.index_high; \
        } \
    } else if (hdr.note.fresh == 1) { \
        DO(forget_##K, hdr.note.number); \
    }

// What each copy becomes: entries or a commit for one member, or the reply to a probe.
control Tell(inout headers_t hdr, inout meta_t meta, in bit<16> copy, inout bit<3> discard) {
    APPLIED(1)
    APPLIED(2)
    APPLIED(3)
    APPLIED(4)
    APPLIED(5)
    APPLIED(6)
    APPLIED(7)
    APPLIED(8)
    APPLIED(9)

    // What ingress has in `commits`: a commit that is told again says this.
    WORDS(commits_told, GROUPS)
    ON_WORD(tell_more, commits_told, {
        if (hdr.answer.index > v) {
            v = hdr.answer.index;
        }
        rv = v;
    })
    ON_WORD(tell_again, commits_told, { rv = v; })
    ON_WORD(tell_from, commits_told, { v = hdr.probe.floor; })

    @id(0x01000008)
    action to_member(bit<48> mac, bit<32> ip, bit<16> udp_port) {
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = ip;
        hdr.ipv4.ttl = 64;
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

    // Ids by slot. A slot without a member has one that nobody has, above all others: ids rise.
    @id(0x0100000a)
    action are(bit<16> id_1, bit<16> id_2, bit<16> id_3, bit<16> id_4, bit<16> id_5, bit<16> id_6, bit<16> id_7,
               bit<16> id_8, bit<16> id_9) {
        hdr.d1.id = id_1;
        hdr.d2.id = id_2;
        hdr.d3.id = id_3;
        hdr.d4.id = id_4;
        hdr.d5.id = id_5;
        hdr.d6.id = id_6;
        hdr.d7.id = id_7;
        hdr.d8.id = id_8;
        hdr.d9.id = id_9;
    }

    @id(0x02000007)
    table names {
        key = { hdr.note.number: exact; }
        actions = { are; to_nobody; }
        default_action = to_nobody();
        size = GROUPS;
    }

    // The answer becomes AGG_COMMIT.
    action commit() {
        hdr.committed.count = 9;
        hdr.committed.epoch_high = hdr.answer.epoch_high;
        hdr.committed.epoch = hdr.answer.epoch;
        hdr.committed.commit_high = hdr.answer.index_high;
        hdr.answer.setInvalid();
        hdr.ipv4.length = 196;
        hdr.udp.length = 176;
        hdr.r2p2.req_id = 0;
        hdr.group.kind = TYPE_COMMITTED;
        hdr.group.from = FROM_AGGREGATOR;
        hdr.disk.high = 0;
        hdr.disk.low = 0;
        meta.announced = 1;
    }

    apply {
        TELL(1)
        TELL(2)
        TELL(3)
        TELL(4)
        TELL(5)
        TELL(6)
        TELL(7)
        TELL(8)
        TELL(9)
        if (hdr.note.kind == NOTE_ANSWER) {
            if (hdr.note.loud == 0) {
                discard = 1;
            } else {
                hdr.committed.setValid();
                if (hdr.note.rose == 1) {
                    RUN(hdr.committed.commit, tell_more, hdr.note.number);
                } else {
                    RUN(hdr.committed.commit, tell_again, hdr.note.number);
                }
                names.apply();
                receiver.apply();
                commit();
            }
        } else if (hdr.note.kind == NOTE_SHARED) {
            meta.passed = 1;
            if (copy == hdr.note.slot) {
                discard = 1; // the leader has it
            } else {
                receiver.apply();
            }
        } else if (hdr.note.kind == NOTE_PROBE) {
            meta.answered = 1;
            if (hdr.note.fresh == 1) {
                DO(tell_from, hdr.note.number);
            }
        }
        hdr.note.setInvalid();
    }
}
#endif
