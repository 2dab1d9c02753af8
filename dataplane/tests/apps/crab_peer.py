# SPDX-License-Identifier: Apache-2.0
"""The other ends of a CRAB balancer, written byte by byte, because no kernel here speaks the option by itself.

  crab_peer.py server IP       on eth0, which has no address: answers ARP for IP, and each SYN by a SYN-ACK that echoes
                               the option; prints a JSON line for each SYN
  crab_peer.py syn SRC DST PORT KIND   sends one SYN with a placeholder by a raw socket
"""
import json
import socket
import struct
import sys

ETH_ALL = 3


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def tcp_checksum(src, dst, segment):
    return checksum(src + dst + struct.pack("!BBH", 0, 6, len(segment)) + segment)


def packet(src, dst, sport, dport, seq, ack, flags, options):
    tcp = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, (20 + len(options)) // 4 << 4, flags, 64240, 0, 0) + options
    tcp = tcp[:16] + struct.pack("!H", tcp_checksum(src, dst, tcp)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 1, 0x4000, 64, 6, 0) + src + dst
    return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + tcp


def redirect_option(options):
    """The option of kind 42 as text of its address, or None."""
    at = 0
    while at < len(options) and options[at] != 0:
        if options[at] == 1:
            at += 1
            continue
        if options[at] == 42 and options[at + 1] == 6:
            return socket.inet_ntoa(options[at + 2:at + 6])
        at += options[at + 1]
    return None


def answer_arp(s, frame, own, mac):
    sender, wanted = frame[22:32], frame[38:42]
    if wanted == own and frame[20:22] == b"\0\x01":
        s.send(sender[:6] + mac + frame[12:20] + b"\0\x02" + mac + own + sender)


def answer_syn(s, frame, own, mac):
    ip = frame[14:]
    head, total = (ip[0] & 15) * 4, struct.unpack("!H", ip[2:4])[0]
    src, dst, tcp = ip[12:16], ip[16:20], ip[head:total]
    if dst != own or tcp[13] & 0x17 != 2:
        return
    sport, dport, seq = struct.unpack("!HHI", tcp[:8])
    options = tcp[20:(tcp[12] >> 4) * 4]
    vip = redirect_option(options)
    right = checksum(ip[:head]) == 0 and tcp_checksum(src, dst, tcp) == 0
    print(json.dumps({"src": socket.inet_ntoa(src), "sport": sport, "dport": dport, "vip": vip, "right": right,
                      "ttl": ip[8]}), flush=True)
    echo = b"\x01\x01\x2a\x06" + socket.inet_aton(vip) if vip else b""
    s.send(frame[6:12] + mac + b"\x08\0" + packet(dst, src, dport, sport, 7, (seq + 1) & 0xFFFFFFFF, 0x12, echo))


def serve(text):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_ALL))
    s.bind(("eth0", 0))
    mac, own = s.getsockname()[4], socket.inet_aton(text)
    while True:
        frame, where = s.recvfrom(65536)
        if where[2] == socket.PACKET_OUTGOING:
            continue
        if frame[12:14] == b"\x08\x06":
            answer_arp(s, frame, own, mac)
        elif frame[12:14] == b"\x08\0" and frame[23] == 6:
            answer_syn(s, frame, own, mac)


def syn(src, dst, port):
    options = bytes([2, 4, 5, 180, 1, 42, 6, 0, 0, 0, 0, 1])  # the address stands across 16-bit words
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    s.sendto(packet(socket.inet_aton(src), socket.inet_aton(dst), int(port), 80, 12345, 0, 2, options), (dst, 0))


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1] == "server" else syn(*sys.argv[2:5])
