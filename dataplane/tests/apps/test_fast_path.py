# SPDX-License-Identifier: Apache-2.0
"""What a router says of its program in the kernel (docs/decisions/0011): whether it decides, why not, and for each
packet that went through the sockets all the same, why."""
import os
import subprocess

from bed import Bed, main, program, wait_for


def admitted():
    """This kernel and this user may load programs: asked of the router itself, which ends when it may not."""
    p = subprocess.run([program("bobtail-router"), "--address=127.0.0.1", "--request-port=1", "--feedback-port=2", "--ctl=",
                        "--fast-path=require", "--config=/nonexistent"], capture_output=True, text=True)
    return "fast path: program attached" in p.stderr


class FastPath(Bed):
    def router(self, n, *options, **service):
        """A router with its program, servers with three workers each, and one document for all."""
        workers, servers = service.pop("workers", 3), service.pop("servers", [1])
        document = self.write_document(self.document(servers, [n], workers, **service))
        for server in servers:
            self.start_server(server, "--config=" + document, workers=workers)
        self.start_router(n, "--config=" + document, *options)
        return self.wait_joined("router-%d" % n, workers * len(servers))

    def says(self, c, reason):
        wait_for("the router says " + reason, lambda: c.state()["fastPath"]["reason"] == reason)
        state = c.state()["fastPath"]
        self.assertEqual(state["active"], reason == "Active", state)
        self.assertTrue(state["message"])
        return state

    def test_nobody_asked(self):
        c = self.router(2, "--fast-path=off")
        self.assertNotIn("fastPath", c.state())
        self.assertEqual(c.counter("router_fast_path"), 0)

    def test_what_cannot_be_loaded_is_told_and_everything_is_served(self):
        c = self.router(2, "--fast-path=auto", "--threads=2")
        self.assertIn("--threads=1", self.says(c, "NotLoaded")["message"])
        self.answered(self.load, [2], 200, 0.3, "--verify")
        self.assertEqual(c.counter("router_fast_path"), 0)

    def test_without_the_capabilities(self):
        """As in a pod that was not given them."""
        document = self.write_document(self.document([1], [2]))
        self.start_server(1, "--config=" + document)
        without = "-bpf,-net_admin,-sys_admin"
        prefix = ["setpriv", "--bounding-set=" + without, "--inh-caps=" + without] if os.geteuid() == 0 else []
        self.start_router(2, "--config=" + document, "--fast-path=auto", prefix=prefix)
        c = self.wait_joined("router-2", 2)
        self.assertIn("CAP_BPF and CAP_NET_ADMIN", self.says(c, "NotLoaded")["message"])
        self.answered(self.load, [2], 200, 0.3, "--verify")

    def test_active_and_every_packet_accounted_for(self):
        self.active(3)

    def test_more_workers_than_need_no_groups(self):
        self.active(25)

    def active(self, workers):
        if not admitted():
            self.skipTest("this kernel or this user may not load the program")
        c = self.router(2, "--fast-path=auto", workers=workers)
        self.says(c, "Active")
        wait_for("a load of which the program takes more than a quarter", lambda: self.mostly_taken(c))
        self.assertEqual(c.counter("router_fast_path_active"), 1)
        # Everything else came by the sockets, each packet with a reason; workers that are idle go on reporting meanwhile.
        wait_for("each packet of the sockets has a reason", lambda: c.counter("router_fast_path_sockets_total") == c.counter("io_rx_packets_total"))

    def mostly_taken(self, c):
        """A router that is not given a processor lends nothing meanwhile: beside other tests it was a third of a load, alone it is nearly all."""
        taken, forwarded = c.counter("router_fast_path_total", kind="request"), c.counter("router_forwarded_total")
        self.answered(self.load, [2], 400, 1, "--verify")
        return 4 * (c.counter("router_fast_path_total", kind="request") - taken) > c.counter("router_forwarded_total") - forwarded

    def test_what_the_configuration_leaves_to_the_router(self):
        if not admitted():
            self.skipTest("this kernel or this user may not load the program")
        c = self.router(2, "--fast-path=auto", policy="JSQ")
        self.says(c, "Policy")
        self.answered(self.load, [2], 200, 0.3, "--verify")
        self.assertGreaterEqual(c.counter("router_fast_path_sockets_total", reason="Policy"), 60)
        self.assertEqual(c.counter("router_fast_path_total"), 0)
        self.assertEqual(c.counter("router_fast_path_active"), 0)
        # The other way by a configuration alone: no restart.
        self.assertTrue(c.apply(self.document([1], [2], 3))["ok"])
        self.says(c, "Active")
        self.assertTrue(c.apply(self.document([1], [2], 3, holdBack={"packets": 4, "microseconds": 10}))["ok"])
        self.says(c, "Policy")
        self.assertTrue(c.apply(self.document([1], [2], 3, hedging={"mode": "LoadAware", "busyPercent": 50, "budgetPercent": 50,
                                                                    "percentilePer100000": 95000, "probePerMillion": 0}))["ok"])
        self.says(c, "Hedging")

    def test_too_many_workers(self):
        if not admitted():
            self.skipTest("this kernel or this user may not load the program")
        c = self.router(2, "--fast-path=auto", workers=33, servers=[1, 3])
        self.says(c, "TooManyWorkers")


if __name__ == "__main__":
    main()
