# SPDX-License-Identifier: Apache-2.0
"""R-13: packets fit the network without anybody saying how large it takes them, and where somebody
said it wrongly, what was lost is counted and every request ends."""
import os
import unittest

from bed import Bed, main
from namespaces import NamespaceBed

NEEDS_ROOT = "a network of another MTU needs root (CAP_NET_ADMIN for network namespaces)"
# One IPv4 packet of 1400 bytes carries 1364; a client leaves 32 of them to the router.
SIZES = (0, 1331, 1332, 1333, 1364, 1365, 1378, 1379, 1432, 1433, 65536)


@unittest.skipUnless(os.geteuid() == 0, NEEDS_ROOT)
class Overlay(NamespaceBed):
    HOSTS = {"client": 10, "router": 20, "server": 30}
    MTU = 1400

    def start_service(self, *serve_options, router_options=(), **service):
        document = self.network_document(["server"], **service)
        self.run_program("router", "router", "bobtail-router", "--config=" + document, *router_options)
        self.run_program("server", "server", "bobtail-serve", "--config=" + document, "--workers=2", *serve_options)
        self.wait_joined("router", 2)

    def too_long(self, name):
        return self.ctl(name).counter("io_tx_dropped_total", reason="too_long")

    def log(self, name):
        with open(self.path(name + ".log")) as f:
            return f.read()

    def serves_every_size(self, *load_options, **service):
        self.start_service(**service)
        for n in SIZES:
            result = self.answered(self.load_inside, 0.2, "--verify", "--arrivals=fixed", "--request-bytes=%d" % n,
                                   *load_options, rate=50)
            self.assertEqual((result["mtu"], result["packetsTooLong"]), (1400, 0))
        for name in ("router", "server"):
            self.assertIn("MTU 1400 (auto)", self.log(name))
            self.assertEqual(self.ctl(name).counter("io_tx_dropped_total"), 0, name)
        self.assert_credits_return("router")

    def test_r13_every_size_passes_without_being_told(self):
        self.serves_every_size()

    def test_r13_every_size_passes_transparently(self):
        self.serves_every_size(forwarding="Transparent")

    def lost(self, *load_options):
        """Every request of a short load ends, none of them answered."""
        result = self.load_inside(0.3, "--timeout=1s", "--arrivals=fixed", *load_options, rate=50, code=1)
        self.assertGreater(result["offered"], 0)
        self.assertEqual((result["completed"], result["timeouts"] + result["errors"]), (0, result["offered"]))
        return result

    def test_a_client_that_is_told_too_much_counts_what_does_not_leave(self):
        self.start_service()
        for n in (1400, 65536):
            result = self.lost("--mtu=1500", "--request-bytes=%d" % n)
            self.assertGreaterEqual(result["packetsTooLong"], result["offered"])
        # What fits needs no luck.
        self.answered(self.load_inside, 0.3, "--mtu=1500", "--arrivals=fixed", "--request-bytes=1000", rate=50)

    def test_a_server_that_is_told_too_much_counts_what_does_not_leave(self):
        self.start_service("--mtu=1500", "--reply-bytes=65536")
        self.lost("--request-bytes=8")
        self.assertGreater(self.too_long("server"), 0)

    def test_a_router_that_is_told_too_much_counts_what_does_not_leave(self):
        self.start_service(router_options=["--mtu=1500"])
        # 1386 bytes to the router, with the options it adds more than 1400.
        self.lost("--mtu=1500", "--request-bytes=1350")
        self.assertGreater(self.too_long("router"), 0)

    def test_r4_a_router_drops_what_has_no_room_for_its_options(self):
        self.start_service()
        result = self.load_inside(0.3, "--mtu=1500", "--arrivals=fixed", "--request-bytes=1350", rate=50)
        self.assertGreater(result["offered"], 0)
        self.assertEqual(result["dropped"], result["offered"])
        self.assertEqual(self.too_long("router"), 0)
        self.assert_credits_return("router")


class Differing(Bed):
    """Ends that were told different sizes, on loopback."""

    def lost(self, *options):
        result = self.load([1], 50, 0.3, "--timeout=500ms", "--arrivals=fixed", "--request-bytes=65536", *options, code=1)
        self.assertEqual((result["completed"], result["timeouts"]), (0, result["offered"]))
        self.assertEqual(result["packetsTooLong"], 0)

    def rejected(self, case):
        return self.ctl("server-1").counter("server_rejected_total", case=case)

    def test_m13_packets_smaller_than_the_servers_are_refused_and_counted(self):
        self.start_server(1, "--mtu=1500")
        self.ctl("server-1")
        self.lost("--mtu=1400")
        self.assertGreater(self.rejected("M-13"), 0)

    def test_m14_packets_larger_than_the_servers_are_refused_and_counted(self):
        self.start_server(1, "--mtu=1400")
        self.ctl("server-1")
        self.lost("--mtu=1500")
        self.assertGreater(self.rejected("M-14"), 0)

    def test_r13_any_size_will_do_when_it_is_the_same(self):
        for n, mtu in enumerate((576, 1376, 1500), 1):
            self.start_server(n, "--mtu=%d" % mtu)
            self.ctl("server-%d" % n)
            for size in (0, 500, 1000, 1400, 65536, 500000):
                self.answered(self.load, [n], 50, 0.1, "--verify", "--arrivals=fixed", "--mtu=%d" % mtu,
                              "--request-bytes=%d" % size)


if __name__ == "__main__":
    main()
