#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the test files beside it: frames of the protocol page, and what a router has to make of them.

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
from stf_files import expect, ones, packet  # noqa: E402

ROUTER, CLIENT, WORKER = 0x0A000001, 0x0A000101, 0x0A015000
MACS = {ROUTER: bytes.fromhex("020000000001"), CLIENT: bytes.fromhex("020000000101"), WORKER: bytes.fromhex("020000010000")}
LABEL = 0x3A5F1C29
CLIENT_PORT, WORKER_PORT = 3, 7


def frame(src, dst, sport, dport, payload, ttl=64, **odd):
    """A frame with right checksums; odd: what is wrong with it."""
    udp = struct.pack(">4H", sport, dport, 8 + len(payload), 0) + payload
    ends = struct.pack(">II", src, dst)
    summed = ~ones(ends + struct.pack(">HH", 17, len(udp)) + udp) & 0xFFFF
    udp = udp[:6] + struct.pack(">H", 0 if odd.get("unsummed") else summed) + udp[8:]
    options = odd.get("options", b"")
    head = struct.pack(">BBHHHBBH", 0x45 + len(options) // 4, 0, 20 + len(options) + len(udp), 0, odd.get("fragment", 0x4000), ttl, 17, 0) + ends + options
    head = head[:10] + struct.pack(">H", ~ones(head) & 0xFFFF ^ odd.get("sum", 0)) + head[12:]
    return (MACS[dst] + MACS[src] + b"\x08\0" + head + udp).ljust(odd.get("least", 60), b"\0")


def request(body=b"hello", policy=0, flags=0xE0, count=1, options=b"", req_id=0x1234, magic=0xCC):
    return struct.pack(">BBBBHH", magic, 8 + len(options), policy, flags, req_id, count) + options + body


def feedback(n, life, received, served, flags=0):
    return struct.pack(">BBBBHH", 0xCC, 8, 0x20, 0xE0, 0, 1) + bytes(8) + struct.pack(">BBHIQQ", 1, flags, n, life, received, served)


def forwarded(payload, ttl=63, **odd):
    """Only the destination is another (R-4), and the router names itself (R-62)."""
    size = payload[1]
    payload = bytes([payload[0], size + 8]) + payload[2:8] + struct.pack(">BBIH", 5, 6, LABEL, 0) + payload[8:]
    out = frame(CLIENT, WORKER, 40000, 8100, payload, ttl, least=0, **odd)
    return out[:6] + MACS[ROUTER] + out[12:]  # Ethernet's padding stays behind it


def drop(req_id=0x1234):
    payload = struct.pack(">BBBBHH", 0xCC, 8, 0x41, 0xC0, req_id, 1) + b"DROP"
    return frame(ROUTER, CLIENT, 8000, 40000, payload, least=0)


def to_router(payload, **odd):
    return frame(CLIENT, ROUTER, 40000, odd.pop("port", 8000), payload, **odd)


def from_worker(payload, sport=8100):
    return frame(WORKER, ROUTER, sport, 9000, payload)


def service(choose, workers):
    """Entries of a service with one worker, as the operator writes them: the service last (W-22)."""
    lines = [
        f"add Ingress.route.own hdr.ipv4.dst:0x{ROUTER:08x} Ingress.route.is_own()",
        f"add Ingress.route.own_source hdr.ipv4.src:0x{ROUTER:08x} Ingress.route.is_own_source()",
        f"add Ingress.route.member hdr.ipv4.src:0x{WORKER:08x} hdr.udp.src:8100 in_port:{WORKER_PORT} hdr.ipv4.dst:0x{ROUTER:08x} hdr.udp.dst:9000"
        " Ingress.route.report(service:5, row:3, slot:1, pair:0, half:0, loss:2000)",
        f"add Ingress.route.target meta.row:3 meta.found:1 Ingress.route.to_worker(port:{WORKER_PORT}, own_mac:0x020000000001, mac:0x020000010000,"
        f" address:0x{WORKER:08x}, udp_port:8100)",
    ]
    if choose:
        lines.append("add Ingress.route.ring meta.service:5 meta.turn:0 Ingress.route.pick(row:3, slot:1, pair:0, delta_lo:0xffffffff, delta_hi:0)")
    lines.append(f"add Ingress.route.service hdr.ipv4.dst:0x{ROUTER:08x} hdr.udp.dst:8000 Ingress.route.serve(service:5, choose:{choose}, base:3,"
                 f" last_group:0, top:2, mask:{workers - 1}, limit:100, patience:1000000, router:0x{LABEL:08x})")
    return lines


def arp(operation, sender, target, target_mac):
    """Who asks does not know whom."""
    to = target_mac if operation == 2 else b"\xff" * 6
    return (to + MACS[sender] + b"\x08\x06" + struct.pack(">HHBBH", 1, 0x0800, 6, 4, operation) + MACS[sender] + struct.pack(">I", sender)
            + (target_mac if operation == 2 else bytes(6)) + struct.pack(">I", target)).ljust(60, b"\0")


JOIN = [packet(WORKER_PORT, from_worker(feedback(3, 9, 0, 0, 1))), "wait"]


def files():
    """{name: lines}"""
    ask = request()
    yield "forward", service(0, 1) + JOIN + [
        "# Credits for three, then two more for what was served.",
        *[line for i in range(3) for line in (packet(CLIENT_PORT, to_router(request(req_id=i))), expect(WORKER_PORT, forwarded(request(req_id=i)), more=True))],
        packet(WORKER_PORT, from_worker(feedback(3, 9, 3, 2))), "wait",
        "# The same again, and an older one: nothing changes.",
        packet(WORKER_PORT, from_worker(feedback(3, 9, 3, 2))), "wait", packet(WORKER_PORT, from_worker(feedback(3, 9, 3, 1))), "wait",
        packet(CLIENT_PORT, to_router(ask, unsummed=True)), expect(WORKER_PORT, forwarded(ask, unsummed=True), more=True),
        packet(CLIENT_PORT, to_router(request(options=bytes([3, 4, 7, 1])))), expect(WORKER_PORT, forwarded(request(options=bytes([3, 4, 7, 1]))), more=True),
        "# REQ0 of two, with fourteen bytes.",
        packet(WORKER_PORT, from_worker(feedback(3, 9, 5, 5))), "wait",
        packet(CLIENT_PORT, to_router(request(b"fourteen bytes", flags=0xA0, count=2))), expect(WORKER_PORT, forwarded(request(b"fourteen bytes", flags=0xA0, count=2)), more=True),
    ]
    yield "turns", service(1, 1) + [line for i in range(5) for line in (packet(CLIENT_PORT, to_router(request(req_id=i))), expect(WORKER_PORT, forwarded(request(req_id=i)), more=True))]
    yield "random", service(2, 1) + [line for i in range(5) for line in (packet(CLIENT_PORT, to_router(request(req_id=i))), expect(WORKER_PORT, forwarded(request(req_id=i)), more=True))]
    yield "refused", service(0, 1) + JOIN + [
        "# A policy that a switch has not (R-12), an option that must be understood (R-55), no room for option 5 (R-62).",
        *[line for p in (1, 2, 3, 15) for line in (packet(CLIENT_PORT, to_router(request(policy=p))), expect(CLIENT_PORT, drop(), more=True))],
        packet(CLIENT_PORT, to_router(request(options=bytes([0x80, 4, 0, 0])))), expect(CLIENT_PORT, drop(), more=True),
        packet(CLIENT_PORT, to_router(request(b"x" * 1460))), expect(CLIENT_PORT, drop(), more=True),
        packet(CLIENT_PORT, to_router(request(b"", policy=1))), expect(CLIENT_PORT, drop(), more=True),
    ]
    bad = [request(magic=0xCB), request(flags=0x40), request(flags=0xC0, count=2), request(flags=0x80), request(flags=0xC0, count=0), b"", ask[:7],
           request(options=bytes([1, 8, 0, 1, 10, 0, 0, 1])), request(options=bytes([3, 3, 0, 0])), bytes([0xCC, 10]) + ask[2:] + b"..", bytes([0xCC, 7]) + ask[2:],
           bytes([0xCC, 64]) + ask[2:], ask[:2] + bytes([0x10]) + ask[3:], feedback(3, 9, 4, 4)]
    must, unknown = bytes([0x80, 4, 0, 0]), bytes([0x80, 1, 0, 0])  # no DROP for what is broken besides (M-3, M-7, M-8)
    bad += [request(options=must, count=2), request(options=must, flags=0xA0, count=1), request(options=must, count=0), request(options=unknown),
            request(options=bytes([7, 17, 0, 0]) + bytes(16)), request(options=bytes([8, 3, 0, 0])),
            bytes([0xCC, 64]) + request(options=must)[2:], bytes([0xCC, 64]) + request(policy=1)[2:]]
    yield "malformed", service(0, 1) + JOIN + [
        "# R-54: counted, and nothing comes of it.",
        *[packet(CLIENT_PORT, to_router(p)) for p in bad],
        packet(CLIENT_PORT, to_router(ask, fragment=0x2000)), packet(CLIENT_PORT, to_router(ask, fragment=0x0010)),
        packet(CLIENT_PORT, to_router(ask, options=bytes([7, 4, 0, 0]))), packet(CLIENT_PORT, to_router(ask, sum=1)), packet(CLIENT_PORT, to_router(ask, port=8001)),
        packet(CLIENT_PORT, to_router(ask)[:45]),
        "# W-8: FEEDBACK from another port of the switch, another UDP port; M-22: served above received.",
        packet(CLIENT_PORT, from_worker(feedback(3, 9, 9, 9))), packet(WORKER_PORT, from_worker(feedback(3, 9, 9, 9), sport=8101)),
        packet(WORKER_PORT, from_worker(feedback(3, 9, 4, 5))), packet(WORKER_PORT, from_worker(feedback(3, 9, 4, 4)[:16])), packet(WORKER_PORT, from_worker(ask)),
        "# The worker still has three credits, and no more.",
        *[line for i in range(3) for line in (packet(CLIENT_PORT, to_router(request(req_id=i))), expect(WORKER_PORT, forwarded(request(req_id=i)), more=True))],
    ]
    yield "arp", [
        "# Asked for its own address the switch answers; others' questions and answers pass.",
        f"add Ingress.route.address hdr.arp.target:0x{ROUTER:08x} hdr.arp.operation:1 hdr.arp.protocol:0x0800 Ingress.route.is_asked(mac:0x020000000001)",
        "add Ingress.route.station hdr.ethernet.dst:0xffffffffffff Ingress.route.to_port(port:9)",
        "add Ingress.route.station hdr.ethernet.dst:0x020000000001 Ingress.route.to_port(port:8)",
        packet(CLIENT_PORT, arp(1, CLIENT, ROUTER, b"")), expect(CLIENT_PORT, arp(2, ROUTER, CLIENT, MACS[CLIENT])),
        packet(CLIENT_PORT, arp(1, CLIENT, WORKER, b"")), expect(9, arp(1, CLIENT, WORKER, b"")),
        packet(CLIENT_PORT, arp(2, CLIENT, ROUTER, MACS[ROUTER])), expect(8, arp(2, CLIENT, ROUTER, MACS[ROUTER])),
        packet(CLIENT_PORT, arp(1, CLIENT, ROUTER, b"")[:40]), expect(9, arp(1, CLIENT, ROUTER, b"")[:40]),
    ]
    yield "admission", service(0, 1) + JOIN + [
        "# R-205, R-214: class 5 is refused (but for one of 65,536), and only when its client does not ask not to be; the rate of class 6 counts",
        "# no more (R-223), and nobody has given one to requests without a class.",
        *[f"add Ingress.route.ask.admit hdr.ipv4.dst:0x{ROUTER:08x} hdr.udp.dst:8000 meta.label:{label}"
          f" Ingress.route.ask.rate(number:{number}, measure:1, rate_16:65535, until:{until})"
          for label, number, until in (("0x05*0", 13, "0x7fffffff"), ("0x06*0", 14, "0xc0000000"))],
        *[line for label in ((5, 1), (6, 0)) for line in (packet(CLIENT_PORT, to_router(request(options=bytes([3, 4, *label])))),
                                                         expect(WORKER_PORT, forwarded(request(options=bytes([3, 4, *label]))), more=True))],
        packet(CLIENT_PORT, to_router(request(options=bytes([3, 4, 5, 0])))), expect(CLIENT_PORT, drop(), more=True),
        packet(CLIENT_PORT, to_router(ask)), expect(WORKER_PORT, forwarded(ask), more=True),
    ]
    other = frame(CLIENT, WORKER, 53, 5353, ask)
    yield "transit", service(0, 1) + [
        "# Others' traffic passes as it is, whatever is in it: here what looks like a request, and a wrong checksum.",
        "add Ingress.route.station hdr.ethernet.dst:0x020000010000 Ingress.route.to_port(port:7)",
        packet(CLIENT_PORT, other), expect(WORKER_PORT, other), packet(CLIENT_PORT, frame(CLIENT, WORKER, 53, 5353, ask, sum=1)),
        expect(WORKER_PORT, frame(CLIENT, WORKER, 53, 5353, ask, sum=1)),
        "# Nobody knows this station.",
        packet(CLIENT_PORT, bytes.fromhex("0200000a0b0c") + other[6:]),
    ]


if __name__ == "__main__":
    sys.exit(stf_files.write(HERE, "For any of the router's shells; times do not matter.", files()))
