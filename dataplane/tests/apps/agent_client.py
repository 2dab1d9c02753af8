# SPDX-License-Identifier: Apache-2.0
"""A coordinator's side of docs/reference/lancet-agent.md, and small servers of the protocols an agent speaks."""
import collections
import hashlib
import hmac
import json
import os
import socket
import socketserver
import struct
import threading
import time

NEVER = 2**64 - 1
RECORD = struct.Struct("<5QH3B3xQ")
OUTCOMES = ("answered", "timeout", "disconnected", "errorReply", "badReply", "dropped", "notSent", "refused")


class Record:
    def __init__(self, fields):
        self.intended, self.sent, self.received, self.stamped, self.gap = fields[:5]
        self.connection, outcome, self.stamps, self.operation, self.trace = fields[5:]
        self.outcome = OUTCOMES[outcome]


class Refused(Exception):
    def __init__(self, error):
        super().__init__(error)
        self.code, self.field, self.message = error["code"], error["field"], error["message"]


class Agent:
    """A connection to an agent at a Unix path or (host, port)."""

    def __init__(self, where, token=None):
        self.sock = socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET)
        self.sock.settimeout(60)
        self.sock.connect(where)
        self.stream = self.sock.makefile("rb")
        try:
            self.greeting = self.read()
        except (Refused, EOFError):
            self.close()
            raise
        if token is not None:
            self.hello(token)

    def read(self):
        line = self.stream.readline()
        if not line:
            raise EOFError("the agent closed the connection")
        reply = json.loads(line)
        if not reply["ok"]:
            raise Refused(reply["error"])
        return reply

    def hello_line(self, token):
        """The line that proves the secret, and the proof the agent owes for it."""
        nonce = os.urandom(32).hex()

        def proof(label, first, second):
            return hmac.new(token, f"{label}{first}:{second}".encode(), hashlib.sha256).hexdigest()

        theirs = self.greeting["nonce"]
        request = {"op": "hello", "nonce": nonce, "proof": proof("lancet-coordinator-1:", theirs, nonce)}
        return json.dumps(request).encode() + b"\n", proof("lancet-agent-1:", nonce, theirs)

    def hello(self, token):
        line, owed = self.hello_line(token)
        assert self.raw(line)["proof"] == owed, "the agent does not know the secret"

    def raw(self, data):
        self.sock.sendall(data)
        return self.read()

    def ask(self, op, **fields):
        return self.raw(json.dumps({"op": op, **fields}).encode() + b"\n")

    def wait_complete(self, seconds=120.0):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            poll = self.ask("poll")
            if poll["window"]["complete"]:
                return poll
            time.sleep(0.01)
        raise AssertionError(f"the measurement is not complete after {seconds} s: {poll}")

    def samples(self):
        head = self.ask("samples")
        assert head["recordBytes"] == RECORD.size and head["bytes"] == head["count"] * RECORD.size, head
        data = self.stream.read(head["bytes"])
        return [Record(RECORD.unpack_from(data, i * RECORD.size)) for i in range(head["count"])]

    def measure(self, rate, samples, sampling=1.0, seconds=60, **configure):
        """Configure, load, measure: the poll of the complete window and the samples."""
        self.configured = self.ask("configure", **configure)
        self.ask("load", rate=rate)
        self.ask("measure", samples=samples, samplingRate=sampling, seconds=seconds)
        return self.wait_complete(), self.samples()

    def close(self):
        self.stream.close()
        self.sock.close()


class Server(socketserver.ThreadingTCPServer):
    """Calls `talk(stream)` for each connection until it returns; stream reads and writes bytes."""
    allow_reuse_address = daemon_threads = True
    request_queue_size = 64

    def __init__(self, address, talk):
        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True
            wbufsize = 0

            def handle(self):
                try:
                    talk(self)
                except (ConnectionError, OSError, EOFError):
                    pass

        super().__init__((address, 0), Handler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def target(self):
        return "%s:%d" % self.server_address

    def stop(self):
        self.shutdown()
        self.server_close()


def exactly(stream, n):
    data = stream.rfile.read(n)
    if len(data) != n:
        raise EOFError
    return data


def echo(n):
    def talk(s):
        while True:
            s.wfile.write(exactly(s, n))
    return talk


def synthetic(s):
    while True:
        time.sleep(struct.unpack("<q", exactly(s, 8))[0] / 1e6)
        s.wfile.write(struct.pack("<q", 0))


def stss(s):
    while True:
        service, request, reply = struct.unpack("<3q", exactly(s, 24))
        exactly(s, request - 24)
        time.sleep(service / 1e6)
        s.wfile.write(struct.pack("<q", reply) + bytes(reply))


def http(answer):
    """answer(path, headers) gives the bytes of a reply, None closes."""
    def talk(s):
        while True:
            line = s.rfile.readline()
            if not line:
                return
            headers = {}
            while (field := s.rfile.readline().strip()):
                name, value = field.split(b":", 1)
                headers[name.lower()] = value.strip()
            reply = answer(line.split()[1].decode(), headers)
            if reply is None:
                return
            s.wfile.write(reply)
    return talk


class Store:
    """A dictionary behind memcached's two protocols and Redis', as far as an agent asks."""

    def __init__(self):
        self.values = {}
        self.members = set()
        self.commands = []
        self.scanned_from = collections.Counter()

    def memcached_text(self, s):
        while (line := s.rfile.readline()):
            words = line.split()
            self.commands.append(words[0])
            if words[0] == b"set":
                self.values[words[1]] = exactly(s, int(words[4]) + 2)[:-2]
                s.wfile.write(b"STORED\r\n")
            elif words[1] in self.values:
                v = self.values[words[1]]
                s.wfile.write(b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (words[1], len(v), v))
            else:
                s.wfile.write(b"END\r\n")

    def memcached_binary(self, s):
        while True:
            magic, op, keys, extras, _, _, body, opaque, _ = struct.unpack(">BBHBBHIIQ", exactly(s, 24))
            assert magic == 0x80
            data = exactly(s, body)
            key, value = data[extras:extras + keys], data[extras + keys:]
            status, reply, extra = 0, b"", b""
            if op == 1:
                self.values[key] = value
            elif key in self.values:
                reply, extra = self.values[key], bytes(4)
            else:
                status, reply = 1, b"Not found"
            s.wfile.write(struct.pack(">BBHBBHIIQ", 0x81, op, 0, len(extra), 0, status, len(extra) + len(reply), opaque, 0)
                          + extra + reply)

    def redis(self, s):
        while (line := s.rfile.readline()):
            words = []
            for _ in range(int(line[1:])):
                n = int(s.rfile.readline()[1:])
                words.append(exactly(s, n + 2)[:-2])
            self.commands.append(words[0])
            s.wfile.write(self.redis_reply(words))

    def redis_reply(self, words):
        if words[0] == b"SET":
            self.values[words[1]] = words[2]
            return b"+OK\r\n"
        if words[0] == b"GET":
            v = self.values.get(words[1])
            return b"$-1\r\n" if v is None else b"$%d\r\n%s\r\n" % (len(v), v)
        if words[0] == b"ZADD":
            self.members.add(words[3])
            return b":1\r\n"
        if words[0] == b"ZRANGEBYLEX":
            self.scanned_from[words[2]] += 1
            found = sorted(m for m in list(self.members) if m >= words[2][1:])[:int(words[6])]
            return b"*%d\r\n" % len(found) + b"".join(b"$%d\r\n%s\r\n" % (len(m), m) for m in found)
        return b"-ERR unknown command\r\n"
