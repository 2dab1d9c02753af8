# SPDX-License-Identifier: Apache-2.0
"""bobtail-serve's TCP past the kernel, on a veth behind af_packet; the client is the kernel's own. Nothing here asserts a
time. Needs root; skipped by name without it, and in a build without DPDK or lwIP."""
import os
import subprocess
import sys
import unittest

from bed import main, program, wait_for
from namespaces import NET, NamespaceBed, ip_command

SERVER = NET + "20"
CLIENT = """
import socket, sys
s = socket.create_connection((sys.argv[1], 8000), timeout=60)
for _ in range(int(sys.argv[2])):
    s.sendall(bytes.fromhex("0000000568656c6c6f"))
    got = b""
    while len(got) < 9:
        part = s.recv(9 - len(got))
        assert part, "the connection ended"
        got += part
    assert got == bytes.fromhex("0000000568656c6c6f"), got
s.shutdown(socket.SHUT_WR)
assert s.recv(1) == b""
"""
OPTIONS = ["--mode=run-to-completion", "--protocol=u32", "--address=" + SERVER, "--driver=dpdk", "--dpdk-hugepages=off",
           "--drain-quiet=1ms"]


def built():
    """Asked of the program itself: with another option that is wrong, it does not get as far as opening the port."""
    p = subprocess.run([program("bobtail-serve"), *OPTIONS, "--dpdk-port=net_null0", "--dpdk-prefix=33", "--ctl="],
                       capture_output=True, text=True, timeout=60)
    return "--dpdk-prefix" in p.stderr


@unittest.skipUnless(os.geteuid() == 0 and built(), "needs root (network namespaces), DPDK and lwIP")
class Stack(NamespaceBed):
    HOSTS = {"client": 10, "server": 20}

    def setUp(self):
        super().setUp()
        for name in self.HOSTS:  # DPDK sees checksums that a veth left open (docs/guides/dpdk.md)
            subprocess.run([*self.inside(name), "ethtool", "-K", "eth0", "tx", "off", "tso", "off", "gso", "off", "gro", "off"],
                           check=True, capture_output=True)
        ip_command("-n", self.tag + "server", "addr", "flush", "dev", "eth0")

    def serve(self, *options):
        return self.start("serve", [program("bobtail-serve"), *OPTIONS, "--dpdk-port=net_af_packet0,iface=eth0",
                                    "--ctl=" + self.path("serve.sock"), *options], self.inside("server"))

    def said(self):
        with open(self.path("serve.log")) as f:
            return f.read()

    def exchange(self, times):
        p = subprocess.run([*self.inside("client"), sys.executable, "-c", CLIENT, SERVER, str(times)], capture_output=True,
                           text=True, timeout=120)
        self.assertEqual(p.returncode, 0, p.stderr)

    def test_requests_are_answered_and_counted_below_and_above(self):
        self.serve("--wait=1ms", "--mtu=1400")
        c = self.ctl("serve")
        for _ in range(3):
            self.exchange(5)
        self.assertEqual(c.counter("server_tcp_requests_total"), 15)
        self.assertEqual(c.counter("server_connections_total"), 3)
        self.assertEqual(c.counter("tcp_connections_total"), 3)
        self.assertGreaterEqual(c.counter("tcp_segments_received_total"), 3 * 8)  # two of a handshake, five requests, an end
        self.assertGreaterEqual(c.counter("tcp_segments_sent_total"), 3 * 7)
        self.assertGreaterEqual(c.counter("io_rx_packets_total"), 3 * 8)
        self.assertEqual(c.counter("tcp_dropped_total", reason="checksum"), 0)
        self.assertEqual(c.counter("server_workers"), 0)
        device = c.state()["device"]
        self.assertEqual((device["driver"], device["link"], device["mtu"]), ("net_af_packet", "Up", 1500))
        self.assertIn("TCP %s:8000 past the kernel, service time fixed:0, MTU 1400" % SERVER, self.said())
        self.assertTrue(c.ask("leave")["ok"])
        wait_for("it drained", lambda: c.state()["draining"])
        self.terminate("serve")
        self.assertIn("drained", self.said())

    def test_a_port_that_cannot_be_had_ends_it(self):
        for options, why in ((["--mtu=1501"], "--mtu"), (["--dpdk-port=net_af_packet0,iface=nothing"], "net_af_packet0")):
            self.assertNotEqual(self.serve(*options).wait(60), 0)
            self.assertIn(why, self.said())


if __name__ == "__main__":
    main()
