# SPDX-License-Identifier: Apache-2.0
"""Transparent forwarding (R-4) over a real IP path: client, router and server each in a network
namespace of their own, joined by a bridge. Needs root; without it the tests are skipped by name."""
import os
import subprocess
import time
import unittest

from bed import main, wait_for
from namespaces import NET, NamespaceBed

NEEDS_ROOT = "Transparent forwarding in network namespaces needs root (CAP_NET_ADMIN, CAP_NET_RAW)"


@unittest.skipUnless(os.geteuid() == 0, NEEDS_ROOT)
class Transparent(NamespaceBed):
    HOSTS = {"client": 10, "router": 20, "server": 30, "server2": 31}

    def transparent_document(self, servers, **service):
        return self.network_document(servers, forwarding="Transparent", **service)

    def start_service(self, document):
        self.run_program("router", "router", "bobtail-router", "--config=" + document)
        for s in ("server", "server2"):
            self.run_program(s, s, "bobtail-serve", "--config=" + document, "--workers=2",
                             "--service-time=fixed:1ms")
        self.wait_joined("router", 4)

    def test_r4_clients_keep_their_address(self):
        self.start_service(self.transparent_document(["server", "server2"]))
        self.answered(self.load_inside, 2, "--verify", "--connections=2")
        self.answered(self.load_inside, 1, "--verify", "--request-bytes=5000")
        self.answered(self.load_inside, 1, "--verify", "--request-bytes=1400")
        c = self.ctl("router")
        self.assertEqual(c.counter("io_tx_dropped_total"), 0)
        wait_for("all credits are back", lambda: all(m["outstanding"] == 0 for m in c.state()["members"]))
        # The router's credits are its own: R-61 by option kind 5, so nothing was lost or reclaimed.
        self.assertEqual(c.counter("router_credits_reclaimed_total"), 0)

    def test_without_the_privilege_the_document_is_refused(self):
        document = self.transparent_document(["server"])
        if subprocess.run(["setpriv", "--version"], capture_output=True).returncode != 0:
            self.skipTest("setpriv is missing")
        os.chmod(self.dir, 0o777)
        self.run_program("router", "router", "bobtail-router", drop=True)
        c = self.ctl("router")
        with open(document, "rb") as f:
            r = c.apply(f.read())
        self.assertEqual(r["error"]["field"], "service.forwarding", r)
        self.assertIn("CAP_NET_RAW", r["error"]["message"])

    def test_legacy_peers_are_served(self):
        """A client and a server that know no extension, through a Transparent router."""
        document = self.transparent_document(["server"], keys=(), legacyPeers="Allow")
        self.run_program("router", "router", "bobtail-router", "--config=" + document)
        self.run_program("server", "server", "bobtail-serve", "--routers=" + NET + "20:8000", "--legacy-routers",
                         "--workers=2", "--service-time=fixed:1ms")
        time.sleep(0.5)
        result = self.load_inside(2, "--legacy", "--verify")
        self.assert_all_answered(result)
        self.assertGreater(self.ctl("router").counter("router_feedback_total"), 100)


if __name__ == "__main__":
    main()
