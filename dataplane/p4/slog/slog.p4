// SPDX-License-Identifier: Apache-2.0
// SLOG: load and latencies from a switch (S-1 to S-33). The switch's packet generator makes templates without a pause.
// The pipeline keeps one and drops the next N, N drawn from a table (S-5), gives what it keeps to a target, and stamps
// it when it leaves. The target echoes the stamp, since it is in its reply's destination (S-3); what comes back is
// counted in a bucket by its latency (S-4). A shell includes this file behind its architecture and says its spelling
// of registers (W-1, ../spelling/README.md).
//
// The stamp is 31 bits of the shell's clock: fifteen in the source port, below a bit that is set, so that no port is one
// of a service (S-21), and sixteen in the source address: the switch owns a /16.
#ifndef BOBTAIL_SLOG
#define BOBTAIL_SLOG

#include "headers.p4"

#define BUCKETS 4096

control Generate(inout headers_t hdr, inout meta_t meta, in port_t in_port, in bit<31> now, inout port_t out_port,
                 inout bit<16> group, inout bit<3> discard) {
    GENERATOR

    // How many templates are still to be dropped.
    WORDS(lefts, 1)
    ON_WORD(next, lefts, {
        if (v == 0) {
            v = (int<32>)meta.gap;
            rv = 1;
        } else {
            v = v - 1;
        }
    })

    // Packets of a run; another run begins anew.
    PAIRS(sents, 1)
    ON_PAIR(spend, sents, {
        if (v.hi == (int<32>)meta.run) {
            if (v.lo < (int<32>)meta.packets) {
                v.lo = v.lo + 1;
                rv = 1;
            }
        } else {
            v.hi = (int<32>)meta.run;
            v.lo = 1;
            rv = 1;
        }
    })

    WORDS(turns, 1)
    ON_WORD(next_turn, turns, {
        rv = v;
        if (v >= (int<32>)(bit<32>)meta.last) {
            v = 0;
        } else {
            v = v + 1;
        }
    })

    COUNTER(outcomes, 4096, 0x12000001) // by target and what became of it
    COUNTER(latencies, BUCKETS, 0x12000002)

    // What comes in by this port is a template of a run.
    @id(0x01000001)
    action generate(bit<32> run, bit<32> packets, bit<16> last) {
        meta.generated = 1;
        meta.run = run;
        meta.packets = packets;
        meta.last = last; // of the turns
    }

    @id(0x02000001)
    table source {
        key = { in_port: exact; }
        actions = { generate; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    // Gaps in units of templates, each number as often as the distribution has it (S-11).
    @id(0x01000002)
    action drop_next(bit<32> templates) {
        meta.gap = templates;
    }

    @id(0x02000002)
    table gap {
        key = { meta.draw: exact; }
        actions = { drop_next; NoAction; }
        default_action = NoAction();
        size = 65536;
    }

    // A weight is as many turns.
    @id(0x01000003)
    action to_target(target_t number, port_t port, bit<48> own_mac, bit<48> mac, bit<16> own_net, bit<16> net,
                     bit<16> host, bit<16> udp_port) {
        out_port = port;
        meta.target = number;
        hdr.mark.stamps = 1;
        hdr.ethernet.src = own_mac;
        hdr.ethernet.dst = mac;
        hdr.ipv4.src_net = own_net;
        hdr.ipv4.dst_net = net;
        hdr.ipv4.dst_host = host;
        hdr.udp.dst = udp_port;
    }

    @id(0x02000003)
    table target {
        key = { meta.turn: exact; }
        actions = { to_target; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    @id(0x01000004)
    action is_ours() {
        meta.ours = 1;
    }

    @id(0x02000004)
    table own {
        key = { hdr.ipv4.dst_net: exact; }
        actions = { is_ours; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    // Replies by where they come from.
    @id(0x01000005)
    action answers(target_t number) {
        meta.reply = 1;
        meta.target = number;
    }

    @id(0x02000005)
    table reply {
        key = {
            hdr.ipv4.src_net: exact;
            hdr.ipv4.src_host: exact;
            hdr.udp.src: exact;
        }
        actions = { answers; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    @id(0x01000006)
    action in_bucket(bit<12> number) {
        meta.bucket = number;
    }

    // Ranges of latencies (S-24, S-25): blocks of a power of two. What is in none is beyond them all.
    @id(0x02000006)
    table bucket {
        key = { meta.latency: ternary; }
        actions = { in_bucket; NoAction; }
        default_action = in_bucket(4095);
        size = 4096;
    }

    @id(0x01000007)
    action is_asked(bit<48> mac) {
        meta.asked = 1;
        meta.mac = mac;
    }

    // The router in front of the switch asks for one address of the /16, or for all of it.
    @id(0x02000007)
    table address {
        key = {
            hdr.arp.target: ternary;
            hdr.arp.operation: exact;
            hdr.arp.protocol: exact;
        }
        actions = { is_asked; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    // Everybody else's traffic.
    @id(0x01000008)
    action to_port(port_t port) {
        out_port = port;
    }

    @id(0x01000009)
    action to_group(bit<16> number) {
        group = number + (bit<16>)in_port;
    }

    @id(0x0100000a)
    action nowhere() {
        discard = 1;
        meta.outcome = OUT_STRANGE;
    }

    @id(0x02000008)
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

    apply {
        // Stage 0: where it comes from, and when it was sent, if it is a reply.
        hdr.mark.setValid();
        hdr.mark.stamps = 0;
        hdr.timer.setInvalid();
        source.apply();
        DRAW(meta.draw)
        meta.came = now;
        if (hdr.udp.isValid()) {
            own.apply();
            reply.apply();
            meta.sent = hdr.ipv4.dst_host ++ hdr.udp.dst[14:0];
        }
        if (hdr.arp.isValid()) {
            address.apply();
        }

        if (meta.generated == 1) {
            gap.apply();
            RUN(meta.kept, next, 0);
            if (meta.kept == 0) {
                meta.outcome = OUT_SKIPPED;
                discard = 1;
            } else {
                RUN(meta.within, spend, 0);
                if (meta.within == 0 || !hdr.udp.isValid()) {
                    meta.outcome = OUT_SPENT;
                    discard = 1;
                } else {
                    RUN(meta.turn, next_turn, 0);
                    if (target.apply().hit) {
                        meta.outcome = OUT_SENT;
                    } else {
                        meta.outcome = OUT_NOWHERE;
                        discard = 1;
                    }
                }
            }
        } else if (meta.ours == 1) {
            discard = 1;
            meta.latency = meta.came - meta.sent;
            if (meta.reply == 0 || meta.bad_checksum == 1 || hdr.udp.dst[15:15] == 0) {
                meta.outcome = OUT_UNMATCHED;
            } else if (meta.latency[30:30] == 1) {
                meta.outcome = OUT_RANGE;
            } else {
                meta.outcome = OUT_RECEIVED;
                bucket.apply();
                COUNT(latencies, meta.bucket);
            }
        } else if (meta.asked == 1) {
            answer_arp();
            out_port = in_port;
        } else if (hdr.ethernet.isValid() && meta.broken == 0) {
            station.apply();
        } else {
            discard = 1;
            meta.outcome = OUT_BROKEN;
        }
        if (meta.outcome != OUT_NONE) {
            COUNT(outcomes, INDEX(meta.target, meta.outcome));
        }
    }
}

// When it leaves: what it waited in the switch is not in its latency (S-2).
control Stamp(inout headers_t hdr, inout meta_t meta, in bit<31> now) {
    apply {
        if (hdr.mark.stamps == 1) {
            meta.now = now;
            hdr.ipv4.src_host = meta.now[30:15];
            hdr.udp.src = 1w1 ++ meta.now[14:0];
            hdr.udp.checksum = 0; // there is none (S-22)
            meta.stamped = 1;
        }
        hdr.mark.setInvalid();
    }
}
#endif
