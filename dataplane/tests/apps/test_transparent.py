# SPDX-License-Identifier: Apache-2.0
"""Transparent forwarding (R-4) over a real IP path: client, router and server each in a network
namespace of their own, joined by a bridge. Needs root; without it the tests are skipped by name."""
import os
import subprocess
import time
import unittest

from bed import Bed, main, program, wait_for

NEEDS_ROOT = "Transparent forwarding in network namespaces needs root (CAP_NET_ADMIN, CAP_NET_RAW)"
NET = "10.123.45."


def ip_command(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


@unittest.skipUnless(os.geteuid() == 0, NEEDS_ROOT)
class Transparent(Bed):
    HOSTS = {"client": 10, "router": 20, "server": 30, "server2": 31}

    def setUp(self):
        super().setUp()
        self.tag = "bt%d" % os.getpid()
        self.hub = self.tag + "hub"
        self.created = []
        try:
            self.add(self.hub)
            ip_command("-n", self.hub, "link", "add", "br0", "type", "bridge")
            ip_command("-n", self.hub, "link", "set", "br0", "up")
            for name, n in self.HOSTS.items():
                self.plug(name, n)
        except (subprocess.CalledProcessError, FileNotFoundError) as e:
            self.remove()
            detail = getattr(e, "stderr", b"") or str(e)
            self.skipTest("no network namespaces here: %s" % detail)

    def add(self, ns):
        ip_command("netns", "add", ns)
        self.created.append(ns)

    def plug(self, name, n):
        ns = self.tag + name
        self.add(ns)
        ip_command("-n", self.hub, "link", "add", "p%d" % n, "type", "veth", "peer", "name", "eth0", "netns", ns)
        ip_command("-n", self.hub, "link", "set", "p%d" % n, "master", "br0", "up")
        ip_command("-n", ns, "addr", "add", NET + "%d/24" % n, "dev", "eth0")
        ip_command("-n", ns, "link", "set", "eth0", "up")
        ip_command("-n", ns, "link", "set", "lo", "up")

    def remove(self):
        for ns in self.created:
            subprocess.run(["ip", "netns", "del", ns], capture_output=True)
        self.created = []

    def tearDown(self):
        super().tearDown()
        self.remove()

    def inside(self, name):
        return ("ip", "netns", "exec", self.tag + name)

    def transparent_document(self, servers, keys=(1,), **service):
        d = self.document([], [], forwarding="Transparent", keys=keys, **service)
        d["members"] = [{"address": NET + str(self.HOSTS[s]), "firstPort": 8000, "workers": 2, "name": s}
                        for s in servers]
        d["routers"] = [{"address": NET + "20", "requestPort": 8000, "feedbackPort": 9000, "name": "router"}]
        return self.write_document(d)

    def run_program(self, name, host, program_name, *options, drop=False):
        prefix = self.inside(host)
        if drop:
            prefix += ("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw", "--reuid=65534", "--clear-groups")
        self.start(name, [program(program_name), "--address=" + NET + str(self.HOSTS[host]),
                          "--ctl=" + self.path(name + ".sock"), "--key-dir=" + self.path("keys"), *options], prefix)

    def load_inside(self, seconds, *options):
        p = subprocess.run([*self.inside("client"), program("bobtail-load"), "--target=" + NET + "20:8000",
                            "--rate=200", "--duration=%gs" % seconds, "--warmup=0", "--output=json", *options],
                           capture_output=True, text=True, timeout=60)
        self.assertEqual(p.returncode, 0, p.stderr)
        import json
        return json.loads(p.stdout)

    def start_service(self, document):
        self.run_program("router", "router", "bobtail-router", "--config=" + document)
        for s in ("server", "server2"):
            self.run_program(s, s, "bobtail-serve", "--config=" + document, "--workers=2",
                             "--service-time=fixed:1ms")
        self.wait_joined("router", 4)

    def test_r4_clients_keep_their_address(self):
        self.start_service(self.transparent_document(["server", "server2"]))
        self.assert_all_answered(self.load_inside(2, "--verify", "--connections=2"))
        self.assert_all_answered(self.load_inside(1, "--verify", "--request-bytes=5000"))
        self.assert_all_answered(self.load_inside(1, "--verify", "--request-bytes=1400"))
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
