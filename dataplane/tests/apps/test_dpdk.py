# SPDX-License-Identifier: Apache-2.0
"""The programs over DPDK: client, router and server as memif clients of one small switch, without a capability and
without hugepages; and a DPDK server or router on a veth, by af_packet and af_xdp, with the kernel's stack at its peers.
Nothing here asserts a time. Skipped by name in a build without DPDK."""
import json
import os
import subprocess
import time
import unittest

from bed import Bed, main, program, wait_for
from namespaces import NET, NamespaceBed, ip_command

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bpf/zz_generated_xsk_redirect.o")
SWITCH = os.environ.get("BOBTAIL_MEMIF_SWITCH", "")
ADDRESS = "10.98.0.%d"
# Three programs and a switch share two cores: requests are answered late at times, never lost.
PATIENCE = "--timeout=20s"
# Of a core, at most, for a router that has nothing to do; processor time, so what else runs does not add to it.
# Measured 0.08 over memif and 0.14 over af_packet, whose every look is a walk over a ring shared with the kernel.
IDLE, IDLE_AF_PACKET = 0.15, 0.22
# A neighbour that empties the caches makes every look dearer: that is not for a run beside busy ones.
SHORT = os.environ.get("BOBTAIL_SHORT") == "1"


def busy_share(process, seconds=2):
    """The processor time that all threads of a process take in some time from now, over that time."""
    def taken():
        ns = 0
        for tid in os.listdir("/proc/%d/task" % process.pid):
            with open("/proc/%d/task/%s/schedstat" % (process.pid, tid)) as f:
                ns += int(f.read().split()[0])
        return ns / 1e9

    before, started = taken(), time.monotonic()
    time.sleep(seconds)
    return (taken() - before) / (time.monotonic() - started)


@unittest.skipUnless(os.path.exists(SWITCH), "this build has no DPDK")
class MemifBed(Bed):
    """A switch, and how the programs are started as its clients."""
    PREFIX = ()
    ROUTER = program("bobtail-router")

    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o777)
        self.sockets = {name: self.path(name + ".memif") for name in ("client", "router", "server")}
        self.switches = 0
        self.start_switch()

    def start_switch(self):
        for path in self.sockets.values():
            if os.path.exists(path):
                os.unlink(path)
        self.switches += 1
        self.start("switch", [SWITCH, *self.sockets.values()], self.PREFIX)
        wait_for("the switch is ready", lambda: self.switch_ready() or self.processes["switch"].poll() is not None)
        self.assertIsNone(self.processes["switch"].poll(), "the switch runs")

    def switch_ready(self):
        with open(self.path("switch.log")) as f:
            return f.read().count("ready") == self.switches

    def dpdk(self, name, number):
        return ["--driver=dpdk", "--address=" + ADDRESS % number, "--dpdk-link-wait=5s", "--dpdk-buffers=4096",
                "--dpdk-hugepages=off",
                "--dpdk-port=net_memif0,role=client,socket=%s,socket-abstract=no" % self.sockets[name]]

    def memif_document(self, **service):
        d = self.document([], [], **{"maxQueueMilliseconds": 60000, **service})
        d["members"] = [{"address": ADDRESS % 3, "firstPort": 8000, "workers": 2, "name": "server"}]
        d["routers"] = [{"address": ADDRESS % 2, "requestPort": 8000, "feedbackPort": 9000, "name": "router"}]
        return self.write_document(d)

    def start_service(self, *serve_options, **service):
        document = self.memif_document(**service)
        common = ["--config=" + document, "--key-dir=" + self.path("keys"), "--drain-quiet=100ms"]
        self.start("router", [self.ROUTER, *self.dpdk("router", 2), *common,
                              "--ctl=" + self.path("router.sock")], self.PREFIX)
        self.start("server", [program("bobtail-serve"), *self.dpdk("server", 3), *common, "--workers=2",
                              "--ctl=" + self.path("server.sock"), *serve_options], self.PREFIX)
        self.wait_joined("router", 2)

    def load_over_memif(self, *options, rate=300, seconds=1):
        # Of the packets that wait for the router's MAC address 16 are kept (E-14); on a busy machine more come meanwhile.
        # Those are requests of the warm-up.
        return self.run_load([*self.PREFIX, program("bobtail-load"), *self.dpdk("client", 1),
                              "--target=" + ADDRESS % 2 + ":8000", "--rate=%d" % rate, "--duration=%gs" % seconds,
                              "--warmup=1s", "--output=json", PATIENCE, *options], 90)


def thread_places(pid):
    """The CPUs that each of a program's threads may run on: (its own, DPDK's)."""
    own, dpdks = [], []
    for tid in map(int, os.listdir("/proc/%d/task" % pid)):
        with open("/proc/%d/task/%d/comm" % (pid, tid)) as f:
            (dpdks if f.read().startswith(("eal-", "rte_")) else own).append(sorted(os.sched_getaffinity(tid)))
    return own, dpdks


class Memif(MemifBed):
    def test_a_refused_setting_is_named_as_the_option_it_came_by(self):
        for option, *more in (("--address", "--address=10.98.0.255"),  # its network's broadcast address
                              ("--dpdk-gateway", "--address=10.98.0.5", "--dpdk-gateway=10.98.0.5")):
            p = subprocess.run([*self.PREFIX, program("bobtail-router"), *self.dpdk("router", 2), "--dpdk-link-wait=0",
                                "--ctl=", *more], capture_output=True, text=True, timeout=60)
            self.assertEqual(p.returncode, 1, p.stderr)
            self.assertIn(option, p.stderr)

    def test_arguments_beyond_what_dpdk_is_given_are_named(self):
        arguments = " ".join("--log-level=lib.x%d:error" % i for i in range(70))
        p = subprocess.run([*self.PREFIX, program("bobtail-router"), *self.dpdk("router", 2), "--ctl=",
                            "--dpdk-eal=" + arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(p.returncode, 1, p.stderr)
        self.assertRegex(p.stderr, r'argument "--log-level=lib.x\d+:error" for DPDK is one too many: .* at most 62')

    def test_every_request_is_answered(self):
        self.start_service("--service-time=fixed:200us")
        self.answered(self.load_over_memif, "--verify", "--connections=4")
        self.answered(self.load_over_memif, "--verify", "--request-bytes=5000", rate=50)
        self.assert_credits_return("router")
        c = self.ctl("router")
        self.assertEqual(c.counter("io_tx_dropped_total", reason="no_buffer"), 0)
        self.assertGreater(c.counter("link_rx_total", kind="arp"), 0)
        self.terminate("server")
        self.terminate("router")

    def test_r4_transparent_needs_no_privilege_here(self):
        self.start_service(forwarding="Transparent")
        self.answered(self.load_over_memif, "--verify")

    @unittest.skipIf(SHORT, "measures the machine: left to a whole run")
    def test_an_idle_router_leaves_its_core_alone(self):
        """Adaptive idling: of two seconds without requests a router that does not spin uses a small part."""
        self.start_service()
        time.sleep(0.3)
        share = busy_share(self.processes["router"])
        print("an idle router over memif uses %.1f %% of a core" % (share * 100))
        self.assertLess(share, IDLE)

    @unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "one CPU only")
    def test_threads_stay_on_their_cpus_and_dpdks_own_elsewhere(self):
        a, b, *_ = sorted(os.sched_getaffinity(0))
        options = [self.ROUTER, *self.dpdk("router", 2), "--dpdk-link-wait=0", "--ctl=" + self.path("router.sock")]
        for more, carry in ((["--threads=2", "--cpus=%d,%d" % (b, a)], [[a]]), (["--cpus=%d" % b], [])):
            self.start("router", [*options, *more], self.PREFIX)
            self.ctl("router")
            pid = self.processes["router"].pid
            want = sorted([[b], *carry, sorted(os.sched_getaffinity(0))])  # the last: the control thread
            # A thread takes its place itself, when it is given a processor.
            wait_for("threads are where they belong: %s" % want, lambda: sorted(thread_places(pid)[0]) == want)
            dpdks = thread_places(pid)[1]
            self.assertTrue(dpdks)
            if not carry:
                self.assertTrue(all(b not in cpus for cpus in dpdks), dpdks)
            self.terminate("router")
            os.unlink(self.sockets["router"]) if os.path.exists(self.sockets["router"]) else None

    def test_programs_find_a_switch_that_comes_late_or_back(self):
        self.terminate("switch")
        document = self.memif_document()
        common = ["--config=" + document, "--key-dir=" + self.path("keys"), "--drain-quiet=100ms"]
        self.start("router", [program("bobtail-router"), *self.dpdk("router", 2), *common,
                              "--ctl=" + self.path("router.sock")], self.PREFIX)
        self.start("server", [program("bobtail-serve"), *self.dpdk("server", 3), *common, "--workers=2",
                              "--ctl=" + self.path("server.sock")], self.PREFIX)
        self.start_switch()
        c = self.wait_joined("router", 2)
        self.answered(self.load_over_memif, "--verify")
        self.kill("switch")
        self.start_switch()
        heard = c.counter("router_feedback_total")
        wait_for("router and server hear each other again", lambda: c.counter("router_feedback_total") > heard + 10, 60)
        self.answered(self.load_over_memif, "--verify")

    def test_a_router_that_comes_back_is_found_again(self):
        self.start_service()
        self.answered(self.load_over_memif, "--verify")
        self.kill("router")
        os.unlink(self.path("router.sock"))
        self.start("router", [program("bobtail-router"), *self.dpdk("router", 2), "--config=" + self.path("config.json"),
                              "--key-dir=" + self.path("keys"), "--ctl=" + self.path("router.sock")], self.PREFIX)
        self.wait_joined("router", 2)
        self.assertIsNone(self.processes["server"].poll(), "the server outlives its router")
        self.answered(self.load_over_memif, "--verify")


@unittest.skipUnless(os.geteuid() == 0, "dropping privileges needs root")
class MemifUnprivileged(Memif):
    """The same as nobody, without any capability: the pod that needs no privilege at all."""
    PREFIX = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all",
              "--inh-caps=-all", "--no-new-privs")

    test_an_idle_router_leaves_its_core_alone = None
    test_a_router_that_comes_back_is_found_again = None
    test_programs_find_a_switch_that_comes_late_or_back = None
    test_r4_transparent_needs_no_privilege_here = None

    def setUp(self):
        if subprocess.run([*self.PREFIX, "true"], capture_output=True).returncode != 0:
            self.skipTest("setpriv cannot drop privileges here")
        super().setUp()


@unittest.skipUnless(os.geteuid() == 0 and os.path.exists(SWITCH),
                     "network namespaces need root, and this build DPDK")
class KernelPeers(NamespaceBed):
    """One of client, router and server is a DPDK port on its veth, the others are sockets of the kernel."""
    HOSTS = {"client": 10, "router": 20, "server": 30}

    def give_to_dpdk(self, host):
        # The port answers for its address itself, so the kernel must not.
        ip_command("-n", self.tag + host, "addr", "flush", "dev", "eth0")

    def cut_trains(self, host):
        """The kernel sends a train as one frame to be cut by the device; a port of af_packet would take it for one datagram."""
        subprocess.run([*self.inside("hub"), "ethtool", "-K", "p%d" % self.HOSTS[host], "tx-udp-segmentation", "off"], check=True,
                       capture_output=True)

    def dpdk_router(self, port, *options):
        """A router on this port answers every request of kernel peers, drops nothing and ends cleanly."""
        self.give_to_dpdk("router")
        document = self.network_document(["server"])
        self.run_program("router", "router", "bobtail-router", "--config=" + document, "--driver=dpdk",
                         "--dpdk-port=" + port, "--dpdk-buffers=8192", "--dpdk-hugepages=off", *options)
        self.run_program("server", "server", "bobtail-serve", "--config=" + document, "--workers=2",
                         "--service-time=fixed:200us", "--drain-quiet=100ms")
        c = self.wait_joined("router", 2)
        self.answered(self.load_inside, 0.5, "--verify", "--connections=4", PATIENCE)
        self.answered(self.load_inside, 0.5, "--verify", "--request-bytes=5000", PATIENCE, rate=50)
        self.assert_credits_return("router")
        if not SHORT:
            share = busy_share(self.processes["router"])
            print("idle, it uses %.1f %% of a core" % (share * 100))
            self.assertLess(share, IDLE_AF_PACKET * (2 if "--threads=2" in options else 1))
        self.assertGreater(c.counter("link_rx_total", kind="arp"), 0)
        self.assertEqual((c.counter("io_tx_dropped_total"), c.counter("link_rx_dropped_total", reason="udp_checksum")), (0, 0))
        # Kernels leave checksums on a veth to a device that is not there (E-23).
        self.assertGreater(c.counter("link_rx_unfinished_checksums_total"), 0)
        self.terminate("server")
        self.terminate("router")

    def test_a_router_on_af_packet(self):
        self.cut_trains("router")
        self.dpdk_router("net_af_packet0,iface=eth0", "--dpdk-checksums=unfinished")

    def test_a_router_on_af_xdp(self):
        self.dpdk_router("net_af_xdp0,iface=eth0,busy_budget=0")

    def test_a_router_on_two_threads_with_a_queue_each(self):
        """The kernel deals the packets out to both queues by flow; --dpdk-queues follows from the port."""
        self.cut_trains("router")
        self.dpdk_router("net_af_packet0,iface=eth0,qpairs=2", "--threads=2", "--dpdk-checksums=unfinished")
        with open(self.path("router.log")) as f:
            log = f.read()
        self.assertNotIn("take turns to send", log)
        self.assertIn("to queue 1 (rte_flow", log)

    def dpdk_server(self, port, *options):
        """A server on this port takes what sockets of the kernel send it, trains of several packets included."""
        self.give_to_dpdk("server")
        document = self.network_document(["server"])
        self.run_program("router", "router", "bobtail-router", "--config=" + document)
        self.run_program("server", "server", "bobtail-serve", "--config=" + document, "--workers=2", "--driver=dpdk",
                         "--dpdk-port=" + port, "--dpdk-buffers=4096", "--service-time=fixed:200us", *options)
        self.wait_joined("router", 2)
        self.answered(self.load_inside, 1, "--verify", "--connections=2", PATIENCE)
        self.answered(self.load_inside, 1, "--verify", "--request-bytes=5000", PATIENCE, rate=50)

    def test_a_server_on_af_packet(self):
        self.cut_trains("server")
        self.dpdk_server("net_af_packet0,iface=eth0", "--dpdk-checksums=unfinished")

    def test_a_server_on_af_xdp(self):
        self.dpdk_server("net_af_xdp0,iface=eth0,busy_budget=0")

    def test_r13_an_mtu_the_interface_does_not_have_is_refused(self):
        ip_command("-n", self.tag + "server", "link", "set", "eth0", "mtu", "1400")
        own = ("--address=%s%d" % (NET, self.HOSTS["server"]), "--driver=dpdk", "--dpdk-port=net_af_packet0,iface=eth0",
               "--dpdk-buffers=4096", "--dpdk-hugepages=off", "--ctl=")
        programs = (("bobtail-serve",), ("bobtail-router",), ("bobtail-load", "--target=" + NET + "9:8000"))
        for name, *more in programs:
            p = subprocess.run([*self.inside("server"), program(name), *own, *more, "--mtu=1401"], capture_output=True,
                               text=True, timeout=60)
            self.assertEqual(p.returncode, 1, p.stderr)
            self.assertIn("--mtu=1401: the DPDK port sends at most 1400 bytes", p.stderr)


@unittest.skipUnless(os.geteuid() == 0 and os.path.exists(SWITCH),
                     "network namespaces need root, and this build DPDK")
class XdpInterface(NamespaceBed):
    """A port on af_xdp owns its interface: with what privilege, since when, and until when."""
    HOSTS = {"client": 10, "router": 20, "server": 30}
    CAPABILITIES = ("net_raw", "net_admin", "bpf", "ipc_lock")

    def setUp(self):
        super().setUp()
        ip_command("-n", self.tag + "router", "addr", "flush", "dev", "eth0")
        self.document_path = self.network_document(["server"])

    def router_command(self, capabilities=CAPABILITIES, name="router", ctl="router.sock"):
        kept = ",".join(["-all", *("+" + c for c in capabilities)])
        return [*self.inside(name), "setpriv", "--bounding-set=" + kept, "--inh-caps=-all", "--no-new-privs",
                program("bobtail-router"), "--address=%s%d" % (NET, self.HOSTS["router"]), "--key-dir=" + self.path("keys"),
                "--config=" + self.document_path, "--ctl=" + (self.path(ctl) if ctl else ""), "--driver=dpdk",
                "--dpdk-port=net_af_xdp0,iface=eth0,busy_budget=0", "--dpdk-buffers=8192", "--dpdk-hugepages=off"]

    def refusal(self, **how):
        p = subprocess.run(self.router_command(ctl=None, **how), capture_output=True, text=True, timeout=60)
        self.assertEqual(p.returncode, 1, p.stderr)
        return p.stderr

    def link(self, host="router"):
        out = subprocess.run([*self.inside(host), "ip", "-j", "-d", "link", "show", "dev", "eth0"], check=True, capture_output=True, text=True)
        return json.loads(out.stdout)[0]

    def attach_another(self):
        ip_command("-n", self.tag + "router", "link", "set", "dev", "eth0", "xdp", "obj", PROGRAM, "sec", "xdp")

    def test_four_capabilities_do_and_a_killed_one_is_followed(self):
        self.run_program("server", "server", "bobtail-serve", "--config=" + self.document_path, "--workers=2", "--drain-quiet=100ms")
        for life in range(2):
            self.start("router", self.router_command())
            self.wait_joined("router", 2)
            self.answered(self.load_inside, 0.5, "--verify", PATIENCE)
            link = self.link()
            self.assertEqual((link["ifalias"], link["xdp"]["prog"]["name"]), ("bobtail-af-xdp", "xsk_redirect"))
            if life == 0:
                self.kill("router")
                os.unlink(self.path("router.sock"))
                self.assertIn("xdp", self.link(), "the kernel keeps the program of a killed process: else nothing is tested")
        self.terminate("router")
        link = self.link()
        self.assertFalse("xdp" in link or "ifalias" in link, link)

    def test_a_capability_that_is_missing_is_named(self):
        for missing in self.CAPABILITIES:
            said = self.refusal(capabilities=[c for c in self.CAPABILITIES if c != missing])
            self.assertIn("CAP_" + missing.upper(), said)
            self.assertNotIn("xdp", self.link())

    def test_the_program_of_somebody_else_stays(self):
        self.attach_another()
        theirs = self.link()["xdp"]["prog"]["id"]
        self.assertIn("XDP program %d on its interface is somebody else's" % theirs, self.refusal())
        link = self.link()
        self.assertEqual(link["xdp"]["prog"]["id"], theirs)
        self.assertNotIn("ifalias", link)

    def test_an_alias_of_somebody_else_stays(self):
        ip_command("-n", self.tag + "router", "link", "set", "dev", "eth0", "alias", "uplink of rack 7")
        self.start("router", self.router_command())
        self.ctl("router").state()
        link = self.link()
        self.assertEqual((link["ifalias"], link["xdp"]["prog"]["name"]), ("uplink of rack 7", "xsk_redirect"))
        self.terminate("router")
        link = self.link()
        self.assertEqual(link["ifalias"], "uplink of rack 7")
        self.assertNotIn("xdp", link)

    def test_a_program_of_the_users_own_is_taken_and_nothing_else_done(self):
        """Attached by the driver, whose claim and mark it has none of."""
        command = [a + ",xdp_prog=" + PROGRAM if a.startswith("--dpdk-port=") else a for a in self.router_command()]
        self.start("router", command)
        self.ctl("router").state()
        link = self.link()
        self.assertEqual(link["xdp"]["prog"]["name"], "xsk_redirect")
        self.assertNotIn("ifalias", link)
        self.terminate("router")
        self.assertNotIn("xdp", self.link())

    def test_one_port_an_interface(self):
        self.start("router", self.router_command())
        self.ctl("router").state()
        mine = self.link()["xdp"]["prog"]["id"]
        self.assertIn("another process has a port on its interface", self.refusal())
        self.assertEqual(self.link()["xdp"]["prog"]["id"], mine)
        self.terminate("router")


if __name__ == "__main__":
    main()
