#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the test files beside it: requests of clients and FEEDBACK of members, and what a flow-control box makes of them.

  frames.py          writes *.stf
  frames.py --check  fails when one is not what it would write

What is expected is made here from the rules, not by the program.
"""
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import stf_files  # noqa: E402
from stf_files import ones  # noqa: E402

BOX, OWN, CLIENT, CLIENT_MAC = 0x0A000601, bytes.fromhex("020000000001"), 0x0A000101, bytes.fromhex("020000000101")
CLIENTS, FEEDBACK, CLIENT_AT, NUMBER, COPIES, LONGEST, MEMBERS = 8000, 9000, 3, 13, 1200, 1320, 3
WRITE, READ, SESSION = 2, 3, struct.pack(">BBQQ", 7, 18, 5, 1) + b"\0\0"


def ip(n):
    return 0x0A040000 + n


def mac(n):
    return (0x020000050000 + n).to_bytes(6, "big")


def port(n):
    """Of the switch: members 2 and 3 share one."""
    return 30 + n // 2


def frame(src, dst, ports, macs, payload, checksum=True, ttl=64):
    ends = struct.pack(">II", src, dst)
    udp = struct.pack(">HHHH", *ports, 8 + len(payload), 0) + payload
    if checksum:
        udp = udp[:6] + struct.pack(">H", ~ones(ends + struct.pack(">HH", 17, len(udp)) + udp) & 0xFFFF or 0xFFFF) + udp[8:]
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, ttl, 17, 0) + ends
    head = head[:10] + struct.pack(">H", ~ones(head) & 0xFFFF) + head[12:]
    return macs + b"\x08\0" + head + udp


def r2p2(kind, policy, request, body, options=b"", flags=0xC0, count=1):
    return struct.pack(">BBBBHH", 0xCC, 8 + len(options), kind << 4 | policy, flags, request, count) + options + body


def request(ident, body=b"put k v", policy=WRITE, **more):
    return r2p2(0, policy, ident, body, **more)


def asked(payload, source=31000, client=CLIENT, **more):
    """A client's frame, and what the switch gets."""
    return frame(client, BOX, (source, CLIENTS), OWN + CLIENT_MAC, payload, **more)


def passed(payload, source=31000, checksum=True):
    """That frame, and its copy for each member: with the client's address in option 1, before all others."""
    mine = struct.pack(">BBHI", 1, 8, source, CLIENT)
    copy = bytes([payload[0], payload[1] + 8]) + payload[2:8] + mine + payload[8:]
    return [stf_files.packet(CLIENT_AT, asked(payload, source, checksum=checksum))] + [
        stf_files.expect(port(n), frame(BOX, ip(n), (CLIENTS, CLIENTS), mac(n) + OWN, copy, checksum)) for n in range(1, MEMBERS + 1)]


def dropped(payload, source=31000):
    """What of the request is behind the word stays in the frame as Ethernet's trailer (W-9)."""
    answer = frame(BOX, CLIENT, (CLIENTS, source), CLIENT_MAC + OWN, r2p2(4, 1, struct.unpack(">H", payload[4:6])[0], b"DROP"))
    return [stf_files.packet(CLIENT_AT, asked(payload, source)), stf_files.expect(CLIENT_AT, answer, more=True)]


def silent(payload, source=31000, **more):
    return stf_files.packet(CLIENT_AT, asked(payload, source, **more))


def feedback(ident, source=31000, version=1, flags=4, options=b""):
    body = struct.pack(">HHIBBHIQQ", ident, source, CLIENT, version, flags, 1, 7, 0, 0)
    return r2p2(2, 0, ident, body, options, flags=0xE0)


def told(member, payload, at=None, source=CLIENTS):
    data = frame(ip(member), BOX, (source, FEEDBACK), OWN + mac(member), payload)
    return stf_files.packet(port(member) if at is None else at, data)


def table(slots, base=100):
    yield f"add Ingress.admit.own hdr.ipv4.dst:0x{BOX:08x} Ingress.admit.is_own()"
    yield f"mc_mgrp_create {COPIES}"
    for n in range(1, MEMBERS + 1):
        yield f"mc_node_create {n} {port(n)}"
        yield f"mc_node_associate {COPIES} {n - 1}"
        yield (f"add Ingress.admit.member hdr.ipv4.src:0x{ip(n):08x} hdr.udp.src:{CLIENTS} in_port:{port(n)} hdr.ipv4.dst:0x{BOX:08x}"
               f" hdr.udp.dst:{FEEDBACK} Ingress.admit.is_member(number:{NUMBER})")
        yield (f"add Egress.copy.receiver hdr.note.number:{NUMBER} copy:{n}"
               f" Egress.copy.to_member(mac:0x{mac(n).hex()}, ip:0x{ip(n):08x}, udp_port:{CLIENTS})")
    yield (f"add Ingress.admit.box_of hdr.ipv4.dst:0x{BOX:08x} hdr.udp.dst:{CLIENTS}"
           f" Ingress.admit.admit(number:{NUMBER}, base:{base}, last:{slots - 1}, longest:{LONGEST}, copies:{COPIES})")


def files():
    """{name: lines}"""
    tag = struct.pack(">BBBB8s", 2, 12, 1, 0, b"whatever")
    yield "pass", [*table(4), "# R-330: a write, a read, a session, without a checksum: to every member, with the client's address.",
        *passed(request(1)), *passed(request(2, b"get k", READ)), *passed(request(3, options=SESSION)),
        *passed(request(4, b"odd"), checksum=False)]
    yield "limit", [*table(2), "# R-330, I-6: two slots; the third is refused, and so is its copy; a copy of one that passed passes.",
        *passed(request(1)), *passed(request(2)), *dropped(request(3)), *dropped(request(3)), *passed(request(2)),
        "# FEEDBACK frees a slot, once, whoever of them sends it; its options are not looked at (W-8).",
        told(3, feedback(1, options=tag)), told(1, feedback(1)), *dropped(request(4)), *passed(request(5)), *dropped(request(6)),
        "# What was answered is not counted again; a client that was told DROP hears nothing else.",
        *passed(request(1)), *dropped(request(3)), told(2, feedback(2)), told(2, feedback(5)), *passed(request(7)), *passed(request(8)),
        "# Another client's request of the same number is another one.", *dropped(request(7), source=31001)]
    yield "refused", [*table(1), "# W-8: FEEDBACK by another port, from another source port, without a pair, of an IPv6 pair, twice as long.",
        *passed(request(1)), told(1, feedback(1), at=port(2)), told(1, feedback(1), source=9), told(1, feedback(1, flags=0)),
        told(1, feedback(1, version=2)), told(1, feedback(1) + feedback(1)), told(1, feedback(2)), told(1, feedback(1, source=1)),
        told(1, request(1)), "# R-331: to the group only what an order is for, and what one packet carries (R-314); else DROP.",
        *dropped(request(2)), *dropped(request(3, policy=0)), *dropped(request(4, policy=1)), *dropped(request(5, bytes(LONGEST + 1))),
        *dropped(request(6, flags=0x80, count=2)), *dropped(request(7, options=b"\x80\x04\0\0")), silent(request(6, flags=0x40)),
        "# Nobody says that he is somebody else, or signs; nothing malformed is answered.",
        silent(request(8, options=struct.pack(">BBHI", 1, 8, 1, ip(1)))), silent(request(9, options=tag)), silent(request(10, options=b"\7\4\0\0")),
        silent(feedback(1)), silent(request(11), client=0xE0000001), silent(request(12)[:7]), silent(b"\xcd" + request(13)[1:]),
        silent(request(14, count=2)), "# None of it freed the slot; this does.", told(1, feedback(1)), *dropped(request(16, bytes(LONGEST + 1))),
        *passed(request(15, bytes(LONGEST)))]
    other = frame(ip(1), ip(2), (7, 7), mac(2) + mac(1), b"between two members")
    arp = struct.pack(">HHBBH6sI6sI", 1, 0x0800, 6, 4, 1, mac(1), ip(1), bytes(6), BOX)
    reply = struct.pack(">HHBBH6sI6sI", 1, 0x0800, 6, 4, 2, OWN, BOX, mac(1), ip(1))
    yield "transit", [*table(1), f"add Ingress.admit.station hdr.ethernet.dst:0x{mac(2).hex()} Ingress.admit.to_port({port(2)})",
        f"add Ingress.admit.address hdr.arp.target:0x{BOX:08x} hdr.arp.operation:1 hdr.arp.protocol:0x0800 Ingress.admit.is_asked(0x{OWN.hex()})",
        "# Others' traffic passes as it is; the switch says where its address is; another port of it is nobody's.",
        stf_files.packet(port(1), other), stf_files.expect(port(2), other),
        stf_files.packet(port(1), bytes([255] * 6) + mac(1) + b"\x08\x06" + arp), stf_files.expect(port(1), mac(1) + OWN + b"\x08\x06" + reply),
        stf_files.packet(port(1), frame(ip(1), BOX, (7, 9), OWN + mac(1), b"nobody listens here")),
        stf_files.packet(port(1), frame(ip(1), 99, (7, 9), mac(3) + mac(1), b"to nobody"))]


if __name__ == "__main__":
    sys.exit(stf_files.write(HERE, "For either of the box's shells.", files()))
