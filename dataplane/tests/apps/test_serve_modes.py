# SPDX-License-Identifier: Apache-2.0
"""bobtail-serve by itself, in each of its modes: sizes and times of answers, its log of executions, its figures and its
end; and over TCP, protocol by protocol."""
import os
import re
import socket
import struct

from bed import Bed, ip, main, program, wait_for

MODES = {"loop": ["--workers=2"], "run-to-completion": ["--mode=run-to-completion", "--threads=2"],
         "work-stealing": ["--mode=work-stealing", "--threads=17"]}  # 16 threads have a port
CLASS, TRACE, DEGRADED = 3, 4, 2


class ServeBed(Bed):
    def serve(self, name, *options):
        self.start(name, [program("bobtail-serve"), "--address=" + ip(1), "--ctl=" + self.path(name + ".sock"),
                          "--drain-quiet=1ms", *options])
        return self.ctl(name)

    def said(self, name):
        with open(self.path(name + ".log")) as f:
            return f.read()


class Modes(ServeBed):
    def client(self):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(s.close)
        s.bind((ip(9), 0))
        s.settimeout(60)
        return s

    def ask(self, s, req_id, body, port=8000, options=b""):
        """The answer to one request of one packet."""
        s.sendto(struct.pack(">BBBBHH", 0xCC, 8 + len(options), 0, 0xE0, req_id, 1) + options + body, (ip(1), port))
        while True:
            data, source = s.recvfrom(2048)
            if data[2] >> 4 == 1 and struct.unpack(">H", data[4:6])[0] == req_id:
                self.assertEqual(source, (ip(1), port))
                return data[data[1]:]

    def test_answers_are_the_request_or_so_many_zeros(self):
        s = self.client()
        for mode, options in MODES.items():
            for given, body, want in (("echo", b"to and fro", b"to and fro"), ("5", b"to and fro", bytes(5)), ("0", b"x", b"")):
                name = "%s-%s" % (mode, given)
                self.serve(name, "--reply-bytes=" + given, *options)
                for port in (8000, 8001):
                    self.assertEqual(self.ask(s, port, body, port), want, name)
                self.terminate(name)

    def test_each_execution_has_a_line(self):
        """Serial, port, client and request id, appended to what was there."""
        s = self.client()
        want = ""
        for mode, options in MODES.items():
            self.serve(mode, "--execution-log=" + self.path("executions"), *options)
            for req_id, port in ((7, 8000), (65535, 8001)):
                self.ask(s, req_id, struct.pack("<Q", 0x1122334455667788 + req_id) + b"more", port)
                want += "%016x %d %s:%d %d\n" % (0x1122334455667788 + req_id, port, ip(9), s.getsockname()[1], req_id)
            self.ask(s, 3, b"\1")  # shorter than a serial
            want += "%016x 8000 %s:%d 3\n" % (1, ip(9), s.getsockname()[1])
            self.terminate(mode)
            with open(self.path("executions")) as f:
                self.assertEqual(f.read(), want, mode)
        p = self.start("unwritable", [program("bobtail-serve"), "--address=" + ip(1), "--execution-log=/nonexistent/x", "--ctl="])
        self.assertEqual(p.wait(60), 1)
        self.assertIn("--execution-log=/nonexistent/x: No such file", self.said("unwritable"))
        self.serve("full", "--execution-log=/dev/full")
        self.ask(s, 4, b"answered")
        self.assertIn("--execution-log: a line is missing: No space left", self.said("full"))

    def test_marked_requests_take_their_own_time(self):
        s = self.client()
        marked = struct.pack(">BBBB", CLASS, 4, 0, DEGRADED)
        for mode, options in {**MODES, "spin": ["--occupy=spin", "--workers=2"]}.items():
            c = self.serve(mode, "--service-time=fixed:2ms", "--degraded-service-time=fixed:300ms", *options)
            self.ask(s, 1, b"x")
            self.ask(s, 2, b"x", 8001, marked)
            h = c.ask("histogram", name="service", windowSeconds=600)["histogram"]
            self.assertEqual(h["total"], 2, mode)
            self.assertGreater(h["sumNanoseconds"], 250000000, mode)  # the second one took its own time
            self.assertEqual(c.ask("histogram", name="latency", windowSeconds=600)["histogram"]["total"], 2, mode)
            self.assertEqual(c.ask("histogram", name="hold", windowSeconds=1)["error"]["code"], "UnknownHistogram")
            self.terminate(mode)

    def test_figures_are_of_all_ports(self):
        s = self.client()
        trace = struct.pack(">BBQxx", TRACE, 10, 0x99)
        for mode, options in MODES.items():
            c = self.serve(mode, *options)
            for i, port in enumerate((8000, 8001, 8001)):
                self.ask(s, i, b"traced", port, trace if i == 1 else b"")
            self.assertEqual([w["port"] for w in c.state()["workers"]], [8000, 8001], mode)
            self.assertEqual(c.state()["backlog"], 0)
            self.assertEqual(c.counter("server_requests_total"), 3, mode)
            self.assertEqual(c.counter("server_replies_total"), 3, mode)
            self.assertEqual(c.counter("server_workers"), 2, mode)
            self.assertEqual(c.counter("server_draining"), 0, mode)
            self.assertEqual(c.counter("io_rx_packets_total"), 3, mode)
            for _ in range(2):  # asked again, they are the same
                traces = c.ask("traces")["traces"]
                self.assertEqual([t["id"] for t in traces], ["%016x" % 0x99], mode)
            self.assertTrue(c.ask("leave")["ok"])
            self.assertTrue(c.state()["draining"], mode)
            self.assertEqual(c.counter("server_draining"), 1, mode)
            self.terminate(mode)
            self.assertIn("drained", self.said(mode))

    def test_a_handler_that_keeps_its_thread_is_named(self):
        self.serve("slow", "--service-time=fixed:200ms", *MODES["run-to-completion"])
        self.ask(self.client(), 1, b"x", 8001)
        wait_for("it is named", lambda: "handler synthetic: a request has kept thread 1 for more than 10 ms" in self.said("slow"))

    def test_a_port_that_is_taken_ends_it(self):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(s.close)
        s.bind((ip(1), 8001))
        for mode, options in MODES.items():
            p = self.start(mode, [program("bobtail-serve"), "--address=" + ip(1), "--ctl=", *options])
            self.assertEqual(p.wait(60), 1, mode)
            self.assertIn(ip(1) + ":8001", self.said(mode))

    def test_what_cannot_be_opened_ends_it(self):
        for mode, options in MODES.items():
            for bad, why in (("--ctl=/nonexistent/x.sock", "create its folder"), ("--config=/nonexistent.json", "--config=/nonexistent.json: "),
                             ("--key-dir=/nonexistent", None)):
                name = mode + bad.replace("/", "_")
                p = self.start(name, [program("bobtail-serve"), "--address=" + ip(1), "--ctl=", bad, *options])
                if why is None:  # nobody asked for a key yet
                    wait_for("it runs", lambda n=name: "version" in self.said(n))
                    self.terminate(name)
                    continue
                self.assertEqual(p.wait(60), 1, name)
                self.assertIn(why, self.said(name))


class Tcp(ServeBed):
    def tcp(self, protocol, *options):
        return self.serve(protocol, "--protocol=" + protocol, "--mode=run-to-completion", *options)

    def dial(self):
        s = socket.create_connection((ip(1), 8000), timeout=60)
        self.addCleanup(s.close)
        return s

    def exchange(self, s, request, want):
        s.sendall(request)
        got = b""
        while len(got) < len(want):
            part = s.recv(len(want) - len(got))
            self.assertTrue(part, "the connection ended behind %r" % got)
            got += part
        self.assertEqual(got, want)

    def test_answers_are_those_of_the_protocol(self):
        http, ping, u32 = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"*1\r\n$4\r\nPING\r\n", b"\0\0\0\2hi"
        for protocol, options, request, want in (
                ("http", [], http, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(http) + http),
                ("http", ["--reply-bytes=4"], http, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + bytes(4)),
                ("resp", [], ping, ping), ("resp", ["--reply-bytes=12"], ping, b"$12\r\n" + bytes(12) + b"\r\n"),
                ("resp", ["--reply-bytes=0"], ping, b"$0\r\n\r\n"),
                ("u32", [], u32, u32), ("u32", ["--reply-bytes=258"], u32, b"\0\0\1\2" + bytes(258))):
            c = self.tcp(protocol, *options)
            s = self.dial()
            self.exchange(s, request * 3, want * 3)
            self.exchange(s, request, want)
            self.assertEqual(c.counter("server_tcp_requests_total"), 4, protocol)
            self.assertEqual(c.counter("server_connections_total"), 1, protocol)
            s.close()
            self.terminate(protocol)
            self.assertRegex(self.said(protocol), re.escape("1 threads to completion, TCP %s:8000, service time fixed:0, MTU " % ip(1)))

    def test_memcached_forgets_everything(self):
        self.tcp("memcached")
        s = self.dial()
        end, stored = b"END\r\n", b"STORED\r\n"
        for request, want in ((b"get a\r\n", end), (b"gets a\r\n", end), (b"set a 0 0 1\r\nx\r\n", stored),
                              (b"add a 0 0 1\r\nx\r\n", stored), (b"replace a 0 0 1\r\nx\r\n", stored), (b"append a 0 0 1\r\nx\r\n", stored),
                              (b"prepend a 0 0 1\r\nx\r\n", stored), (b"cas a 0 0 1 1\r\nx\r\n", stored), (b"delete a\r\n", b"NOT_FOUND\r\n"),
                              (b"set noreply 0 0 1\r\nx\r\n", stored), (b"delete noreply\r\n", b"NOT_FOUND\r\n"),
                              (b"get noreply\r\n", end), (b"get a noreply\r\n", end)):
            self.exchange(s, request, want)
        self.assertRegex(self.version(s, b""), rb"^VERSION \d+\.\d+\.\d+\r\n$")
        # Nobody waits for an answer that was not asked for: the next one is the next thing that comes.
        self.assertRegex(self.version(s, b"set a 0 0 1 noreply\r\nx\r\ndelete a noreply\r\n"), rb"^VERSION \d+\.\d+\.\d+\r\n$")

    def version(self, s, before):
        s.sendall(before + b"version\r\n")
        return s.makefile("rb").readline()

    def closed(self, s):
        try:
            return s.recv(100) == b""
        except ConnectionResetError:
            return True

    def test_connections_end_for_a_reason_that_is_counted(self):
        c = self.tcp("u32", "--max-message=1464", "--connections=2")
        for request, reason in ((struct.pack(">I", 1465), "too_long"), (b"\0\0\0\2h", "cut")):
            s = self.dial()
            s.sendall(request)
            if reason == "cut":
                s.shutdown(socket.SHUT_WR)
            self.assertTrue(self.closed(s), reason)
            wait_for(reason, lambda r=reason: c.counter("server_connections_closed_total", reason=r) == 1)
        reasons = {(x["name"], x["labels"]["reason"]) for x in c.ask("counters")["counters"] if x["name"].startswith(("server_conn", "server_packets_d"))
                   and x["labels"]}
        closed = ("malformed", "too_long", "cut", "refused", "memory", "full", "reset")
        self.assertEqual(reasons, {("server_packets_dropped_total", "not_tcp"), *(("server_connections_closed_total", r) for r in closed)})
        held = [self.dial(), self.dial()]
        for s in held:
            self.exchange(s, b"\0\0\0\1x", b"\0\0\0\1x")
        self.assertTrue(self.closed(self.dial()))
        wait_for("it is counted", lambda: c.counter("server_connections_closed_total", reason="full") == 1)
        self.assertEqual(c.counter("server_connections_total"), 4)
        self.assertEqual(c.counter("server_connections_closed_total"), 3)
        h = self.tcp_of_http_is_malformed()
        self.assertEqual(h.counter("server_connections_closed_total", reason="malformed"), 1)

    def tcp_of_http_is_malformed(self):
        self.terminate("u32")
        c = self.tcp("http")
        s = self.dial()
        s.sendall(b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n")
        self.assertTrue(self.closed(s))
        wait_for("it is counted", lambda: c.counter("server_connections_closed_total") == 1)
        return c

    def test_who_leaves_takes_no_more_connections_and_serves_those_it_has(self):
        c = self.tcp("u32", "--drain-seconds=60", "--drain-quiet=100ms")
        s = self.dial()
        self.exchange(s, b"\0\0\0\1x", b"\0\0\0\1x")
        self.assertTrue(c.ask("leave")["ok"])

        def refused():
            with socket.socket() as other:
                return other.connect_ex((ip(1), 8000)) != 0

        wait_for("nobody listens", refused)
        self.exchange(s, b"\0\0\0\1y", b"\0\0\0\1y")
        self.assertIn("leaving: no more connections are taken", self.said("u32"))
        s.close()
        self.terminate("u32")
        self.assertIn("drained", self.said("u32"))

    def test_two_threads_share_the_port(self):
        c = self.serve("u32", "--protocol=u32", "--mode=work-stealing", "--threads=2")
        for i in range(16):
            self.exchange(self.dial(), b"\0\0\0\1x", b"\0\0\0\1x")
        self.assertEqual(c.counter("server_tcp_requests_total"), 16)
        self.assertEqual(c.counter("server_workers"), 0)  # no port of R2P2
        self.assertRegex(self.said("u32"), "2 threads that steal work, TCP")


if __name__ == "__main__":
    main()
