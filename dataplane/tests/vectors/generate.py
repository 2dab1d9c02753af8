#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write r2p2.json, histogram.json, distributions.json and crab_reports.json: what the C and the Go side must agree on.

A third implementation of the formats, on purpose: it shares no code with either
side. Integers that may exceed 2^53 are decimal strings. Run it in this folder.
"""
import hashlib
import hmac
import ipaddress
import json
import math
import struct

MASK = (1 << 64) - 1


def siphash24(key, data):
    def rotl(x, b):
        return ((x << b) | (x >> (64 - b))) & MASK

    k0, k1 = struct.unpack("<QQ", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def round_():
        v[0] = (v[0] + v[1]) & MASK; v[1] = rotl(v[1], 13) ^ v[0]; v[0] = rotl(v[0], 32)
        v[2] = (v[2] + v[3]) & MASK; v[3] = rotl(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & MASK; v[3] = rotl(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & MASK; v[1] = rotl(v[1], 17) ^ v[2]; v[2] = rotl(v[2], 32)

    tail = data + b"\0" * (7 - len(data) % 8) + bytes([len(data) & 255])
    for i in range(0, len(tail), 8):
        m = struct.unpack_from("<Q", tail, i)[0]
        v[3] ^= m; round_(); round_(); v[0] ^= m
    v[2] ^= 0xFF
    for _ in range(4):
        round_()
    return struct.pack("<Q", v[0] ^ v[1] ^ v[2] ^ v[3])


def split(addr):
    host, port = addr.rsplit(":", 1)
    return ipaddress.ip_address(host.strip("[]")), int(port)


def ip16(ip):
    return b"\0" * 10 + b"\xff\xff" + ip.packed if ip.version == 4 else ip.packed


def endpoint(addr):
    ip, port = split(addr)
    return ip16(ip) + struct.pack(">H", port)


TYPES = {"REQUEST": 0, "REPLY": 1, "FEEDBACK": 2, "REQRDY": 3, "DROP": 4, "SACK": 8, "CANCEL": 9}


def options(d):
    out = b""
    if "forwarded" in d:
        ip, port = split(d["forwarded"])
        out += bytes([1, 4 + len(ip.packed)]) + struct.pack(">H", port) + ip.packed
    if "tag" in d:
        out += bytes([2, 12, d["tag"]["keyId"], d["tag"]["flags"]]) + bytes.fromhex(d["tag"]["hex"])
    if "class" in d:
        out += bytes([3, 4, d["class"]["id"], d["class"]["flags"]])
    if "trace" in d:
        out += bytes([4, 10]) + struct.pack(">Q", int(d["trace"]))
    if "routerId" in d:
        out += bytes([5, 6]) + struct.pack(">I", d["routerId"])
    if "copy" in d:
        out += bytes([6, 6]) + struct.pack(">I", d["copy"])
    if "flow" in d:
        out += bytes([8, 4]) + struct.pack(">H", d["flow"])
    return out + b"\0" * (-len(out) % 4)


def packet(d):
    opt = options(d)
    flags = 0x80 * d["first"] | 0x40 * d["last"] | 0x20 * d["ext"]
    head = bytes([0xCC, 8 + len(opt), TYPES[d["type"]] << 4 | d["policy"], flags])
    return head + struct.pack(">HH", d["reqId"], d["countOrIndex"]) + opt + bytes.fromhex(d["payload"])


def hdr(kind, req_id=0x1234, count=1, first=True, last=None, policy=0, ext=True, payload="", **opt):
    d = {"type": kind, "policy": policy, "first": first, "last": (first and count == 1) if last is None else last,
         "ext": ext, "legacy": False, "reqId": req_id, "countOrIndex": count, "payload": payload}
    d.update(opt)
    d["headerSize"] = 8 + len(options(d))
    return d


def good(name, role, d):
    return {"name": name, "role": role, "hex": packet(d).hex(), "case": "OK", "decoded": d, "canonical": True}


def bad(name, role, case, data):
    return {"name": name, "role": role, "hex": data if isinstance(data, str) else data.hex(), "case": case}


def packets():
    text = b"hello".hex()
    tag = {"keyId": 1, "flags": 0, "hex": "0102030405060708"}
    out = [
        good("single request", "server", hdr("REQUEST", payload=text)),
        good("single request, no extensions", "server", hdr("REQUEST", ext=False, payload=text)),
        good("zero-byte request (R-14)", "server", hdr("REQUEST")),
        good("sticky request", "router", hdr("REQUEST", policy=1, payload=text)),
        good("replicated write", "server", hdr("REQUEST", policy=2, payload=text)),
        good("replicated read", "server", hdr("REQUEST", policy=3, payload=text)),
        good("largest single request, 1464 B", "server", hdr("REQUEST", ext=False, payload="5a" * 1464)),
        good("first of two, 14 B (§4)", "server", hdr("REQUEST", count=2, payload="11" * 14)),
        good("REQ1 of two", "server", hdr("REQUEST", count=1, first=False, last=True, payload="22" * 1451)),
        good("REQn in the middle", "server", hdr("REQUEST", count=3, first=False, payload="33" * 1464)),
        good("65535 packets (R-9)", "server", hdr("REQUEST", count=65535, payload="44" * 14)),
        good("reply", "client", hdr("REPLY", policy=1, payload=text)),
        good("zero-byte reply", "client", hdr("REPLY")),
        good("first of three of a reply", "client", hdr("REPLY", count=3, payload="66" * 1464)),
        good("reply, last packet", "client", hdr("REPLY", count=2, first=False, last=True, payload="77")),
        good("REQRDY", "client", hdr("REQRDY", policy=1, payload=b"ACK".hex())),
        good("DROP", "client", hdr("DROP", policy=1, payload=b"DROP".hex())),
        good("SACK", "client", hdr("SACK", payload="000000010003e0")),
        good("FEEDBACK version 1", "router", hdr("FEEDBACK", payload=FEEDBACK_V1)),
        good("forwarded-for IPv4 (R-56)", "server", hdr("REQUEST", payload=text, forwarded="10.1.2.3:40000")),
        good("forwarded-for IPv6", "server", hdr("REQUEST", payload=text, forwarded="[fd00::1:2]:40001")),
        good("tagged", "router", hdr("FEEDBACK", payload=FEEDBACK_V1, tag=tag)),
        good("class", "server", hdr("REQUEST", payload=text, **{"class": {"id": 7, "flags": 1}})),
        good("trace", "client", hdr("REPLY", payload=text, trace=str(0x1122334455667788))),
        good("router id", "server", hdr("REQUEST", payload=text, routerId=0xDEADBEEF)),
        good("copy (R-270)", "server", hdr("REQUEST", payload=text, copy=0x01020304)),
        good("CANCEL (R-270)", "server", hdr("CANCEL", forwarded="10.1.2.3:40000", copy=0xFFFFFFFF)),
        good("flow control asked for (F-49)", "server", hdr("REQUEST", payload=text, flow=0x7FFF)),
        good("tokens (F-31)", "client", hdr("REPLY", payload=text, flow=5, trace=str(0x1122334455667788))),
        good("silence (F-31)", "client", hdr("DROP", policy=1, payload=b"DROP".hex(), flow=0x81F4)),
        good("window 0 (F-31)", "client", hdr("REPLY", payload=text, flow=0)),
        bad("flow control of 5 bytes", "client", "OPT-LENGTH", "cc1010c012340001" + "0805000500000000"),
        good("CANCEL, IPv6, tagged", "server", hdr("CANCEL", forwarded="[fd00::1:2]:40001", tag=tag, copy=7)),
        good("every option but the router's, 64-byte header", "server",
             hdr("REQUEST", payload=text, forwarded="[2001:db8::ff]:65535", tag=tag, trace=str(MASK), copy=1,
                 **{"class": {"id": 255, "flags": 3}})),
        good("every option but the copy, 60-byte header", "server",
             hdr("REQUEST", payload=text, forwarded="[2001:db8::ff]:65535", tag=tag, trace=str(MASK), routerId=1,
                 **{"class": {"id": 255, "flags": 3}})),
    ]
    skip = hdr("REQUEST", payload=text)
    skip["headerSize"] = 16
    out.append({"name": "unknown option, top bit clear: skipped", "role": "server", "case": "OK", "canonical": False,
                "hex": "cc1000e012340001" + "4206ffffffff0000" + text, "decoded": skip})
    rsv = hdr("REQUEST", payload=text)
    out.append({"name": "reserved flag bits are ignored", "role": "server", "case": "OK", "canonical": False,
                "hex": "cc0800ff12340001" + text, "decoded": rsv})
    legacy = {"type": "FEEDBACK", "policy": 0, "first": True, "last": True, "ext": False, "legacy": True,
              "reqId": 0x0102, "countOrIndex": 1, "headerSize": 8, "payload": "01029c400a010203"}
    out.append({"name": "legacy FEEDBACK, other header bytes unset (R-7)", "role": "router", "case": "OK",
                "canonical": False, "hex": "cc00200000000000" + "01029c400a010203", "decoded": legacy})
    out.append({"name": "legacy FEEDBACK, header bytes garbage", "role": "router", "case": "OK", "canonical": False,
                "hex": "ccff20ffffffffff" + "01029c400a010203", "decoded": legacy})
    return out + bad_packets(text)


def bad_packets(text):
    two_tags = "020c01000000000000000000" * 2
    return [
        bad("empty", "server", "M-1", ""),
        bad("seven bytes", "server", "M-1", "cc0800c0123400"),
        bad("magic", "server", "M-2", "cb0800c012340001"),
        bad("header size 7", "server", "M-3", "cc0700c012340001"),
        bad("header size beyond packet", "server", "M-3", "cc0c00c012340001"),
        bad("FEEDBACK at a client", "client", "M-5", packet(hdr("FEEDBACK", payload=FEEDBACK_V1))),
        bad("FEEDBACK on the request port", "router-requests", "M-5", packet(hdr("FEEDBACK", payload=FEEDBACK_V1))),
        bad("REQUEST on the feedback port", "router-feedback", "M-5", packet(hdr("REQUEST", payload=text))),
        bad("REPLY at a router", "router", "M-5", packet(hdr("REPLY", payload=text))),
        bad("REPLY at a server", "server", "M-5", packet(hdr("REPLY", payload=text))),
        bad("REQUEST at a client", "client", "M-5", packet(hdr("REQUEST", payload=text))),
        bad("SACK at a router", "router", "M-5", packet(hdr("SACK", payload="000000010003e0"))),
        bad("CANCEL at a client", "client", "M-5", "cc0890c012340001"),
        bad("CANCEL at a router", "router", "M-5", "cc0890c012340001"),
        bad("type 10", "any", "M-5", "cc08a0c012340001"),
        bad("type 15", "any", "M-5", "cc08f0c012340001"),
        bad("Raft request outside a group", "server", "M-26", "cc0850c012340001"),
        bad("Raft reply outside a group", "server", "M-26", "cc0860c012340001"),
        bad("Raft message outside a group", "client", "M-26", "cc0870c012340001"),
        bad("policy 4", "server", "M-6", "cc0804c012340001"),
        bad("policy 15 on a REPLY", "client", "M-6", "cc081fc012340001"),
        bad("F with count 0", "server", "M-7", "cc08008012340000"),
        bad("F|L with count 0", "server", "M-7", "cc0800c012340000"),
        bad("REQRDY without L", "client", "M-7", "cc08318012340001"),
        bad("DROP without F", "client", "M-7", "cc08414012340001"),
        bad("CANCEL without L", "server", "M-7", "cc08908012340001"),
        bad("SACK without flags", "server", "M-7", "cc08800012340001" + "000000010001" + "80"),
        bad("FEEDBACK without flags, not legacy size", "router", "M-7", "cc08200012340001" + FEEDBACK_V1),
        bad("F|L with count 2", "server", "M-8", "cc0800c012340002"),
        bad("F without L, count 1", "server", "M-8", "cc08008012340001"),
        bad("DROP with count 2", "client", "M-8", "cc0841c012340002"),
        bad("index 0 without F", "server", "M-9", "cc08000012340000"),
        bad("header size 10", "server", "OPT-SIZE", "cc0a00c0123400010000"),
        bad("header size 68", "server", "OPT-SIZE", "cc4400c012340001" + "00" * 60),
        bad("option cut off", "server", "OPT-TRUNCATED", "cc0c00c012340001" + "03080000"),
        bad("option of length 1", "server", "OPT-TRUNCATED", "cc0c00c012340001" + "03010000"),
        bad("option kind without length", "server", "OPT-TRUNCATED", "cc0c00c012340001" + "00000003"),
        bad("class of 3 bytes", "server", "OPT-LENGTH", "cc0c00c012340001" + "03030000"),
        bad("copy of 5 bytes", "server", "OPT-LENGTH", "cc1000c012340001" + "0605000000000000"),
        bad("forwarded-for of 9 bytes", "server", "OPT-LENGTH", "cc1400c012340001" + "010900000000000000000000"),
        bad("tag twice", "server", "OPT-DUPLICATE", "cc2000c012340001" + two_tags),
        bad("critical option", "server", "OPT-CRITICAL", "cc0c00c012340001" + "80040000"),
    ]


def feedback_payload(d):
    ip, port = split(d["client"])
    addr = ip.packed if d["flags"] & 4 or d["version"] == 0 else b"\0" * len(ip.packed)
    head = struct.pack(">HH", d["reqId"], port) + addr
    if d["version"] == 0:
        return head
    return head + struct.pack(">BBHIQQ", d["version"], d["flags"], d["n"], d["incarnation"], int(d["received"]),
                              int(d["served"])) + (struct.pack(">HH", d["signal"], 0) if d["version"] == 3 else b"")


def fb(version, client="10.1.2.3:40000", flags=4, req_id=0x0102, n=3, inc=7, received=10, served=9, signal=None):
    return {"version": version, "flags": flags, "reqId": req_id, "client": client, "n": n, "incarnation": inc,
            "received": str(received), "served": str(served), **({} if signal is None else {"signal": signal})}


FEEDBACK_V1 = feedback_payload(fb(1)).hex()


def feedbacks():
    def ok(name, d):
        return {"name": name, "hex": feedback_payload(d).hex(), "case": "OK", "decoded": d}

    def no(name, case, data):
        return {"name": name, "hex": data if isinstance(data, str) else data.hex(), "case": case}

    legacy = fb(0, n=0, inc=0, received=0, served=0)
    newer = fb(4)
    v1 = feedback_payload(fb(1))
    v2 = feedback_payload(fb(2, client="[fd00::1]:40000"))
    return [
        ok("legacy", legacy),
        ok("version 1", fb(1)),
        ok("version 1, dropped pair, trace of limits", fb(1, flags=0x0C, received=MASK, served=MASK, n=65535, inc=0xFFFFFFFF)),
        ok("JOIN without pair", fb(1, client="0.0.0.0:0", flags=1, req_id=0, received=0, served=0)),
        ok("version 1, cancelled pair", fb(1, flags=0x2C)),
        ok("LEAVE, n 0", fb(1, client="0.0.0.0:0", flags=2, req_id=0, n=0)),
        ok("periodic", fb(1, client="0.0.0.0:0", flags=0x10, req_id=0)),
        ok("version 2, IPv6", fb(2, client="[fd00::1]:40000")),
        {"name": "version 4 with trailing bytes: read as version 1 (M-25)", "case": "OK", "decoded": newer,
         "hex": (feedback_payload(newer) + b"\x01\x02\x03").hex()},
        ok("version 3, tokens (F-49)", fb(3, signal=16)),
        ok("version 3, silence, no pair", fb(3, client="0.0.0.0:0", flags=0x10, req_id=0, signal=0x81F4)),
        no("version 3 without its signal", "M-21", feedback_payload(fb(3, signal=16))[:32]),
        no("version 3 with a trailing byte", "M-25", feedback_payload(fb(3, signal=16)) + b"\0"),
        no("empty", "M-21", ""),
        no("7 bytes", "M-21", v1[:7]),
        no("9 bytes", "M-21", v1[:9]),
        no("31 bytes", "M-21", v1[:31]),
        no("version 0 at 32 bytes", "M-21", v1[:8] + b"\0" + v1[9:]),
        no("version 2 at 32 bytes", "M-21", v1[:8] + b"\2" + v1[9:]),
        no("version 1 with a trailing byte", "M-25", v1 + b"\0"),
        no("version 2 with a trailing byte", "M-21", v2 + b"\0"),
        ok("received wrapped, served has not yet", fb(1, received=0, served=MASK)),
        no("served above received", "M-22", feedback_payload(fb(1, received=5, served=6))),
        no("served wrapped above received", "M-22", feedback_payload(fb(1, received=MASK, served=0))),
    ]


def sacks():
    def ok(name, what, base, nbits, missing):
        bits = bytearray((nbits + 7) // 8)
        for m in missing:
            bits[(m - base) // 8] |= 0x80 >> ((m - base) % 8)
        return {"name": name, "hex": (struct.pack(">BBHH", what, 0, base, nbits) + bits).hex(), "case": "OK",
                "decoded": {"what": what, "base": base, "nbits": nbits, "missing": missing}}

    def no(name, case, data):
        return {"name": name, "hex": data, "case": case}

    return [
        ok("request 1 and 3 of 1…4", 0, 1, 4, [1, 3]),
        ok("reply, F packet missing (R-22)", 1, 0, 1, [0]),
        ok("1024 bits, ends missing", 0, 1, 1024, [1, 1024]),
        ok("top of the index space", 1, 65535, 1, [65535]),
        no("empty", "M-20", ""),
        no("5 bytes", "M-20", "0000000100"),
        no("nbits 0", "M-20", "000000010000"),
        no("nbits 1025", "M-20", "000000010401" + "ff" * 129),
        no("bitmap truncated", "M-20", "000000010009" + "ff"),
        no("what 2", "M-20", "020000010001" + "80"),
        no("beyond index 65535", "M-20", "0000ffff0002" + "c0"),
        no("trailing byte", "M-25", "000000010001" + "8000"),
    ]


KEYS = [{"id": 1, "hex": "000102030405060708090a0b0c0d0e0f"}, {"id": 9, "hex": "ffeeddccbbaa99887766554433221100"}]


def tags():
    def signed(name, d, src, dst, key, result="valid", tamper=None):
        d = dict(d, tag={"keyId": key["id"], "flags": 0, "hex": "00" * 8})
        raw = packet(d)
        body = b"" if d["type"] in ("REQUEST", "REPLY") else bytes.fromhex(d["payload"])
        data = raw[: len(raw) - len(bytes.fromhex(d["payload"]))] + body + endpoint(src) + endpoint(dst)
        at = raw.index(bytes([2, 12, key["id"], 0])) + 4
        raw = raw[:at] + siphash24(bytes.fromhex(key["hex"]), data) + raw[at + 8:]
        if tamper is not None:
            raw = raw[:tamper] + bytes([raw[tamper] ^ 1]) + raw[tamper + 1:]
        return {"name": name, "hex": raw.hex(), "src": src, "dst": dst, "result": result}

    feedback, request = hdr("FEEDBACK", payload=FEEDBACK_V1), hdr("REQUEST", payload=b"body".hex(), forwarded="10.9.9.9:1")
    cancel = hdr("CANCEL", forwarded="10.9.9.9:1", copy=5)
    worker, router = "10.0.0.2:8000", "10.0.0.1:9000"
    out = [
        signed("FEEDBACK, first key", feedback, worker, router, KEYS[0]),
        signed("FEEDBACK, second key", feedback, worker, router, KEYS[1]),
        signed("FEEDBACK over IPv6", feedback, "[fd00::2]:8000", "[fd00::1]:9000", KEYS[0]),
        signed("REQUEST: the body is not covered", request, router, worker, KEYS[0]),
        signed("REQUEST, body changed on the way: still valid", request, router, worker, KEYS[0], tamper=len(packet(request)) + 12 - 1),
        signed("FEEDBACK payload changed", feedback, worker, router, KEYS[0], "wrong", tamper=8 + 12 + 10),
        signed("header changed", feedback, worker, router, KEYS[0], "wrong", tamper=5),
        signed("CANCEL", cancel, router, worker, KEYS[0]),
        signed("CANCEL of another copy", cancel, router, worker, KEYS[0], "wrong", tamper=8 + 8 + 12 + 5),
        signed("CANCEL of another request", cancel, router, worker, KEYS[0], "wrong", tamper=4),
        signed("unknown key", feedback, worker, router, {"id": 77, "hex": "00" * 16}, "unknown-key"),
        {"name": "no tag", "hex": packet(feedback).hex(), "src": worker, "dst": router, "result": "absent"},
    ]
    replayed = dict(out[0], name="another destination", dst="10.0.0.3:9000", result="wrong")
    return out + [replayed]


def router_id(addr):
    h = 0x811C9DC5
    for b in endpoint(addr):
        h = ((h ^ b) * 0x01000193) & 0xFFFFFFFF
    return h


def index_of(v):
    if v < 1024:
        return 0
    e = v.bit_length() - 1
    return 3457 if e >= 37 else 1 + (e - 10) * 128 + ((v >> (e - 7)) & 127)


def value_of(i):
    if i == 0:
        return 1023
    if i >= 3457:
        return 1 << 37
    return next_lower(i + 1) - 1


def next_lower(i):
    e, step = divmod(i - 1, 128)
    return (128 + step) << (e + 3)


def percentile(buckets, inf, per_100k):
    total = sum(c for _, c in buckets) + inf
    want, seen = max(1, -(-total * per_100k // 100000)), 0
    for i, c in sorted(buckets):
        seen += c
        if seen >= want:
            return str(value_of(i))
    return "inf"


def histogram():
    edges = [0, 1, 1023, 1024, 1031, 1032, 2047, 2048, 1000000, 999999999, 100 * 10**9, (1 << 37) - 1, 1 << 37, MASK]
    edges += [next_lower(i) for i in (2, 129, 1000, 3456)] + [next_lower(i) - 1 for i in (2, 129, 1000, 3456)]
    sets = [
        ("one value", [[5, 1]], 0), ("p99 at the edge of rank", [[10, 99], [20, 1]], 0),
        ("p99 beyond the edge", [[10, 98], [20, 2]], 0), ("unanswered reach p99", [[10, 98]], 2),
        ("unanswered only", [], 3), ("overflow", [[3457, 10]], 0), ("many", [[i, i] for i in range(0, 3458, 7)], 5),
    ]
    pcts = [50000, 90000, 99000, 99900, 99990, 100000]
    return {
        "encoding": "ll7",
        "index": [{"value": str(v), "index": index_of(v)} for v in edges],
        "reported": [{"index": i, "value": str(value_of(i))} for i in (0, 1, 2, 128, 129, 1000, 3456, 3457)],
        "percentiles": [{"name": n, "buckets": b, "inf": inf, "total": sum(c for _, c in b) + inf,
                         "per100k": {str(p): percentile(b, inf, p) for p in pcts}} for n, b, inf in sets],
    }


def taken(text, mean=None, deviation=None):
    """A distribution both readers take; of a heavy tail neither moment is of use."""
    return {"text": text} if mean is None else {"text": text, "mean": mean, "deviation": deviation}


def etc_keys():
    """Mean and deviation of the generalised extreme values of ETC's key sizes."""
    location, scale, shape = 30.7984, 8.20449, 0.078688
    g1, g2 = math.gamma(1 - shape), math.gamma(1 - 2 * shape)
    return location + scale * (g1 - 1) / shape, scale * math.sqrt(g2 - g1 * g1) / shape


def distributions():
    """What src/lancet/dist.c and keys.c take and operator/internal/lancet/definition must know."""
    accepted = [
        taken("fixed:64", 64, 0), taken("fixed:0", 0, 0), taken("fixed:-0", 0, 0), taken("fixed:1e3", 1000, 0), taken("fixed:1.", 1, 0),
        taken("fixed:.5", 0.5, 0), taken("fixed:+5", 5, 0), taken("fixed:1e15", 1e15, 0), taken("rr:1:2:6", 3, math.sqrt(14 / 3)),
        taken("rr:1" + ":1" * 63, 1, 0), taken("uni:8:8", 8, 0), taken("uni:1:100", 50.5, math.sqrt((100 * 100 - 1) / 12)),
        taken("exp:0.5", 0.5, 0.5), taken("exp:100", 100, 100), taken("pareto:10:3", 15, math.sqrt(75)), taken("pareto:1:1"),
        taken("gpareto:-1:2:0", 1, 2), taken("gpareto:5:8:0.25", 5 + 8 / 0.75, 8 / 0.75 / math.sqrt(0.5)), taken("gpareto:0:1:2"),
        taken("gev:30:8:0", 30 + 8 * 0.5772156649015329, 8 * math.pi / math.sqrt(6)), taken("gev:30.7984:8.20449:0.078688", *etc_keys()),
        taken("bimodal:10:1000:0.1", 109, 990 * 0.3), taken("bimodal:1:2:0", 1, 0), taken("bimodal:1:2:1", 2, 0),
        taken("lognorm:3:0.5", math.exp(3.125), math.exp(3.125) * math.sqrt(math.expm1(0.25))), taken("lognorm:-3:0", math.exp(-3), 0),
        taken("gamma:2.5:4", 10, 4 * math.sqrt(2.5)), taken("gamma:0.5:4", 2, 4 * math.sqrt(0.5)),
        taken("fb-key", *etc_keys()), taken("fb-value"), taken("usr-key", 19, 5 * math.sqrt(0.24)), taken("usr-value", 2, 0),
    ]
    forms = {  # each family's own words, which every refusal of it must say
        "fixed:V": ["fixed", "fixed:", "fixed:-1", "fixed:1:2", "fixed:0x10", "fixed:inf", "fixed:nan", "fixed: 1", "fixed:1 ", "fixed:1x", "fixed:.",
                    "fixed:1e", "fixed:1e16", "fixed:1e99", "fixed:1e400", "fixed:1_000", "fixed:1,5", "fixed::1"],
        "rr:V1:V2": ["rr", "rr:", "rr:1:-2", "rr:1" + ":1" * 64], "uni:LOW:HIGH": ["uni", "uni:1", "uni:5:1", "uni:-1:5", "uni:1:2:3"],
        "exp:MEAN": ["exp", "exp:0", "exp:-1", "exp:1:2"], "pareto:SCALE:SHAPE": ["pareto:1", "pareto:1:0", "pareto:0:1"],
        "gpareto:LOCATION:SCALE:SHAPE": ["gpareto:1:2", "gpareto:1:0:1"], "gev:LOCATION:SCALE:SHAPE": ["gev:1:2", "gev:1:0:1", "gev:1:-1:1"],
        "bimodal:V1:V2:SHARE": ["bimodal:1:2", "bimodal:1:2:1.5", "bimodal:1:2:-0.1", "bimodal:-1:2:0.5"],
        "lognorm:MU:SIGMA": ["lognorm:1", "lognorm:1:-1"], "gamma:SHAPE:SCALE": ["gamma:1", "gamma:0:1", "gamma:1:1:1"],
        "fb-key": ["fb-key:1", "fb-key:"], "fb-value": ["fb-value:1"], "usr-key": ["usr-key:1"], "usr-value": ["usr-value:"],
        "gpareto, gev, bimodal": ["", "64", "enormous", "FIXED:1", "normal:1:2", ":1", "fixed ", " fixed:1", "fb-keys"],
    }
    orders = ["uni", "rr", "zipf:0.99", "zipf:.5", "zipf:0.000001", "zipf:0.999999"]
    wrong = ["", "random", "UNI", "uni:1", "zipf", "zipf:", "zipf:0", "zipf:1", "zipf:1.5", "zipf:-0.5", "zipf:+0.5", "zipf:9e-1", "zipf:0.5x", "zipf: 0.5", "zipf:.",
             "zipf:0.5:2"]
    return {
        "accepted": accepted, "refused": [{"text": t, "says": says} for says, texts in forms.items() for t in texts],
        "orders": {"accepted": orders, "refused": [{"text": t, "says": "zipf:THETA"} for t in wrong],
                   "default": {"get-set": "uni", "ycsb-e": "zipf:0.99"}},
    }


def crab_reports():
    """Signed reports of load (C-64 to C-66): a story of datagrams that one balancer gets, in order."""
    new, old, strange = b"0123456789abcdef0123456789ABCDEF", b"previous-key-16b", b"key of a stranger"
    run, sender, again = 0xfeedfacecafebeef, 0x1122334455667788, 0x99aabbccddeeff00
    both = [("10.0.0.31:80", 7), ("[fd00::31]:8080", 0xfffffffe)]
    datagrams = []

    def signed(key, body):
        return body + hmac.new(key, body, hashlib.sha256).digest()[:16]

    def head(kind, count, *numbers):
        return b"CR" + struct.pack(">BBHHQQQQ", 2, kind, count, 0, *numbers)

    def report(key, of_run, session, who, sequence, loads):
        return signed(key, head(1, len(loads), of_run, session, who, sequence) + b"".join(
            endpoint(server) + struct.pack(">HI", 0, n) for server, n in loads))

    def told(name, at, verdict, key, of_run, session, who, sequence, loads, opened=None):
        d = {"name": name, "atMilliseconds": at, "verdict": verdict, "key": key.hex(), "run": str(of_run), "session": str(session), "sender": str(who),
             "sequence": str(sequence), "loads": [{"server": s, "open": n} for s, n in loads],
             "hex": report(key, of_run, session, who, sequence, loads).hex()}
        if opened:
            d.update(opened=str(opened), answer=signed(key, head(2, 0, run, opened, who, sequence)).hex())
        datagrams.append(d)

    def raw(name, at, verdict, octets):
        datagrams.append({"name": name, "atMilliseconds": at, "verdict": verdict, "hex": octets.hex()})

    told("who knows no session opens one", 1000, "session", new, 0, 0, sender, 1, both, 1)
    told("its first report", 1001, "believed", new, run, 1, sender, 2, both)
    told("the same again", 1002, "replay", new, run, 1, sender, 2, both)
    told("one that was overtaken", 1003, "replay", new, run, 1, sender, 1, both)
    told("the next", 2000, "believed", new, run, 1, sender, 3, [("10.0.0.31:80", 0)])
    told("by the key that goes", 3000, "believed", old, run, 1, sender, 9, [("[fd00::31]:80", 1)])
    told("by a key of somebody else's", 3001, "tag", strange, run, 1, sender, 10, both)
    told("to a balancer that was started anew", 3002, "session", new, run - 1, 1, sender, 11, both, 2)
    told("another life of the sender, whose key is the old one", 3003, "session", old, 0, 0, again, 1, both, 3)
    told("which goes on", 3004, "believed", old, run, 3, again, 2, both)
    told("a report of its life before, held back", 3005, "believed", new, run, 1, sender, 12, both)
    told("and one held back for more than ten seconds", 13006, "session", new, run, 1, sender, 13, both, 4)
    told("a session nobody has opened", 13007, "session", new, run, 6, sender, 14, both, 5)
    told("a session used too late", 23008, "session", new, run, 5, sender, 15, both, 6)
    told("the most loads", 23009, "believed", new, run, 6, sender, 16, [("10.0.0.%d:80" % i, i) for i in range(1, 49)])
    told("one too many", 23010, "malformed", new, run, 6, sender, 17, [("10.0.0.%d:80" % i, i) for i in range(1, 50)])
    told("none", 23010, "malformed", new, run, 6, sender, 17, [])
    told("port 0", 23010, "malformed", new, run, 6, sender, 17, [("10.0.0.1:0", 1)])
    told("a group for a server", 23010, "malformed", new, run, 6, sender, 17, [("[ff02::1]:80", 1)])
    good = report(new, run, 6, sender, 17, both)
    raw("version 1", 23011, "unsigned", bytes.fromhex("4352010000500000000000ff"))
    raw("version 3", 23011, "malformed", signed(new, b"CR\x03" + good[3:-16]))
    raw("an answer", 23011, "malformed", signed(new, head(2, 0, run, 6, sender, 17)))
    raw("reserved bytes of the head", 23011, "malformed", signed(new, good[:6] + b"\0\1" + good[8:-16]))
    raw("reserved bytes of a load", 23011, "malformed", signed(new, good[:58] + b"\1\0" + good[60:-16]))
    raw("a byte short", 23011, "malformed", good[:-1])
    raw("a byte long", 23011, "malformed", good + b"\0")
    raw("a head alone", 23011, "malformed", good[:40])
    raw("nothing", 23011, "malformed", b"")
    told("after all that", 23012, "believed", new, run, 6, sender, 17, both)
    return {"run": str(run), "keys": [new.hex(), old.hex()], "datagrams": datagrams}


def main():
    doc = {"packets": packets(), "feedback": feedbacks(), "sack": sacks(), "keys": KEYS, "tags": tags(),
           "routerIds": [{"address": a, "id": router_id(a)} for a in ("10.0.0.1:8000", "10.0.0.1:8001", "[fd00::1]:8000")]}
    for name, d in (("r2p2.json", doc), ("histogram.json", histogram()), ("distributions.json", distributions()),
                    ("crab_reports.json", crab_reports())):
        with open(name, "w", encoding="utf-8") as f:
            json.dump(d, f, indent=1, ensure_ascii=False)
            f.write("\n")


if __name__ == "__main__":
    main()
