#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Put seeds from the shared wire vectors into the corpora: one input per vector and
M-case for the codec, the same packets as raw arrivals for client and server,
and a few scripted exchanges. What an archive has already stays as it is."""
import json
import pathlib
import struct

import corpus

HERE = pathlib.Path(__file__).resolve().parent
ROLES = ["client", "server", "router", "router-requests", "router-feedback", "any"]

SEEDS = {}  # by target


def put(target, data):
    SEEDS.setdefault(target, []).append(data)


def built(kind, policy, flags, index, fill, length, source, ident, extra=b""):
    """One arrival of a well-formed header, as input.h reads it."""
    return bytes([5, source | ident << 2, kind << 4 | policy, flags, index, fill, length]) + extra


REPLIES = {  # by enum bt_reply_protocol
    0: [b"x" * 10],
    1: [bytes(8)],
    2: [(10).to_bytes(8, "little") + b"v" * 10],
    3: [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nT: v\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 No\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"],
    4: [b"VALUE k 0 5\r\nhello\r\nEND\r\n", b"END\r\n", b"STORED\r\n", b"SERVER_ERROR out of memory\r\n"],
    5: [bytes([0x81, op, 0, 0, 0, 0, 0, status, 0, 0, 0, 3]) + bytes(12) + b"abc" for op, status in ((0, 0), (1, 0), (0, 1))],
    6: [b"+OK\r\n", b"-ERR no\r\n", b":12\r\n", b"$5\r\nhello\r\n", b"$-1\r\n", b"*2\r\n*1\r\n:1\r\n$1\r\na\r\n"],
}
CONFIGURE = [
    {"protocol": "redis", "targets": ["127.0.0.1:6379"], "mix": "ycsb-e", "keys": 1000, "keyOrder": "zipf:0.99", "preload": True},
    {"protocol": "memcached-binary", "targets": ["a:1", "[::1]:2"], "keyBytes": "fb-key", "valueBytes": "fb-value", "readRatio": 0.9},
    {"protocol": "http", "targets": ["h:80"], "path": "/a?b", "host": "h", "role": "latency", "polling": "busy"},
    {"protocol": "stss", "targets": ["h:80"], "serviceTime": "gamma:2:5000", "requestBytes": "bimodal:24:900:0.1",
     "replyBytes": "lognorm:3:1", "threads": 2, "connections": 5, "outstanding": 7, "seed": 3},
    {"protocol": "echo", "targets": ["h:80"], "arrivals": "trace", "traceNanoseconds": [1, 2, 30], "timestamps": "hardware",
     "device": "eth0", "timeoutNanoseconds": 1000000},
]


def lancet():
    """Replies of the measured protocols, alone and one behind the other; lines a coordinator sends."""
    for protocol, replies in REPLIES.items():
        for asked in (9, 8):
            for reply in (*replies, b"".join(replies), replies[0] * 3):
                put("lancet", bytes([protocol, asked, 3]) + reply)
    for fields in CONFIGURE:
        put("agent", json.dumps({"op": "configure", **fields}).encode())


def group():
    """Messages of a replication group (wire/group.h), alone, and as what a member is given."""
    head = lambda kind, term=3: struct.pack(">BBHIQQ", 1, kind, 2, 9, term, 0x1122334455667788)
    members = struct.pack(">HHBBHBBHBB", 3, 1, 1, 0, 2, 1, 0, 3, 2, 0)
    entries = struct.pack(">QIBBH", 2, 4, 2, 0, 0) + b"body" + struct.pack(">QIBBH", 3, 0, 0, 0, 0) + struct.pack(">QIBBH", 3, len(members), 1, 0, 0) + members
    bodies = {
        0: [struct.pack(">IQQQ", flags, 3 + (flags & 1), last, term) for flags, last, term in ((0, 0, 0), (1, 5, 3), (2, 4, 2))],
        1: [struct.pack(">IQ", flags, 3 + (flags & 1)) for flags in (0, 1, 4, 5)],
        2: [struct.pack(">IQQQ", 0, 0, 0, 2), struct.pack(">IQQQ", 3, 0, 0, 1) + entries, struct.pack(">IQQQ", 0, 3, 3, 3)],
        3: [struct.pack(">IQQQ", flags, 1, 3, 1) for flags in (0, 4)],
        9: [struct.pack(">IQQQQ", 5, 8, 2, 5, 0) + members + b"state", struct.pack(">IQQQQ", 2, 8, 2, 5, 3) + members + b"te"],
        10: [struct.pack(">IQQ", flags, 8, 3) for flags in (0, 4)],
        11: [b""],
    }
    meta = lambda length: bytes(10) + b"\xff\xff\x0a\0\0\1" + struct.pack(">HHHHIQ", 4000, 1, 2, 0, length, 0x1122334455667788)
    bodies[2].append(struct.pack(">IQQQ", 2, 0, 0, 0) + struct.pack(">QIBBH", 3, 36, 3, 0, 0) + meta(1) + struct.pack(">QIBBH", 3, 40, 4, 0, 0) + meta(4) + b"body")
    bodies[7] = [struct.pack(">IQ", 1, 1) + meta(7), struct.pack(">IQ", 2, 1) + meta(1) + struct.pack(">Q", 2) + meta(4)]
    bodies[8] = [struct.pack(">IQ", 4, 1) + meta(4) + b"body", struct.pack(">IQ", 0, 2) + meta(1)]
    given = lambda kind, body, term=3: bytes([5, 1, len(body), 2, term, kind]) + body
    story = b""
    for kind, some in bodies.items():
        for body in some:
            put("group", b"\0" + head(kind, 4 if kind == 0 and body[3] & 1 else 3) + body)
            story += given(kind, body) + bytes([1, 1, 9])
    put("group", b"\1" + story)
    put("group", b"\3" + bytes([7, 1, 1]) + story + bytes([0, 250, 7, 1, 2]) + story)
    answers = given(1, struct.pack(">IQ", 5, 2), 1) + bytes([1, 1, 9]) + given(1, struct.pack(">IQ", 4, 2), 2)
    acked = given(3, struct.pack(">IQQQ", 4, 1, 1, 0), 2)
    put("group", b"\1" + bytes([0, 250]) + answers + bytes([1, 1, 9]) + acked + bytes([2, 1, 5, 3, 0, 0, 4, 1, 1, 9, 4, 0, 1, 1, 9, 0, 60]))


def aggregator():
    """What a member and the aggregator say to one another, alone, and as what either is given."""
    members = struct.pack(">HHBBHBBHBB", 3, 1, 1, 0, 2, 1, 0, 3, 1, 0)
    words = [(5, 2, struct.pack(">IQQ", 8, 0, 1) + members), (6, 0xffff, struct.pack(">IQQ", 0, 0, 1)),
             (12, 2, struct.pack(">IQQQQ", 1, 1, 3, 1, 0) + struct.pack(">QIBBH", 3, 0, 0, 0, 0)),
             (13, 3, struct.pack(">IQQQQ", 4, 2, 2, 1, 0)), (4, 0xffff, struct.pack(">IQQHHQ", 1, 0, 2, 3, 0, 1))]
    given = lambda kind, sender, body: bytes([len(body), sender % 5, 3, kind]) + body
    for kind, sender, body in words:
        put("group", b"\0" + struct.pack(">BBHIQQ", 1, kind, sender, 9, 3, 0x1122334455667788) + body)
    for as_switch in (0, 1):
        put("group", b"\5" + bytes([as_switch]) + b"".join(given(*word) for word in words + words))
    put("group", b"\3" + b"".join(bytes([5, 1]) + given(*word) + bytes([1, 1, 9]) for word in words))


def resp():
    """Commands of Redis, alone and behind one another, and what is nearly one."""
    written = lambda *words: b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
    some = [written(b"GET", b"a"), written(b"set", b"a", b"1", b"NX", b"PX", b"9"), written(b"COPY", b"a", b"b", b"DB", b"1"), written(b"SPOP", b""),
            written(b"ycsb.scan", b"t", b"u", b"3")]
    for one in (*some, b"".join(some), b"PING\r\n", b"*1\r\n$-1\r\n", b"*2\r\n$1\r\na\r\n", b"*01\r\n$1\r\na\r\n"):
        put("resp", one)


def main():
    lancet()
    resp()
    group()
    aggregator()
    doc = json.loads((HERE.parent / "tests/vectors/r2p2.json").read_text(encoding="utf-8"))
    for v in doc["packets"]:
        raw = bytes.fromhex(v["hex"])[:200]
        put("wire", bytes([ROLES.index(v["role"])]) + raw)
        if v["role"] in ("client", "server"):
            put(v["role"], b"\1" * (v["role"] == "client") + bytes([0, 0, len(raw)]) + raw)
    for v in doc["tags"]:
        put("wire", bytes([5]) + bytes.fromhex(v["hex"]))
    for v in doc["feedback"]:
        put("wire", bytes([2]) + bytes.fromhex("cc0820c000000001" + v["hex"]))
    for v in doc["sack"]:
        put("wire", bytes([0]) + bytes.fromhex("cc0880c0000100010"[:16] + v["hex"]))
    fl, first, ext = 0xC0, 0x80, 0x20
    time = bytes([1, 60])
    full = 13  # in_length: 1464
    put("server", built(0, 0, fl, 1, 0, 5, 0, 1) + bytes([2, 0, 5, 1]) + time)
    put("server", bytes([3, 2]) + built(0, 0, first | ext, 3, 0, 5, 0, 2) + built(0, 0, ext, 1, 0, full, 0, 2)
        + built(0, 0, 0x40 | ext, 2, 0, full, 0, 2) + bytes([2, 0, full, 0]) + time
        + built(8, 0, fl | ext, 1, 7, 4 + 0x80 - 0x80, 0, 2, bytes([1, 0, 0, 0, 0, 1, 0x80])) + time * 5)
    put("server", built(0, 0, first | ext, 9, 0, 5, 0, 3) + time * 9)
    copy = lambda who, number: bytes([0x0D, who, 4 | number << 3])      # a numbered copy by way of a router
    cancel = lambda who, number, heed: bytes([0x1D, who, heed | number << 3])
    routers = bytes([3, 2])
    for heed in range(3):
        put("server", routers + copy(8, 1) + cancel(8, 1, heed) + copy(8, 1) + copy(8, 2) + cancel(8, 1, heed)
            + cancel(8, 2, heed) + bytes([4, 1, 0]) + time)
    send = bytes([2, full, 1, 0, 200])
    put("client", b"\1" + send + built(1, 0, fl, 1, 0, 5, 0, 0))
    big = bytes([2, 15, 1, 0, 200])
    put("client", b"\1" + big + built(3, 1, fl | ext, 1, 0, 2, 0, 0) + built(1, 0, first | ext, 3, 0, full, 0, 0)
        + built(1, 0, ext, 1, 0, full, 0, 0) + time * 2 + built(1, 0, 0x40 | ext, 2, 0, 3, 0, 0))
    put("client", b"\1" + big + time * 20)
    stories()
    for target, inputs in SEEDS.items():
        print(f"{target}: {corpus.add(target, inputs)} of {len(inputs)} were new")


def stories():
    """Scripts for fuzz_system: verbs of fuzz_system.c with their arguments."""
    joined = bytes([3, 0]) * 6                    # the JOINs of three workers reach both routers
    asked = lambda who, how, length, timeout: bytes([0, who, how, length, timeout])
    walk = bytes([3, 0]) * 2                      # client → router → worker
    back = bytes([3, 0]) * 2                      # reply, FEEDBACK
    answers = b"".join(bytes([9, i, 0, 5]) for i in range(3))
    later = bytes([11 | 0 << 4, 100])
    one = asked(0, 0, 5, 50) + walk + answers + back
    put("system", b"\1" + joined + one)
    put("system", b"\1" + joined + one * 4 + later + one)
    put("system", b"\1" + joined + asked(1, 0x8F, 13, 200) + bytes([3, 0]) * 24 + answers + bytes([3, 0]) * 24 + later)
    put("system", b"\1" + joined + asked(0, 0, 5, 50) + bytes([3, 0, 7, 0]) * 2 + answers + back)           # twice
    put("system", b"\1" + joined + asked(0, 0, 5, 50) + bytes([3, 0, 0x17, 0]) + later * 4 + one)           # lost
    put("system", b"\1" + joined + one + bytes([12, 0, 7]) + joined + one * 2 + later)                      # restart
    put("system", b"\1" + joined + one + bytes([12, 0, 0xFF]) + joined + one + bytes([0x1B, 5]) + one)      # clock back
    put("system", b"\1" + joined + one + bytes([13, 0x7E, 0]) + joined + later * 3 + one)                   # router anew
    put("system", b"\1" + joined + bytes([14, 4]) + one + bytes([14, 0x44]) + later * 3 + one)              # starved
    put("system", b"\1" + joined + asked(0, 0, 5, 50) + bytes([8, 0, 0, 3, 0, 9]) + walk + answers + back)  # changed
    turn = lambda *who: b"".join(bytes([0x1E, x]) for x in who)  # router | half << 1 | sleep << 2 | packets << 3
    read = turn(0xF8, 0xF9, 0xFA, 0xFB)                          # both halves of both routers
    late = asked(0, 0, 5, 50) + bytes([3, 0]) + turn(0xF8) + bytes([3, 0]) + answers + back
    for how in (0x0D, 0x4D, 0x09, 0x0C):                         # on two threads: both, with other clocks, one, without key
        put("system", bytes([how]) + joined + read + late * 3 + turn(0xFA) + late * 3 + turn(0xFA, 0xF8) + later)
        put("system", bytes([how]) + joined + read + turn(6) + late * 6 + later + turn(6, 0xFA, 0xF8) + late + later)
        put("system", bytes([how]) + joined + read + late * 4 + bytes([12, 0, 0, 13, 0x80, 0x07, 3, 9, 9]) + turn(0xFA) + late)
    put("system", b"\1" + joined + bytes([0x1F, 4, 200]) + one + bytes([0x1F, 0x82, 200]) + one + later)    # clocks


if __name__ == "__main__":
    main()
