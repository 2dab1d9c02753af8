# SPDX-License-Identifier: Apache-2.0
"""The Lancet agent as a coordinator sees it, against servers that know what they were asked (docs/reference/lancet-agent.md).

Figures are never judged by the clock of this machine: latencies are compared with each other or with a service time
that sleeps.
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import unittest

import agent_client as ac
from agent_bed import SLOW_MACHINE, AgentBed
from bed import ip, main, program, wait_for
from namespaces import NET, NamespaceBed


class Protocols(AgentBed):
    def check(self, poll, samples, n):
        window = poll["window"]
        self.assertEqual(len(samples), n)
        self.assertEqual(window["sent"], window["answered"] + sum(window["failed"].values()))
        self.assertEqual(window["failed"], {k: 0 for k in ac.OUTCOMES[1:]}, window)
        for h in ("responseTime", "serviceTime"):
            self.assertEqual((window[h]["total"], window[h]["inf"]), (window["sent"], 0))
            self.assertEqual(sum(c for _, c in window[h]["buckets"]), window["sent"])
        for r in samples:
            self.assertEqual(r.outcome, "answered")
            self.assertTrue(r.intended <= r.sent < r.received, vars(r))

    def run_one(self, talk, n=200, rate=2000, **configure):
        a = self.agent()
        poll, samples = a.measure(rate, n, targets=[self.server(talk)], timeoutNanoseconds=SLOW_MACHINE, **configure)
        self.check(poll, samples, n)
        a.ask("stop")
        return poll, samples

    def test_echo_pipelined(self):
        _, samples = self.run_one(ac.echo(100), protocol="echo", requestBytes="fixed:100", connections=4, outstanding=8)
        self.assertEqual({r.connection for r in samples}, set(range(4)))

    def test_synthetic_service_time_is_a_floor(self):
        _, samples = self.run_one(ac.synthetic, n=50, rate=200, protocol="synthetic", serviceTime="fixed:5000000")
        self.assertTrue(all(r.received - r.sent >= 5_000_000 for r in samples))

    def test_stss(self):
        self.run_one(ac.stss, protocol="stss", requestBytes="uni:24:3000", replyBytes="uni:0:200000",
                     serviceTime="exp:20000")

    def test_http(self):
        paths = []

        def answer(path, headers):
            paths.append((path, headers[b"host"]))
            chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
            return chunked if len(paths) % 2 else b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

        self.run_one(ac.http(answer), protocol="http", path="/a?b=c", host="service")
        self.assertEqual(set(paths), {("/a?b=c", b"service")})

    def test_http_connection_close_is_reopened(self):
        def answer(path, headers):
            return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"

        poll, _ = self.run_one(ac.http(answer), n=50, rate=200, protocol="http", connections=4)
        self.assertGreaterEqual(poll["reconnects"], 40)

    def key_value(self, protocol, talk, **configure):
        store = ac.Store()
        keys = 100
        poll, samples = self.run_one(getattr(store, talk), protocol=protocol, keys=keys, readRatio=0.5,
                                     keyBytes="fb-key", valueBytes="fb-value", preload=True, **configure)
        self.assertEqual(poll["window"]["misses"], 0)
        self.assertEqual(len(store.values), keys)
        self.assertEqual({r.operation for r in samples}, {0, 1})
        self.assertTrue(all(8 <= len(k) <= 250 for k in store.values))
        self.assertGreater(len({len(k) for k in store.values}), 5)

    def test_memcached_text(self):
        self.key_value("memcached-ascii", "memcached_text", keyOrder="zipf:0.99")

    def test_memcached_binary(self):
        self.key_value("memcached-binary", "memcached_binary", outstanding=4, connections=2)

    def test_redis(self):
        self.key_value("redis", "redis", threads=2)

    def test_misses_are_answers(self):
        poll, _ = self.run_one(ac.Store().redis, n=50, protocol="redis")
        self.assertEqual(poll["window"]["misses"], poll["window"]["sent"])

    def test_redis_ycsb_e(self):
        store = ac.Store()
        _, samples = self.run_one(store.redis, protocol="redis", mix="ycsb-e", keys=500, preload=True,
                                  scanLength="uni:1:20", n=400)
        inserts = sum(r.operation == 3 for r in samples)
        self.assertEqual({r.operation for r in samples}, {2, 3})
        self.assertTrue(2 <= inserts <= 60, inserts)
        self.assertGreater(len(store.members), 500)
        self.assertEqual(set(store.commands), {b"ZADD", b"ZRANGEBYLEX"})
        # Nobody asked for an order of keys: it is Zipfian, whose first of 500 has 14 %; a uniform one's have 0.2 % each.
        self.assertGreater(max(store.scanned_from.values()), 0.05 * store.scanned_from.total())

    def test_keys_of_get_and_set_are_uniform_where_nobody_asks(self):
        store = ac.Store()
        self.run_one(store.redis, protocol="redis", keys=100, n=400, readRatio=0)
        self.assertGreater(len(store.values), 90)  # of 400 draws from 100: 98 expected; Zipfian ones are scattered over some 63

    def test_r2p2(self):
        self.serve()
        a = self.agent()
        poll, samples = a.measure(500, 100, protocol="r2p2", targets=[ip(2) + ":8000"], connections=4, outstanding=16,
                                  requestBytes="bimodal:20:5000:0.2", timeoutNanoseconds=SLOW_MACHINE)
        self.check(poll, samples, 100)
        self.assertEqual({r.trace for r in samples}, {0})  # off by default
        a.ask("stop")
        poll, samples = a.measure(500, 100, protocol="r2p2", targets=[ip(2) + ":8000"], connections=4, outstanding=16,
                                  traceShare=0.5, timeoutNanoseconds=SLOW_MACHINE)
        ids = [r.trace for r in samples if r.trace]
        self.assertEqual(len(set(ids)), len(ids))
        self.assertTrue(20 <= len(ids) <= 80, len(ids))  # 50 expected, sigma 5
        self.refused("WrongState", "op", a.ask, "configure", protocol="r2p2", targets=["h:1"])
        a.ask("stop")
        self.refused("InvalidRequest", "traceShare", a.ask, "configure", protocol="echo", targets=["h:1"], traceShare=0.1)


class Schedule(AgentBed):
    def test_l56_a_wait_for_a_connection_counts_in_the_response_not_in_the_service(self):
        a = self.agent()
        poll, samples = a.measure(400, 40, protocol="synthetic", serviceTime="fixed:10000000", connections=1,
                                  arrivals="fixed", targets=[self.server(ac.synthetic)],
                                  timeoutNanoseconds=SLOW_MACHINE)
        last = max(samples, key=lambda r: r.intended)
        self.assertGreater(last.received - last.intended, 10 * 10_000_000)  # forty in a row, four times too fast
        self.assertLess(last.sent, last.received)
        self.assertGreater(last.sent - last.intended, 9 * 10_000_000)
        gaps = sorted(r.intended for r in samples)
        self.assertEqual({b - c for b, c in zip(gaps[1:], gaps)} - {2_500_000, 2_499_999, 2_500_001}, set())

    def test_a_change_of_rate_forgives_no_delay(self):
        a = self.agent()
        a.ask("configure", protocol="synthetic", serviceTime="fixed:10000000", connections=1, arrivals="fixed",
              targets=[self.server(ac.synthetic)], timeoutNanoseconds=SLOW_MACHINE)
        a.ask("load", rate=400)
        a.ask("measure", samples=60)
        wait_for("a backlog", lambda: a.ask("poll")["window"]["sent"] >= 20)
        a.ask("load", rate=390)  # by now some fifty were due
        a.wait_complete()
        times = sorted(r.intended for r in a.samples())
        self.assertLess(max(b - c for b, c in zip(times[1:], times)), 2_600_000)

    def test_a_change_of_rate_takes_effect(self):
        a = self.agent()
        a.ask("configure", protocol="echo", arrivals="fixed", targets=[self.server(ac.echo(64))])
        a.ask("load", rate=0.01)  # a request in a hundred seconds
        a.ask("load", rate=1000)
        a.ask("measure", samples=100)
        a.wait_complete()
        times = sorted(r.intended for r in a.samples())
        self.assertEqual({round((b - c) / 1e4) for b, c in zip(times[1:], times)}, {100})

    def test_trace_arrivals_are_scaled_and_repeated(self):
        a = self.agent()
        _, samples = a.measure(1000, 60, protocol="echo", arrivals="trace", traceNanoseconds=[1, 2, 3],
                               targets=[self.server(ac.echo(64))], connections=8)
        times = sorted(r.intended for r in samples)
        gaps = [round((b - c) / 1e5) for b, c in zip(times[1:], times)]
        i = gaps.index(5)
        self.assertEqual(gaps[i:i + 6], [5, 10, 15, 5, 10, 15])

    def test_rate_and_sampling(self):
        a = self.agent()
        poll, samples = a.measure(2000, 200, sampling=0.2, protocol="echo", arrivals="fixed", targets=[self.server(ac.echo(64))])
        self.assertEqual(len(samples), 200)
        self.assertTrue(600 <= poll["window"]["sent"] <= 1600, poll["window"]["sent"])  # 1000 expected, sigma 63
        serials = sorted(r.intended for r in samples)
        self.assertEqual(len(set(serials)), 200)
        # L-47: the histogram holds all requests, sampled or not.
        self.assertEqual(poll["window"]["responseTime"]["total"], poll["window"]["sent"])
        # L-46: chance decides, so the distances between samples in requests are not all alike.
        self.assertGreater(len({round((b - c) / 500_000) for b, c in zip(serials[1:], serials)}), 5)

    def test_a_window_ends_with_its_time(self):
        a = self.agent()
        poll, samples = a.measure(500, 0, seconds=1, protocol="echo", targets=[self.server(ac.echo(64))])
        self.assertEqual(poll["window"]["elapsedNanoseconds"], 1_000_000_000)
        self.assertEqual(samples, [])
        self.assertGreater(poll["window"]["answered"], 0)

    def test_l1_l2_roles(self):
        a = self.agent()
        target = self.server(ac.echo(64))
        poll, samples = a.measure(500, 50, role="latency", protocol="echo", targets=[target])
        self.assertEqual({r.outcome for r in samples}, {"answered"})
        self.assertEqual(poll["window"]["responseTime"]["total"], poll["window"]["sent"])
        a.ask("stop")
        poll, samples = a.measure(500, 20, seconds=1, role="throughput", protocol="echo", targets=[target])
        self.assertNotIn("responseTime", poll["window"])
        self.assertEqual(poll["window"]["elapsedNanoseconds"], 1_000_000_000)  # its samples end no window
        self.assertGreater(poll["window"]["answered"], 20)
        # When they left is told, when they were answered is not.
        self.assertEqual((len(samples), poll["timestamps"]), (20, "software"))
        self.assertEqual({(r.outcome, r.received, r.stamped) for r in samples}, {("answered", ac.NEVER, ac.NEVER)})
        self.assertGreater(len([r for r in samples if 0 < r.gap < ac.NEVER]), 15)

    def test_two_threads_are_two_streams(self):
        a = self.agent()
        poll, samples = a.measure(2000, 300, protocol="echo", threads=2, connections=5,
                                  targets=[self.server(ac.echo(64))])
        self.assertEqual(a.configured["streams"], 2)
        gaps = [r.gap for r in samples if r.gap != ac.NEVER]
        self.assertGreater(sum(gaps) / len(gaps), 0.6e6)  # 1 ms each, more on a busy machine, not 0.5


class Failures(AgentBed):
    """L-32: what is not answered is counted by cause and is a sample that never came."""

    def outcome_of(self, talk, outcome, n=20, rate=200, **configure):
        a = self.agent()
        patience = 1_500_000_000 if outcome == "timeout" else SLOW_MACHINE
        poll, samples = a.measure(rate, n, targets=[self.server(talk)], timeoutNanoseconds=patience, **configure)
        window = poll["window"]
        self.assertEqual(window["sent"], window["answered"] + sum(window["failed"].values()))
        self.assertEqual(window["serviceTime"]["inf"], sum(window["failed"].values()))
        bad = [r for r in samples if r.outcome == outcome]
        self.assertTrue(bad, {r.outcome for r in samples})
        self.assertTrue(all(r.received == r.stamped == ac.NEVER for r in bad))
        return poll, samples

    def test_timeout_and_not_sent(self):
        poll, samples = self.outcome_of(lambda s: time.sleep(30), "timeout", protocol="echo", connections=2, n=60)
        unsent = [r for r in samples if r.outcome == "notSent"]
        self.assertTrue(all(r.sent == r.gap == ac.NEVER for r in unsent))
        self.assertGreater(poll["reconnects"], 0)

    def test_l61_r2p2_without_a_reply_or_a_free_socket(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind((ip(9), 0))
            poll, samples = self.agent().measure(200, 60, protocol="r2p2", targets=["%s:%d" % silent.getsockname()],
                                                 connections=2, timeoutNanoseconds=200_000_000)
        window = poll["window"]
        self.assertEqual((window["answered"], window["sent"]), (0, sum(window["failed"].values())))
        self.assertLessEqual({r.outcome for r in samples}, {"timeout", "notSent"})
        self.assertEqual((len(samples), {r.received for r in samples}), (60, {ac.NEVER}))

    def test_timeouts_leave_a_pipelined_connection_in_place(self):
        state = {"n": 0}

        def talk(s):
            while True:
                body = ac.exactly(s, 64)
                state["n"] += 1
                time.sleep(3 if state["n"] == 5 else 0)
                s.wfile.write(body)

        poll, _ = self.outcome_of(talk, "timeout", protocol="echo", connections=1, outstanding=256, n=100)
        self.assertEqual(poll["reconnects"], 0)
        self.assertGreater(poll["window"]["answered"], 0)

    def test_disconnected(self):
        def talk(s):
            ac.exactly(s, 64)

        self.outcome_of(talk, "disconnected", protocol="echo", connections=4)

    def test_error_reply(self):
        reply = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
        self.outcome_of(ac.http(lambda path, headers: reply), "errorReply", protocol="http")

    def test_bad_reply_is_logged_with_what_was_wrong(self):
        self.outcome_of(ac.http(lambda path, headers: b"HTTP/2 200\r\n\r\n"), "badReply", protocol="http")
        log = pathlib.Path(self.path("agent.log"))
        wait_for("it is logged", lambda: "a status line that does not start with HTTP/1.0 or HTTP/1.1" in log.read_text())

    def test_target_that_does_not_answer(self):
        a = self.agent()
        with socket.socket() as free:
            free.bind((ip(9), 0))
            target = "%s:%d" % free.getsockname()
        message = self.refused("TargetFailed", "targets", a.ask, "configure", protocol="echo", targets=[target])
        self.assertIn(target, message)
        self.assertIn("refused", message)


class Stamps(AgentBed):
    def stamped(self, **configure):
        a = self.agent()
        poll, samples = self.measure_stamped(a, 500, 100, timestamps="kernel", timeoutNanoseconds=SLOW_MACHINE,
                                             **configure)
        self.assertEqual((a.configured["timestamps"], poll["timestamps"]), ("kernel", "kernel"))
        good = [r for r in samples if r.stamps == 1]
        window = poll["window"]
        self.assertEqual((window["stamped"], window["unstamped"]), (len(good), 100 - len(good)))
        # The kernel stamps on the way between our two readings of the clock.
        self.assertTrue(all(0 < r.stamped < r.received - r.sent for r in good))
        return window, samples, good

    def test_l51_tcp(self):
        _, _, good = self.stamped(protocol="echo", targets=[self.server(ac.echo(64))])
        self.assertGreaterEqual(len(good), 95)

    def test_l53_l54_replies_in_pieces_have_no_stamp_and_are_counted(self):
        def talk(s):
            while True:
                body = ac.exactly(s, 64)
                s.wfile.write(body[:30])
                time.sleep(0.002)
                s.wfile.write(body[30:])

        window, _, _ = self.stamped(protocol="echo", targets=[self.server(talk)], connections=8)
        self.assertGreater(window["stampsDiscarded"], 0)

    def test_l55_udp(self):
        self.serve()
        _, _, good = self.stamped(protocol="r2p2", targets=[ip(2) + ":8000"], connections=4, outstanding=4)
        self.assertGreaterEqual(len(good), 95)

    def test_l57_software_says_so(self):
        a = self.agent()
        poll, samples = a.measure(500, 50, timestamps="software", protocol="echo", targets=[self.server(ac.echo(64))])
        self.assertEqual(poll["timestamps"], "software")
        self.assertEqual({(r.stamps, r.stamped) for r in samples}, {(0, ac.NEVER)})

    def test_l50_hardware_that_is_not_there_is_refused(self):
        a = self.agent()
        message = self.refused("Unsupported", "timestamps", a.ask, "configure", timestamps="hardware", protocol="echo",
                               targets=[self.server(ac.echo(64))])
        self.assertIn("device lo", message)


@unittest.skipUnless(os.geteuid() == 0, "another device than loopback needs root (network namespaces)")
class StampsOnVeth(AgentBed, NamespaceBed):
    HOSTS = {"client": 10, "server": 20}

    def check(self, a, **configure):
        poll, samples = self.measure_stamped(a, 500, 100, timestamps="auto", connections=4, **configure)
        self.assertEqual(a.configured["timestamps"], "kernel")
        good = [r for r in samples if r.stamps == 1]
        self.assertGreaterEqual(len(good), 95, poll)
        self.assertTrue(all(0 < r.stamped < r.received - r.sent for r in good))
        a.ask("stop")

    def test_l57_auto_takes_the_kernels_where_the_device_has_none(self):
        server = NET + "20"
        talk = "import agent_client as ac, time; s = ac.Server(%r, ac.echo(64)); print(s.target, flush=True); time.sleep(600)"
        self.start("echo", [sys.executable, "-c", talk % server], self.inside("server") + ("env", "PYTHONPATH=" + sys.path[0]))
        self.start("serve", [program("bobtail-serve"), "--address=" + server, "--ctl=" + self.path("serve.sock")],
                   self.inside("server"))
        self.ctl("serve")
        log = pathlib.Path(self.path("echo.log"))
        target = wait_for("the echo server", lambda: log.read_text().strip())
        a = self.agent(self.start_agent(prefix=self.inside("client")))
        self.check(a, protocol="echo", targets=[target])
        self.check(a, protocol="r2p2", targets=[server + ":8000"])
        message = self.refused("Unsupported", "timestamps", a.ask, "configure", timestamps="hardware", protocol="echo",
                               targets=[target])
        self.assertIn("device eth0", message)


class Contract(AgentBed):
    def test_token(self):
        token = b"sixteen or more bytes"
        path = self.path("token")
        with open(path, "wb") as f:
            f.write(token + b"\n")
        where = self.start_agent("--agent=" + ip(3) + ":0", "--agent-token-file=" + path)
        a = self.agent(where)
        self.assertEqual(a.greeting["authentication"], "token")
        self.refused("Unauthorized", "op", a.ask, "poll")
        self.assertRaises(EOFError, a.read)
        b = self.agent(where)
        self.refused("Unauthorized", "proof", b.hello, b"another secret altogether")
        self.assertRaises(EOFError, b.read)
        c = self.agent(where, token)
        self.refused("WrongState", "op", c.ask, "poll")
        d = None
        with self.assertRaises(ac.Refused) as busy:
            d = self.agent(where)
        self.assertIsNone(d)
        self.assertEqual(busy.exception.code, "Busy")

    def with_token(self, *options):
        path = self.path("token")
        with open(path, "wb") as f:
            f.write(b"sixteen or more bytes")
        where = self.start_agent("--agent=" + ip(3) + ":0", "--agent-token-file=" + path, *options)
        host, port = where.rsplit(":", 1)
        return where, (host, int(port))

    def test_who_has_proved_nothing_keeps_nobody_out(self):
        where, address = self.with_token()
        strangers = []
        for _ in range(40):  # more than may wait at the door
            s = socket.create_connection(address, timeout=20)
            self.addCleanup(s.close)
            strangers.append(s)
        text = strangers[0].makefile("rb").read().decode()  # the oldest gave way, and was told why
        self.assertIn("too many others wait", text)
        self.assertIn('"Busy"', text)
        a = self.agent(where, b"sixteen or more bytes")
        self.assertEqual(a.ask("alive")["state"], "Idle")
        self.assertIn("another coordinator", strangers[-1].makefile("rb").read().decode())

    def test_a_hello_in_pieces_with_a_request_behind_it(self):
        where, address = self.with_token()
        a = self.agent(where)
        line = a.hello_line(b"sixteen or more bytes")[0] + b'{"op":"alive"}\n'
        a.sock.sendall(line[:50])
        time.sleep(0.05)
        a.sock.sendall(line[50:])
        self.assertIn("proof", a.read())
        self.assertEqual(a.read()["state"], "Idle")

    def test_a_long_first_line_is_refused(self):
        _, address = self.with_token()
        with socket.create_connection(address, timeout=20) as s:
            s.sendall(b"x" * 512)
            self.assertIn("more than 512 bytes", s.makefile("rb").read().decode())

    def test_a_silent_coordinator_is_dead(self):
        where = self.start_agent("--agent-lease=4")
        seen = []

        def talk(s):
            while True:
                s.wfile.write(ac.exactly(s, 64))
                seen.append(1)

        a = self.agent(where)
        self.assertEqual(a.greeting["leaseSeconds"], 4)
        a.ask("configure", protocol="echo", targets=[self.server(talk)])
        a.ask("load", rate=200)
        wait_for("load", lambda: len(seen) > 10)
        self.assertRaises(EOFError, a.read)  # it hangs; the agent does not wait for its connection to end
        self.quiet(seen)
        b = self.agent(where)
        for _ in range(50):  # longer than the lease, which a sign of life renews
            time.sleep(0.1)
            self.assertEqual(b.ask("alive")["state"], "Idle")

    def test_an_agent_nobody_comes_to_ends(self):
        self.start_agent("--agent-wait=1", "--agent-once")
        self.assertEqual(self.processes["agent"].wait(timeout=30), 1)
        with open(self.path("agent.log")) as log:
            self.assertIn("no coordinator was let in for 1 s", log.read())

    def test_storing_keys_holds_nothing_up(self):
        where = self.start_agent()
        asked = []

        def mute(s):
            asked.append(s.rfile.read(1))
            time.sleep(600)

        a = self.agent(where)
        a.sock.sendall(json.dumps({"op": "configure", "protocol": "redis", "preload": True, "keys": 1000,
                                   "targets": [self.server(mute)]}).encode() + b"\n")
        wait_for("the keys are being stored", lambda: asked)
        with self.assertRaises(ac.Refused) as busy:
            self.agent(where)
        self.assertEqual(busy.exception.code, "Busy")
        a.close()  # and the keys are forgotten at once, not after ten seconds of silence
        b = wait_for("the next coordinator is let in", lambda: self.try_agent(where))
        self.refused("WrongState", "op", b.ask, "poll")
        self.processes["agent"].terminate()
        self.assertEqual(self.processes["agent"].wait(timeout=60), 0)

    def test_command_lines(self):
        short = self.path("short")
        with open(short, "w") as f:
            f.write("fifteen bytes..\n")
        plain = self.path("plain")
        open(plain, "w").close()
        for code, named, options in (
                (2, "--agent-token-file", ["--agent=127.0.0.1:0"]),
                (2, "--agent-token-file", ["--agent=unix:/tmp/x", "--agent-token-file=" + short]),
                (2, "--target", ["--agent=unix:/tmp/x", "--target=127.0.0.1:1"]),
                (1, "at least 16", ["--agent=127.0.0.1:0", "--agent-token-file=" + short]),
                (1, "No such file", ["--agent=127.0.0.1:0", "--agent-token-file=/nowhere"]),
                (1, "in use or no socket", ["--agent=unix:" + plain]),
                (1, "a path of 1 to", ["--agent=unix:" + "x" * 200])):
            p = subprocess.run([program("bobtail-load"), *options], capture_output=True, text=True, timeout=20)
            self.assertEqual(p.returncode, code, (options, p.stderr))
            self.assertIn(named, p.stderr, options)

    def test_the_load_ends_with_its_coordinator(self):
        seen = []

        def talk(s):
            while True:
                s.wfile.write(ac.exactly(s, 64))
                seen.append(time.monotonic())

        where = self.start_agent()
        a = self.agent(where)
        a.ask("configure", protocol="echo", targets=[self.server(talk)])
        a.ask("load", rate=200)
        wait_for("load", lambda: len(seen) > 10)
        a.close()
        b = wait_for("the next coordinator is let in", lambda: self.try_agent(where))
        self.quiet(seen)
        self.refused("WrongState", "op", b.ask, "poll")

    def quiet(self, seen):
        """What was on its way when the load ended still comes, but then nothing does: it was 200 a second."""
        def still():
            before = len(seen)
            time.sleep(0.3)
            return len(seen) == before

        wait_for("no more requests", still)

    def try_agent(self, where):
        try:
            return self.agent(where)
        except ac.Refused:
            return None

    def test_states(self):
        a = self.agent()
        echo = {"protocol": "echo", "targets": [self.server(ac.echo(64))]}
        self.refused("WrongState", "op", a.ask, "load", rate=1)
        self.refused("WrongState", "op", a.ask, "stop")
        a.ask("configure", **echo)
        self.refused("WrongState", "op", a.ask, "measure", samples=1)
        self.refused("WrongState", "op", a.ask, "samples")
        a.ask("load", rate=1000)
        self.refused("WrongState", "op", a.ask, "configure", **echo)
        a.ask("measure", samples=1000000, samplingRate=1e-9)
        self.assertEqual(a.ask("poll")["state"], "Measuring")
        self.refused("WrongState", "op", a.ask, "measure", samples=1)
        self.assertEqual(a.ask("stop")["state"], "Ready")
        poll = a.ask("poll")
        self.assertTrue(poll["window"]["complete"])
        self.assertEqual(poll["outstanding"], 0)
        self.assertEqual(a.ask("alive")["state"], "Ready")
        self.refused("WrongState", "op", a.ask, "hello")

    def test_a_stop_ends_turns_that_began_before_it(self):
        """A worker that was just sending by the old rate: one stop in some thousand met it."""
        a = self.agent()
        a.ask("configure", protocol="echo", targets=[self.server(ac.echo(64))], connections=4, threads=4)
        enough = time.monotonic() + 8  # sanitizers make a stop thirty times as slow
        for n in range(4000):
            if time.monotonic() > enough:
                break
            a.ask("load", rate=30000)
            a.ask("measure", samples=1000000, samplingRate=1e-9)
            a.ask("stop")
            poll = a.ask("poll")
            self.assertEqual((poll["window"]["complete"], poll["outstanding"]), (True, 0), "after stop %d" % n)

    def test_what_is_wrong_is_named(self):
        a = self.agent()
        good = {"protocol": "redis", "targets": ["127.0.0.1:1"]}
        for field, value in (("protocol", "gopher"), ("targets", []), ("targets", "x:1"), ("targets[1]", ["a b", 3]),
                             ("targets", ["127.0.0.1:99999"]), ("role", 3), ("connections", 0), ("connections", 1.5),
                             ("threads", 65), ("outstanding", 2000), ("timeoutNanoseconds", 1), ("arrivals", "bursts"),
                             ("traceNanoseconds", [1]), ("seed", -1), ("keys", 0), ("keyOrder", "zipf:1.5"),
                             ("keyBytes", "fixed"), ("valueBytes", "gamma:0:1"), ("scanLength", "uni:9:1"),
                             ("requestBytes", "bimodal:1:2:3"), ("serviceTime", "exp:nan"), ("readRatio", 2),
                             ("mix", "ycsb-z"), ("preload", "yes"), ("noSuchField", 1)):
            self.refused("InvalidRequest", field, a.ask, "configure", **{**good, field.split("[")[0]: value})
        self.refused("InvalidRequest", "protocol", a.ask, "configure", targets=["127.0.0.1:1"])
        self.refused("InvalidRequest", "mix", a.ask, "configure", protocol="memcached-ascii", mix="ycsb-e",
                     targets=["127.0.0.1:1"])
        self.refused("InvalidRequest", "preload", a.ask, "configure", protocol="http", preload=True,
                     targets=["127.0.0.1:1"])
        self.refused("InvalidRequest", "path", a.ask, "configure", protocol="http", path="/a\r\nEvil: yes",
                     targets=["127.0.0.1:1"])
        message = self.refused("InvalidRequest", "outstanding", a.ask, "configure", connections=16384, outstanding=1024,
                               **good)
        self.assertIn("1048576 requests on their way", message)
        self.refused("InvalidRequest", "samples", a.ask, "measure", samples=1_000_001)  # L-47: never overwritten
        self.refused("InvalidRequest", "rate", a.ask, "load")
        self.refused("InvalidRequest", "rate", a.ask, "load", rate=0)
        self.refused("UnknownOperation", "op", a.ask, "dance")
        self.refused("InvalidRequest", "seed", a.raw, b'{"op":"configure","seed":1,"seed":2}\n')

    def test_no_json_ends_the_session(self):
        where = self.start_agent()
        for text in (b"GET / HTTP/1.1\n", b"[]\n", b'{"op":"poll"} x\n', b'{"op":3}\n', b"{}\n", b"x" * (1 << 20)):
            a = wait_for("a free agent", lambda: self.try_agent(where))
            with self.assertRaises(ac.Refused) as caught:
                a.raw(text)
            self.assertEqual(caught.exception.code, "InvalidRequest")
            with self.assertRaises((EOFError, ConnectionError)):
                a.ask("poll")
            a.close()

    def test_socket_files(self):
        path = self.path("agent.sock")
        dead = socket.socket(socket.AF_UNIX)
        dead.bind(path)
        dead.close()
        where = self.start_agent("--agent-once")  # takes over what a dead one left
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.agent(where).close()
        self.assertEqual(self.processes["agent"].wait(timeout=20), 0)
        self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    main()
