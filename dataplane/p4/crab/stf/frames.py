#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the test files beside it: SYNs for a VIP, and what a balancer has to make of them.

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

VIP, CLIENT, SERVER = 0x0A090909, 0x0A000101, 0x0A010000
OWN, CLIENT_MAC, SERVER_MAC = bytes.fromhex("020000000001"), bytes.fromhex("020000000101"), bytes.fromhex("020000020000")
CLIENT_PORT, SERVER_PORT = 3, 10
SYN, ACK = 2, 16
PLACEHOLDER = bytes([0x2A, 6, 0, 0, 0, 0, 1, 1])
LINUX = bytes.fromhex("020405b40402080a0102030400000000" "01030307")  # MSS, SACK permitted and timestamps, window scale


def segment(options=b"", flags=SYN, dst=VIP, ttl=64, data=b"", ip_options=b"", macs=OWN + CLIENT_MAC, port=80, seq=7, sum_ip=0):
    """A frame with right checksums, but for sum_ip."""
    tcp = struct.pack(">HHIIBBHHH", 40000, port, seq, 0, (5 + len(options) // 4) << 4, flags, 64240, 0, 0) + options + data
    ends = struct.pack(">II", CLIENT, dst)
    summed = ~ones(ends + struct.pack(">HH", 6, len(tcp)) + tcp) & 0xFFFF
    tcp = tcp[:16] + struct.pack(">H", summed) + tcp[18:]
    head = struct.pack(">BBHHHBBH", 0x45 + len(ip_options) // 4, 0, 20 + len(ip_options) + len(tcp), 0, 0x4000, ttl, 6, 0) + ends + ip_options
    head = head[:10] + struct.pack(">H", ~ones(head) & 0xFFFF ^ sum_ip) + head[12:]
    return macs + b"\x08\0" + head + tcp


def named(options):
    """The VIP stands in the option (C-21)."""
    return options.replace(b"\x2a\x06\0\0\0\0", b"\x2a\x06" + struct.pack(">I", VIP))


def redirected(options, **more):
    return segment(named(options), dst=SERVER, ttl=63, macs=SERVER_MAC + OWN, **more)


def balancer(capable=0, direct=1, ring=True):
    lines = [f"add Ingress.balance.own hdr.ipv4.dst:0x{VIP:08x} Ingress.balance.is_own()"]
    if ring:
        lines.append(f"add Ingress.balance.ring meta.vip:3 meta.choice:0 Ingress.balance.to_server(number:0, port:{SERVER_PORT},"
                     f" own_mac:0x020000000001, mac:0x020000020000, server:0x{SERVER:08x})")
    lines.append(f"add Ingress.balance.vip hdr.ipv4.dst:0x{VIP:08x} hdr.tcp.dst:80 Ingress.balance.balance(number:3, choose:0, last:0, mask:0,"
                 f" direct:{direct}, capable:{capable})")
    return lines


def pairs(*of):
    return [line for sent, want in of for line in (packet(CLIENT_PORT, sent), expect(SERVER_PORT, want))]


def files():
    """{name: lines}"""
    forms = [PLACEHOLDER, LINUX + PLACEHOLDER, bytes.fromhex("01012a0600000000"), LINUX + bytes.fromhex("01012a0600000000") + bytes(4),
             bytes.fromhex("020405b401010402") + PLACEHOLDER + bytes.fromhex("01030307")]
    yield "redirect", balancer() + [
        "# C-2, C-21: wherever the option stands, the VIP is written into it; a SYN with data, ECN's bits, another one's address.",
        *pairs(*((segment(f, seq=i), redirected(f, seq=i)) for i, f in enumerate(forms))),
        *pairs((segment(PLACEHOLDER, data=b"odd", seq=20), redirected(PLACEHOLDER, data=b"odd", seq=20)),
               (segment(PLACEHOLDER, flags=SYN | 0xC0, seq=21), redirected(PLACEHOLDER, flags=SYN | 0xC0, seq=21)),
               (segment(b"\x2a\x06\xc0\0\x02\x01\1\1", seq=22), redirected(PLACEHOLDER, seq=22))),
    ]
    put = named(PLACEHOLDER)
    yield "insert", balancer(capable=1) + [
        "# C-22: the option is put in front of the others; the pseudo-header counts the TCP length.",
        *pairs(*((segment(o, data=d, seq=i), segment(put + o, dst=SERVER, ttl=63, macs=SERVER_MAC + OWN, data=d, seq=i))
                 for i, (o, d) in enumerate(((b"", b""), (LINUX, b""), (LINUX + bytes(12), b"fast open"))))),
    ]
    yield "fallback", balancer() + [
        "# C-40 to C-42: what cannot be redirected keeps its addresses: no placeholder, options that are not read, no SYN.",
        "# The hash has no places here, so that nobody is found (C-43) and nothing leaves.",
        packet(CLIENT_PORT, segment(LINUX)), packet(CLIENT_PORT, segment(LINUX, flags=ACK)),
        packet(CLIENT_PORT, segment(bytes([34, 4, 1, 2]))),
        "# What is wrong is discarded: TTL, IP options, IP's checksum, another port.",
        packet(CLIENT_PORT, segment(PLACEHOLDER, ttl=1)), packet(CLIENT_PORT, segment(PLACEHOLDER, ip_options=bytes([1, 1, 1, 1]))),
        packet(CLIENT_PORT, segment(PLACEHOLDER, sum_ip=1)), packet(CLIENT_PORT, segment(PLACEHOLDER, port=81)),
        packet(CLIENT_PORT, segment(PLACEHOLDER)[:50]), "no_packet",
    ]
    other = segment(PLACEHOLDER, dst=SERVER)
    yield "transit", balancer() + [
        "# C-24: others' traffic passes as it is.",
        "add Ingress.balance.station hdr.ethernet.dst:0x020000000001 Ingress.balance.to_port(port:9)",
        packet(CLIENT_PORT, other), expect(9, other),
    ]


if __name__ == "__main__":
    sys.exit(stf_files.write(HERE, "For either of the balancer's shells; times do not matter.", files()))
