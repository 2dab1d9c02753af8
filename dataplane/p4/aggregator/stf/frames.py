#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the test files beside it: messages of a group's members, and what an aggregator has to make of them.

  frames.py          writes *.stf
  frames.py --check  fails when one is not what it would write

What is expected is made here from the rules and from the layout of messages (dataplane/src/wire/group.h), not by the program.
"""
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import stf_files  # noqa: E402
from stf_files import ones  # noqa: E402

AGGREGATOR, OWN = 0x0A000501, bytes.fromhex("020000000001")
AGGREGATOR_PORT, MEMBER_PORT, GROUP, CLUSTER, EPOCH = 8400, 8300, 77, 0x0102030405060708, 3
NUMBER, COPIES, SLOTS, PAD = 11, 1100, 9, 0xFFFF - 9
PROBE, PROBE_REPLY, COMMITTED, TAKE_OVER, SHARED, ANSWER = 5, 6, 4, 11, 12, 13
YES, DURABLE, FROM_AGGREGATOR = 4, 8, 0xFFFF
HIGH = 1 << 32


def ip(slot):
    return 0x0A030000 + slot


def mac(slot):
    return (0x020000040000 + slot).to_bytes(6, "big")


def port(slot):
    """Of the switch: members 2 and 3 share one, and so on."""
    return 20 + slot // 2


def frame(src, dst, ports, macs, payload, checksum=True, wrong=0):
    ends = struct.pack(">II", src, dst)
    udp = struct.pack(">HHHH", *ports, 8 + len(payload), 0) + payload
    if checksum:
        summed = ~ones(ends + struct.pack(">HH", 17, len(udp)) + udp) & 0xFFFF or 0xFFFF
        udp = udp[:6] + struct.pack(">H", summed ^ wrong) + udp[8:]
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0) + ends
    head = head[:10] + struct.pack(">H", ~ones(head) & 0xFFFF) + head[12:]
    return macs + b"\x08\0" + head + udp


def r2p2(message, disk, request=0):
    return struct.pack(">BBBBHH", 0xCC, 8, 0x50, 0xE0, request, 1) + message + struct.pack(">Q", disk)


def sent(slot, message, **more):
    """By a member to the switch."""
    return frame(ip(slot), AGGREGATOR, (MEMBER_PORT, AGGREGATOR_PORT), OWN + mac(slot), r2p2(message, slot, 0x1234), **more)


def told(slot, payload):
    """By the switch to a member."""
    return frame(AGGREGATOR, ip(slot), (AGGREGATOR_PORT, MEMBER_PORT), mac(slot) + OWN, payload)


def header(kind, sender, term, cluster=CLUSTER, group=GROUP):
    return struct.pack(">BBHIQQ", 1, kind, sender, group, term, cluster)


def probe(slot, term, floor, members, flags=DURABLE, epoch=EPOCH):
    config = struct.pack(">H", len(members)) + b"".join(struct.pack(">HBB", m, 1, 0) for m in members)
    return header(PROBE, members[slot - 1], term) + struct.pack(">IQQ", flags, epoch, floor) + config


def probed(term, floor, epoch=EPOCH):
    return r2p2(header(PROBE_REPLY, FROM_AGGREGATOR, term) + struct.pack(">IQQ", 0, epoch, floor), 0)


def entries(sender, term, prev, count, epoch=EPOCH):
    noop = struct.pack(">QIBBH", term, 0, 0, 0, 0)
    return header(SHARED, sender, term) + struct.pack(">IQQQQ", count, prev, 1, prev, epoch) + noop * count


def answer(sender, term, index, applied, flags=YES, epoch=EPOCH, **more):
    return header(ANSWER, sender, term, **more) + struct.pack(">IQQQQ", flags, index, index, applied, epoch)


def commit(term, index, applied, members, epoch=EPOCH):
    ids = members + [PAD + i for i in range(len(members), SLOTS)]
    done = b"".join(struct.pack(">HHQ", m, 0, applied.get(m, 0)) for m in ids)
    return r2p2(header(COMMITTED, FROM_AGGREGATOR, term) + struct.pack(">IQQ", SLOTS, epoch, index) + done, 0)


def table(members, learners=(), epoch=EPOCH):
    voters = [m for m in members if m not in learners]
    ids = members + [PAD + i for i in range(len(members), SLOTS)]
    yield f"add Ingress.aggregate.own hdr.ipv4.dst:0x{AGGREGATOR:08x} Ingress.aggregate.is_own()"
    yield f"mc_mgrp_create {COPIES}"
    for i, m in enumerate(members):
        slot = i + 1
        yield f"mc_node_create {slot} {port(slot)}"
        yield f"mc_node_associate {COPIES} {i}"
        yield (f"add Ingress.aggregate.member hdr.ipv4.src:0x{ip(slot):08x} hdr.udp.src:{MEMBER_PORT} in_port:{port(slot)}"
               f" hdr.ipv4.dst:0x{AGGREGATOR:08x} hdr.udp.dst:{AGGREGATOR_PORT}"
               f" Ingress.aggregate.is_member(slot:{slot}, counts:{0 if m in learners else slot}, id:{m})")
        yield (f"add Egress.tell.receiver hdr.note.number:{NUMBER} copy:{slot}"
               f" Egress.tell.to_member(mac:0x{mac(slot).hex()}, ip:0x{ip(slot):08x}, udp_port:{MEMBER_PORT})")
    named = ", ".join(f"id_{i + 1}:{m}" for i, m in enumerate(ids))
    yield f"add Egress.tell.names hdr.note.number:{NUMBER} Egress.tell.are({named})"
    yield (f"add Ingress.aggregate.group_of hdr.ipv4.dst:0x{AGGREGATOR:08x} hdr.udp.dst:{AGGREGATOR_PORT}"
           f" Ingress.aggregate.aggregate(number:{NUMBER}, id:{GROUP}, cluster_high:0x{CLUSTER >> 32:x}, cluster:0x{CLUSTER & 0xffffffff:x},"
           f" epoch_high:{epoch >> 32}, epoch:{epoch & 0xffffffff}, half:{len(voters) // 2}, copies:{COPIES})")


def packet(slot, data):
    return stf_files.packet(port(slot), data)


def expect(slot, data):
    return stf_files.expect(port(slot), data)


def ask(slot, *of, **more):
    """A probe and its reply, of floor."""
    term, floor, members = of
    return [packet(slot, sent(slot, probe(slot, term, floor, members, **more))), expect(slot, told(slot, probed(term, floor)))]


def shared(leader, members, message):
    payload = r2p2(message, leader, 0x1234)
    return [packet(leader, sent(leader, message))] + [expect(s, told(s, payload)) for s in range(1, len(members) + 1) if s != leader]


def announced(slot, members, message, *of):
    return [packet(slot, sent(slot, message))] + [expect(s, told(s, commit(*of, members))) for s in range(1, len(members) + 1)]


def silent(slot, message, **more):
    return packet(slot, sent(slot, message, **more))


THREE, NINE, FLOOR = [1, 2, 3], [2, 3, 5, 7, 11, 13, 17, 19, 600], 7 * HIGH + 0x7FFFFFF0


def files():
    """{name: lines}"""
    yield "commit", [*table(THREE),
        "# R-340, R-335, R-342: a probe, entries, one follower's answer commits; another one's later adds nothing; a late one neither.",
        *ask(1, 2, 5, THREE), *shared(1, THREE, entries(1, 2, 5, 2)),
        *announced(2, THREE, answer(2, 2, 7, 6), 2, 7, {2: 6}), silent(3, answer(3, 2, 7, 5)), silent(2, answer(2, 2, 6, 4)),
        "# R-343: nothing new from the leader: the next answer makes it tell again, whatever that answer says.",
        *shared(1, THREE, entries(1, 2, 7, 0)), *announced(3, THREE, answer(3, 2, 6, 6), 2, 7, {2: 6, 3: 6}),
        silent(3, answer(3, 2, 6, 6)),
        "# A probe that is repeated is answered by what is known, and changes nothing.",
        packet(1, sent(1, probe(1, 2, 9, THREE))), expect(1, told(1, probed(2, 5))), silent(3, answer(3, 2, 7, 6))]
    nine = [*table(NINE, learners=(600,)), *ask(3, 4, FLOOR, NINE)]
    yield "nine", nine + ["# Eight voters and a learner, across the sign of a low half (W-11): four followers commit what an answer says.",
        *shared(3, NINE, entries(5, 4, FLOOR, 32)), silent(1, answer(2, 4, FLOOR + 32, FLOOR)), silent(9, answer(600, 4, FLOOR + 32, FLOOR + 1)),
        silent(2, answer(3, 4, FLOOR + 31, FLOOR)), silent(8, answer(19, 4, FLOOR + 32, FLOOR)),
        *announced(4, NINE, answer(7, 4, FLOOR + 20, FLOOR + 2), 4, FLOOR + 20, {2: FLOOR, 600: FLOOR + 1, 3: FLOOR, 19: FLOOR, 7: FLOOR + 2}),
        silent(5, answer(11, 4, FLOOR + 32, FLOOR)),
        *announced(2, NINE, answer(3, 4, FLOOR + 32, FLOOR + 3), 4, FLOOR + 32,
                   {2: FLOOR, 600: FLOOR + 1, 3: FLOOR + 3, 19: FLOOR, 7: FLOOR + 2, 11: FLOOR})]
    begin = [*table(THREE), *ask(1, 2, FLOOR, THREE)]
    strange = answer(2, 2, FLOOR + 1, FLOOR)
    yield "refused", begin + ["# R-336, R-342, R-344, R-345, W-11: another term, epoch, group, cluster, sender, half; what nobody asked for.",
        silent(1, entries(1, 1, FLOOR, 1)), silent(1, entries(1, 2, FLOOR, 1, epoch=4)), silent(2, entries(2, 2, FLOOR, 1)),
        silent(1, entries(1, 2, FLOOR - 1, 1)), silent(1, entries(1, 2, FLOOR + HIGH, 1)), silent(1, entries(1, 2 + HIGH, FLOOR, 1)),
        silent(1, entries(1, 2, 8 * HIGH - 1, 1)), silent(2, answer(2, 1, FLOOR + 1, 1)), silent(2, answer(2, 3, FLOOR + 1, 1)),
        silent(1, answer(1, 2, FLOOR + 1, 1)), silent(2, answer(2, 2, FLOOR + 1, 1, flags=0)), silent(2, answer(2, 2, FLOOR + 1 + HIGH, 1)),
        silent(2, answer(2, 2, FLOOR + 1, 1, group=78)), silent(2, answer(2, 2, FLOOR + 1, 1, cluster=CLUSTER + 1)),
        silent(3, answer(2, 2, FLOOR + 1, 1)), silent(2, probe(2, 2, FLOOR, THREE)), silent(2, header(TAKE_OVER, 2, 2)),
        silent(1, probe(1, 1, FLOOR, THREE)), silent(1, probe(1, 2, FLOOR - HIGH, THREE)),
        "# W-8: of a port that is not its own; with a wrong checksum, without one; more in it than an answer has.",
        packet(1, sent(2, strange)), silent(2, strange, wrong=1), silent(2, strange, checksum=False), silent(2, strange + bytes(4)),
        silent(1, entries(1, 2, FLOOR, 1), checksum=False),
        silent(1, probe(1, 3, FLOOR, THREE), wrong=0x100), packet(2, sent(2, strange)[:100]),
        "# None of them counted: this one commits.",
        *announced(2, THREE, strange, 2, FLOOR + 1, {2: FLOOR})]
    yield "begin", [*table(THREE), "# W-2, R-342: a fresh switch knows no leader and passes nothing on.",
        silent(1, entries(1, 2, 5, 1)), silent(2, answer(2, 2, 6, 5)), *ask(1, 2, 5, THREE),
        "# Somebody leads in a later term: nothing more of the earlier one, and nothing of the later one before its probe.",
        silent(2, entries(2, 3, 6, 1)), silent(1, entries(1, 2, 6, 1)), silent(3, answer(3, 2, 6, 5)), silent(3, answer(3, 3, 6, 5)),
        *ask(2, 3, 6, THREE, flags=0), *shared(2, THREE, entries(2, 3, 6, 1)),
        "# R-335: what is not durable at the leader needs one follower more.",
        silent(1, answer(1, 3, 7, 5)), *announced(3, THREE, answer(3, 3, 7, 6), 3, 7, {1: 5, 3: 6})]
    other = frame(ip(1), ip(2), (MEMBER_PORT, MEMBER_PORT), mac(2) + mac(1), b"between two members")
    arp = struct.pack(">HHBBH6sI6sI", 1, 0x0800, 6, 4, 1, mac(1), ip(1), bytes(6), AGGREGATOR)
    reply = struct.pack(">HHBBH6sI6sI", 1, 0x0800, 6, 4, 2, OWN, AGGREGATOR, mac(1), ip(1))
    yield "transit", [*table(THREE), f"add Ingress.aggregate.station hdr.ethernet.dst:0x{mac(2).hex()} Ingress.aggregate.to_port({port(2)})",
        f"add Ingress.aggregate.address hdr.arp.target:0x{AGGREGATOR:08x} hdr.arp.operation:1 hdr.arp.protocol:0x0800"
        f" Ingress.aggregate.is_asked(0x{OWN.hex()})",
        "# Others' traffic passes as it is; the switch says where its address is; another port of it is nobody's.",
        packet(1, other), expect(2, other), packet(1, bytes([255] * 6) + mac(1) + b"\x08\x06" + arp), expect(1, mac(1) + OWN + b"\x08\x06" + reply),
        packet(1, frame(ip(1), AGGREGATOR, (MEMBER_PORT, 9), OWN + mac(1), b"nobody listens here"))]


if __name__ == "__main__":
    sys.exit(stf_files.write(HERE, "For either of the aggregator's shells.", files()))
