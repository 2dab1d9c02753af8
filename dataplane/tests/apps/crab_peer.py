# SPDX-License-Identifier: Apache-2.0
"""The other ends of a CRAB balancer, written byte by byte, because no kernel here speaks the option by itself. IP, SRC
and DST are of one family.

  crab_peer.py server IP       on eth0, which has no address: answers ARP or neighbour solicitations for IP, and each
                               SYN by a SYN-ACK that echoes the option; prints a JSON line for each SYN
  crab_peer.py syn SRC DST PORT   sends one SYN with a placeholder by a raw socket
"""
import json
import socket
import struct
import sys

ETH_ALL = 3
ARP, IP4, IP6 = b"\x08\x06", b"\x08\0", b"\x86\xdd"
ICMP6, SOLICITATION, ADVERTISEMENT = 58, 135, 136


def number(text):
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)


def text_of(address):
    return socket.inet_ntop(socket.AF_INET6 if len(address) == 16 else socket.AF_INET, address)


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def body_checksum(src, dst, protocol, body):
    return checksum(src + dst + struct.pack("!II", len(body), protocol) + body)


def headed(src, dst, protocol, hops, body):
    if len(src) == 16:
        return struct.pack("!IHBB", 0x60000000, len(body), protocol, hops) + src + dst + body
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0x4000, hops, protocol, 0) + src + dst
    return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + body


def packet(src, dst, sport, dport, seq, ack, flags, options):
    tcp = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, (20 + len(options)) // 4 << 4, flags, 64240, 0, 0) + options
    tcp = tcp[:16] + struct.pack("!H", body_checksum(src, dst, 6, tcp)) + tcp[18:]
    return headed(src, dst, 6, 64, tcp)


def redirect_option(options, size):
    """The option of kind 42 as text of its address of `size` bytes, or None."""
    at = 0
    while at < len(options) and options[at] != 0:
        if options[at] == 1:
            at += 1
            continue
        if options[at] == 42 and options[at + 1] == 2 + size:
            return text_of(options[at + 2:at + 2 + size])
        at += options[at + 1]
    return None


def answer_arp(s, frame, own, mac):
    sender, wanted = frame[22:32], frame[38:42]
    if wanted == own and frame[20:22] == b"\0\x01":
        s.send(sender[:6] + mac + frame[12:20] + b"\0\x02" + mac + own + sender)


def answer_solicitation(s, frame, own, mac):
    asker, icmp = frame[22:38], frame[54:]
    if icmp[0] != SOLICITATION or icmp[8:24] != own:
        return
    body = struct.pack("!BBHI", ADVERTISEMENT, 0, 0, 0x60000000) + own + b"\x02\x01" + mac  # solicited, override
    body = body[:2] + struct.pack("!H", body_checksum(own, asker, ICMP6, body)) + body[4:]
    s.send(frame[6:12] + mac + IP6 + headed(own, asker, ICMP6, 255, body))


def answer_syn(s, frame, own, mac):
    ip = frame[14:]
    if ip[0] >> 4 == 6:
        head, total, hops, src, dst, right = 40, 40 + struct.unpack("!H", ip[4:6])[0], ip[7], ip[8:24], ip[24:40], True
    else:
        head, total = (ip[0] & 15) * 4, struct.unpack("!H", ip[2:4])[0]
        hops, src, dst, right = ip[8], ip[12:16], ip[16:20], checksum(ip[:head]) == 0
    tcp = ip[head:total]
    if dst != own or tcp[13] & 0x17 != 2:
        return
    sport, dport, seq = struct.unpack("!HHI", tcp[:8])
    options = tcp[20:(tcp[12] >> 4) * 4]
    vip = redirect_option(options, len(own))
    right = right and body_checksum(src, dst, 6, tcp) == 0
    print(json.dumps({"src": text_of(src), "sport": sport, "dport": dport, "vip": vip, "right": right, "ttl": hops}),
          flush=True)
    echo = bytes([1, 1, 42, 2 + len(own)]) + number(vip) if vip else b""
    s.send(frame[6:12] + mac + frame[12:14] + packet(dst, src, dport, sport, 7, (seq + 1) & 0xFFFFFFFF, 0x12, echo))


def serve(text):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_ALL))
    s.bind(("eth0", 0))
    # Solicitations are sent to groups this host's kernel, without an address, never asked for.
    index = socket.if_nametoindex("eth0")
    s.setsockopt(263, 1, struct.pack("iHH8s", index, 2, 0, b""))  # SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_ALLMULTI
    mac, own = s.getsockname()[4], number(text)
    while True:
        frame, where = s.recvfrom(65536)
        if where[2] == socket.PACKET_OUTGOING:
            continue
        kind = frame[12:14]
        if kind == ARP and len(own) == 4:
            answer_arp(s, frame, own, mac)
        elif kind == IP6 and len(own) == 16 and frame[20] == ICMP6:
            answer_solicitation(s, frame, own, mac)
        elif (kind == IP4 and len(own) == 4 and frame[23] == 6) or (kind == IP6 and len(own) == 16 and frame[20] == 6):
            answer_syn(s, frame, own, mac)


def syn(src, dst, port):
    src, to = number(src), number(dst)
    # IPv4: the address stands across 16-bit words.
    options = bytes([2, 4, 5, 180, 1, 42, 6, 0, 0, 0, 0, 1] if len(src) == 4 else [2, 4, 5, 180, 1, 42, 18] + [0] * 16 + [1])
    s = socket.socket(socket.AF_INET if len(src) == 4 else socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
    s.sendto(packet(src, to, int(port), 80, 12345, 0, 2, options), (dst, 0))


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1] == "server" else syn(*sys.argv[2:5])
