# SPDX-License-Identifier: Apache-2.0
"""A bed of real bobtail processes on loopback addresses of their own.

Every bed uses 127.A.B.x with A.B taken from the process id, so that suites that
run at the same time do not meet. Set BOBTAIL_BUILD to a meson build folder.
"""
import fcntl
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import starved

BUILD = os.environ.get("BOBTAIL_BUILD", "build/dataplane")
LOSSES = ("_dropped_total", "_rejected_total", "_discarded_total", "_resent_total", "_sacks_sent_total", "_expired_total")
NAME = re.compile(r"^[a-z][a-z0-9_]*$")
KEY = "000102030405060708090a0b0c0d0e0f"
OTHER_KEY = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
PREFIX = "127.%d.%d." % (16 + os.getpid() // 250 % 200, 1 + os.getpid() % 250)


def policies():
    """The routers' own: the schema of scenarios is written from their table."""
    with open(os.path.join(os.path.dirname(__file__), "../../sim/scenario.schema.json")) as f:
        return json.load(f)["properties"]["routers"]["properties"]["policy"]["anyOf"][0]["enum"]


def program(name):
    return os.path.join(BUILD, "apps", name, name)


def ip(n):
    return PREFIX + str(n)


def wait_for(what, condition, seconds=60.0):
    """Waits until condition() is true and returns its value; never asserts on how long it took."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("after %.0f s still not true: %s" % (seconds, what))
        time.sleep(0.05)


def named_once(reply):
    """What a program counts, if each of it has a name, and one that nothing else has: Prometheus takes no series twice."""
    seen = set()
    for x in reply["counters"] + reply["gauges"]:
        key = (x["name"], *sorted(x["labels"].items()))
        if not NAME.match(x["name"]) or key in seen:
            raise AssertionError("a counter without a name, or twice the same: %s" % (key,))
        seen.add(key)
    return reply


class Ctl:
    """One connection to a control socket."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(60)
        try:
            self.sock.connect(path)
        except OSError:
            self.sock.close()
            raise

    def raw(self, data, fds=()):
        if fds:
            socket.send_fds(self.sock, [data], list(fds))
        else:
            self.sock.send(data)
        return json.loads(self.sock.recv(1 << 20))

    def ask(self, op, **fields):
        reply = self.raw(json.dumps({"v": 1, "op": op, **fields}).encode())
        return named_once(reply) if op == "counters" and reply["ok"] else reply

    def apply(self, document, memfd=False, seal=True):
        text = document if isinstance(document, bytes) else json.dumps(document).encode()
        head = {"v": 1, "op": "apply", "hash": hashlib.sha256(text).hexdigest()}
        if not memfd:
            return self.raw(json.dumps(head).encode()[:-1] + b',"config":' + text + b"}")
        fd = os.memfd_create("config", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.write(fd, text)
            if seal:
                fcntl.fcntl(fd, fcntl.F_ADD_SEALS,
                            fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            head.update(memfd=True, size=len(text))
            return self.raw(json.dumps(head).encode(), [fd])
        finally:
            os.close(fd)

    def state(self):
        return self.ask("state")

    def counter(self, name, **labels):
        """Sum over all counters and gauges of that name with at least these labels."""
        reply = self.ask("counters")
        return sum(c["value"] for c in reply["counters"] + reply["gauges"]
                   if c["name"] == name and labels.items() <= c["labels"].items())

    def close(self):
        self.sock.close()


def sanitized():
    """The environment of programs: what a library below them never frees is no leak of ours."""
    known = "suppressions=" + os.path.join(os.path.dirname(os.path.abspath(__file__)), "lsan.supp") + ":print_suppressions=0"
    given = os.environ.get("LSAN_OPTIONS")
    return {**os.environ, "LSAN_OPTIONS": given + ":" + known if given else known}


class Bed(unittest.TestCase):
    """Starts processes, and at the end stops them and shows their logs if the test failed."""

    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory(prefix="bobtail-apps-")
        self.dir = self.tmp.name
        self.processes = {}
        self.controls = []
        self.loads_waited = 0.0
        self.write_key(KEY)

    def tearDown(self):
        failed = any(e for _, e in getattr(self._outcome, "errors", [])) or (
            hasattr(self._outcome, "result") and any(t is self for t, _ in
                                                     self._outcome.result.failures + self._outcome.result.errors))
        if failed:
            self.show_losses()
        for c in self.controls:
            c.close()
        for p in self.processes.values():
            if p.poll() is None:
                p.kill()
            p.wait()
            for stream in (p.stdout, p.stderr):
                if stream:
                    stream.close()
        for name in sorted(os.listdir(self.dir)):
            if name.endswith(".log"):
                with open(os.path.join(self.dir, name)) as f:
                    text = f.read()
                if failed:
                    print("--- %s\n%s" % (name, text[-3000:]))
                for bad in ("Sanitizer", "runtime error"):
                    self.assertNotIn(bad, text, name)
        self.tmp.cleanup()

    def show_losses(self):
        """What the programs that still answer say of packets and requests that came to nothing."""
        for name, p in self.processes.items():
            if p.poll() is not None or not os.path.exists(self.path(name + ".sock")):
                continue
            try:
                c = Ctl(self.path(name + ".sock"))
                c.sock.settimeout(2)
                lost = {"%s %s" % (x["name"], " ".join(x["labels"].values())): x["value"] for x in c.ask("counters")["counters"]
                        if x["value"] and x["name"].endswith(LOSSES)}
                c.close()
            except OSError as e:
                lost = e
            print("--- %s lost: %s" % (name, lost))

    def path(self, name):
        return os.path.join(self.dir, name)

    def write_key(self, key, folder="keys", key_id=1):
        os.makedirs(self.path(folder), exist_ok=True)
        with open(os.path.join(self.path(folder), str(key_id)), "w") as f:
            f.write(key + "\n")
        return self.path(folder)

    def document(self, servers, routers, workers=2, keys=(1,), **service):
        """The configuration of servers and routers at ip(n) for the numbers given."""
        s = {"name": "echo", "namespace": "test", "placement": "Software", "policy": "JBSQ", "workerQueueDepth": 3,
             "centralQueueLimit": 65536, "maxQueueMilliseconds": 20000, "forwarding": "Encapsulated",
             "deviceProfile": "Kernel", "legacyPeers": "Deny", "requestTimeoutMilliseconds": 10000,
             "workersPerReplica": workers, "holdBack": {"packets": 0, "microseconds": 0}}
        s.update(service)
        return {"apiVersion": "dataplane.bobtail.dev/v1",
                "sources": [{"kind": "RpcService", "namespace": "test", "name": "echo", "uid": "u", "generation": 1}],
                "service": s,
                "members": [{"address": ip(n), "firstPort": 8000, "workers": workers, "name": "server-%d" % n}
                            for n in servers],
                "routers": [{"address": ip(n), "requestPort": 8000, "feedbackPort": 9000, "name": "router-%d" % n}
                            for n in routers],
                "keyIds": list(keys)}

    def write_document(self, document, name="config.json"):
        with open(self.path(name), "w") as f:
            json.dump(document, f)
        return self.path(name)

    def start(self, name, argv, prefix=()):
        log = open(self.path(name + ".log"), "a")
        self.processes[name] = subprocess.Popen([*prefix, *argv], stdout=log, stderr=log, env=sanitized())
        log.close()
        return self.processes[name]

    def start_server(self, n, *options, workers=2, keys="keys", prefix=(), name=None):
        name = name or "server-%d" % n
        mode = os.environ.get("BOBTAIL_SERVE_MODE")  # a port for each thread, as for each worker
        ports = ["--mode=" + mode, "--threads=%d" % workers] if mode else ["--workers=%d" % workers]
        return self.start(name, [program("bobtail-serve"), "--address=" + ip(n), *ports,
                                 "--ctl=" + self.path(name + ".sock"), "--key-dir=" + self.path(keys), *options], prefix)

    def start_router(self, n, *options, keys="keys", prefix=(), name=None):
        name = name or "router-%d" % n
        threads = ["--threads=" + os.environ["BOBTAIL_ROUTER_THREADS"]] if "BOBTAIL_ROUTER_THREADS" in os.environ else []
        fast = ["--fast-path=" + os.environ["BOBTAIL_ROUTER_FAST_PATH"]] if "BOBTAIL_ROUTER_FAST_PATH" in os.environ else []
        return self.start(name, [program("bobtail-router"), "--address=" + ip(n), *threads, *fast,
                                 "--ctl=" + self.path(name + ".sock"), "--key-dir=" + self.path(keys), *options], prefix)

    def ctl(self, name):
        def dial():
            self.assertIsNone(self.processes[name].poll(), name + " ended")
            try:
                return Ctl(self.path(name + ".sock"))
            except (FileNotFoundError, ConnectionRefusedError):
                return None

        c = wait_for(name + " listens", dial)
        self.controls.append(c)
        return c

    def wait_joined(self, router, count):
        """Until exactly `count` workers of the router's members are eligible."""
        c = self.ctl(router)
        wait_for("%s sees %d workers" % (router, count),
                 lambda: sum(m["eligible"] for m in c.state()["members"]) == count)
        return c

    def cluster(self, servers, routers, *serve_options, workers=2, **service):
        """Servers and routers with one document, all workers joined everywhere."""
        document = self.write_document(self.document(servers, routers, workers, **service))
        for n in servers:
            self.start_server(n, "--config=" + document, *serve_options, workers=workers)
        for n in routers:
            self.start_router(n, "--config=" + document)
        for n in routers:
            self.wait_joined("router-%d" % n, len(servers) * workers)
        return document

    def load_command(self, targets, rate, seconds, *options):
        if not any(o.startswith("--timeout=") for o in options):
            options = ("--timeout=20s", *options)  # late is not lost: the machine may be busy
        return [program("bobtail-load"), "--target=" + ",".join(ip(n) + ":8000" for n in targets), "--rate=%g" % rate,
                "--duration=%gs" % seconds, "--warmup=0", "--output=json", *options]

    def load(self, targets, rate, seconds, *options, code=0):
        """Runs the generator to its end and returns its result."""
        return self.run_load(self.load_command(targets, rate, seconds, *options), seconds + 60, code)

    def run_load(self, command, timeout, code=0):
        """Runs a generator to its end and returns its result."""
        p = starved.Finished(command, timeout)
        self.loads_waited += p.waited
        self.assertEqual(p.returncode, code, p.stderr)
        self.assertNotIn("Sanitizer", p.stderr)
        return json.loads(p.stdout)

    def waited(self):
        """Seconds that the bed's programs waited for a processor so far."""
        return self.loads_waited + sum(starved.waited(p.pid) for p in self.processes.values() if p.poll() is None)

    def answered(self, load, *args, **fields):
        """The result of load(*args, **fields), every request of which was answered (see starved.py)."""
        end = time.monotonic() + starved.PATIENCE
        while True:
            before = self.waited()
            result = load(*args, **fields)
            waited = self.waited() - before
            self.assertEqual((result["corrupt"], result["endedTwice"], result["unended"]), (0, 0, 0), result)
            if starved.complete(result) or waited < starved.GIVES_UP or time.monotonic() > end:
                self.assert_all_answered(result)
                return result
            print("disturbed: %d of %d requests lost while programs waited %.1f s for a processor; once more" % (
                result["offered"] - result["completed"], result["offered"], waited), flush=True)

    def start_process(self, name, command):
        """A process whose output finish_load reads."""
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes[name] = p
        return p

    def start_load(self, targets, rate, seconds, *options):
        return self.start_process("load-%d" % len(self.processes), self.load_command(targets, rate, seconds, *options))

    def start_lasting_load(self, targets, rate, *options):
        """A load that has begun and goes on until end_load: however long what happens meanwhile takes."""
        p = self.start_process("load", self.load_command(targets, rate, 600, "--ctl=" + self.path("load.sock"), *options))
        c = self.ctl("load")
        wait_for("the load begins", lambda: c.counter("client_requests_started_total") > 0)
        return p

    def end_load(self):
        """Ends the lasting load and returns its result."""
        p = self.processes["load"]
        self.assertIsNone(p.poll(), "the load ended before it was told to")
        self.assertTrue(self.ctl("load").ask("leave")["ok"])
        return self.finish_load(p)

    def finish_load(self, p, seconds=90, code=0):
        out, err = p.communicate(timeout=seconds)
        self.assertEqual(p.returncode, code, err)
        self.assertNotIn("Sanitizer", err)
        return json.loads(out)

    def terminate(self, name, seconds=60, code=0):
        """SIGTERM and a clean end."""
        p = self.processes[name]
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(timeout=seconds), code, name)

    def kill(self, name):
        p = self.processes[name]
        p.kill()
        p.wait()

    def assert_all_answered(self, result):
        self.assertGreater(result["offered"], 0)
        self.assertEqual((result["lost"], result["timeouts"], result["errors"], result["dropped"], result["corrupt"]),
                         (0, 0, 0, 0, 0), result)
        self.assertEqual(result["completed"], result["offered"])
        self.assertEqual(result["histogram"]["total"], result["offered"])

    def assert_credits_return(self, *routers):
        """R-141: after a second of idleness no credit is outstanding anywhere."""
        for r in routers:
            c = self.ctl(r)
            wait_for("no credit of %s is outstanding" % r,
                     lambda: all(m["outstanding"] == 0 for m in c.state()["members"]))


def main():
    unittest.main(verbosity=2)
