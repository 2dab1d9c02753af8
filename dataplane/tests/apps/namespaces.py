# SPDX-License-Identifier: Apache-2.0
"""A bed of bobtail processes on a real IP path: each host is a network namespace, joined by a bridge.
Needs root; suites skip by name without it, but not where BOBTAIL_PRIVILEGED_TESTS says that they can run."""
import os
import subprocess

from bed import Bed, program

NET = "10.123.45."


def ip_command(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


class NamespaceBed(Bed):
    HOSTS = {}  # name: last byte of its address
    MTU = 1500  # of every interface

    def setUp(self):
        super().setUp()
        self.tag = "bt%d" % os.getpid()
        self.hub = self.tag + "hub"
        self.created = []
        self.addCleanup(self.remove)  # whatever the test or its end comes to: the next one takes the same names
        try:
            self.add(self.hub)
            ip_command("-n", self.hub, "link", "add", "br0", "type", "bridge")
            ip_command("-n", self.hub, "link", "set", "br0", "up")
            for name, n in self.HOSTS.items():
                self.plug(name, n)
        except (subprocess.CalledProcessError, FileNotFoundError) as e:
            if os.environ.get("BOBTAIL_PRIVILEGED_TESTS"):
                raise
            detail = getattr(e, "stderr", b"") or str(e)
            self.skipTest("no network namespaces here: %s" % detail)

    def add(self, ns):
        ip_command("netns", "add", ns)
        self.created.append(ns)

    def plug(self, name, n):
        ns = self.tag + name
        mtu = str(self.MTU)
        self.add(ns)
        ip_command("-n", self.hub, "link", "add", "p%d" % n, "mtu", mtu, "type", "veth",
                   "peer", "name", "eth0", "mtu", mtu, "netns", ns)
        ip_command("-n", self.hub, "link", "set", "p%d" % n, "master", "br0", "up")
        ip_command("-n", ns, "addr", "add", NET + "%d/24" % n, "dev", "eth0")
        ip_command("-n", ns, "link", "set", "eth0", "up")
        ip_command("-n", ns, "link", "set", "lo", "up")

    def remove(self):
        for ns in self.created:
            subprocess.run(["ip", "netns", "del", ns], capture_output=True)
        self.created = []

    def inside(self, name):
        return ("ip", "netns", "exec", self.tag + name)

    def network_document(self, servers, keys=(1,), **service):
        """The configuration of host "router" and of these servers, two workers each."""
        d = self.document([], [], keys=keys, **service)
        d["members"] = [{"address": NET + str(self.HOSTS[s]), "firstPort": 8000, "workers": 2, "name": s}
                        for s in servers]
        d["routers"] = [{"address": NET + str(self.HOSTS["router"]), "requestPort": 8000, "feedbackPort": 9000,
                         "name": "router"}]
        return self.write_document(d)

    def run_program(self, name, host, program_name, *options, drop=False):
        prefix = self.inside(host)
        if drop:
            prefix += ("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw", "--reuid=65534", "--clear-groups")
        self.start(name, [program(program_name), "--address=" + NET + str(self.HOSTS[host]),
                          "--ctl=" + self.path(name + ".sock"), "--key-dir=" + self.path("keys"), *options], prefix)

    def load_inside(self, seconds, *options, rate=200, code=0):
        """Runs the generator on host "client" against the router to its end and returns its result."""
        if not any(o.startswith("--timeout=") for o in options):
            options = ("--timeout=20s", *options)
        return self.run_load([*self.inside("client"), program("bobtail-load"),
                              "--target=%s%d:8000" % (NET, self.HOSTS["router"]), "--rate=%g" % rate,
                              "--duration=%gs" % seconds, "--warmup=0", "--output=json", *options], seconds + 60, code)
