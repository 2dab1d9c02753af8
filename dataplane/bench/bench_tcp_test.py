#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `bench_tcp connect` says of connections that the other end ends: a run of bench-crab judges proxies by it.

  bench_tcp_test.py PROGRAM
"""
import json
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import unittest

COUNT = 400
INET6 = pathlib.Path("/proc/net/if_inet6")
LOOPBACK6 = INET6.exists() and f"{1:032x} " in INET6.read_text()
RESET = struct.pack("ii", 1, 0)  # SO_LINGER that makes close() send a RST


class Service:
    """Echoes 64 bytes once on each connection; some of them it ends after `bytes` of the answer instead."""

    def __init__(self, ends, answered=0, reset=False, host="127.0.0.1"):
        self.ends, self.answered, self.reset, self.host = ends, answered, reset, host
        self.listener = socket.create_server((host, 0), backlog=64, family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        number = 0
        while True:
            try:
                c, _ = self.listener.accept()
            except OSError:
                return
            number += 1
            with c:
                request = c.recv(64, socket.MSG_WAITALL)
                if number not in self.ends:
                    c.sendall(request)
                    c.recv(1)
                    continue
                c.sendall(request[:self.answered])
                if self.reset:
                    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    def client(self, count=COUNT):
        done = subprocess.run([PROGRAM, "connect", self.host, str(self.port), str(count)], capture_output=True, text=True, timeout=60)
        self.end()
        return done

    def end(self):
        """The thread ends before its socket is closed: about to accept, it would take from the next service, of the same number."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join(timeout=60)
        self.listener.close()


class Ended(unittest.TestCase):
    def test_all_are_answered(self):
        done = Service(ends=()).client()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        said = json.loads(done.stdout)
        self.assertEqual((said["completed"], said["ended"]), (COUNT, 0))

    def test_a_few_are_counted_and_named(self):
        for reset, how in ((False, "closed"), (True, "reset")):
            service = Service(ends=(7, 300), reset=reset)
            done = service.client()
            said = json.loads(done.stdout)
            self.assertEqual((done.returncode, said["completed"], said["ended"]), (0, COUNT - 2, 2))
            self.assertRegex(done.stderr, rf"127\.0\.0\.1:{service.port} {how} the connection from 127\.0\.0\.1:\d+ after 0 of 64 bytes")
            self.assertIn("connection 7 of 400", done.stderr)
            self.assertIn("connection 300 of 400, and the other end has ended 2 of them", done.stderr)

    @unittest.skipUnless(LOOPBACK6, "no IPv6 on the loopback device")
    def test_ipv6(self):
        service = Service(ends=(7,), host="::1")
        done = service.client()
        self.assertEqual((done.returncode, json.loads(done.stdout)["completed"]), (0, COUNT - 1))
        self.assertRegex(done.stderr, rf"::1:{service.port} closed the connection from ::1:\d+ after 0 of 64 bytes")

    def test_half_an_answer_is_none(self):
        done = Service(ends=(2,), answered=20).client()
        self.assertEqual(json.loads(done.stdout)["ended"], 1)
        self.assertIn("after 20 of 64 bytes", done.stderr)

    def test_many_fail(self):
        done = Service(ends=(1, 2, 3)).client()
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("has ended 3 of them", done.stderr)
        self.assertIn("more than one in 200", done.stderr)

    def test_one_of_one_fails(self):  # so that waiting for a service with one connection waits for its answer
        self.assertEqual(Service(ends=(1,)).client(count=1).returncode, 1)

    def test_nobody_there(self):
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        done = subprocess.run([PROGRAM, "connect", "127.0.0.1", str(port), "1"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("connect to 127.0.0.1: Connection refused", done.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
