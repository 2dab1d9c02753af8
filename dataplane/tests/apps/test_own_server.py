# SPDX-License-Identifier: Apache-2.0
"""A program of one's own on bobtail/serve.h in a pod's environment: it learns its routers by the control socket, says of
itself what a sidecar asks, and leaves without losing a request."""
import os
import subprocess
import unittest

from bed import BUILD, Bed, ip, main, sanitized, wait_for

OWN = os.path.join(BUILD, "tests", "apps", "own_server")
PROCESSORS = len(os.sched_getaffinity(0))


class OwnServer(Bed):
    def start_own(self, n, workers=2, **environment):
        name = "server-%d" % n
        env = {**sanitized(), "POD_IP": ip(n), "BOBTAIL_PORT": "8000", "BOBTAIL_WORKERS": str(workers),
               "BOBTAIL_CTL": self.path(name + ".sock"), "BOBTAIL_KEY_DIR": self.path("keys"),
               "BOBTAIL_CONFIG_CACHE": self.path(name + ".json"), **environment}
        with open(self.path(name + ".log"), "a") as log:
            self.processes[name] = subprocess.Popen([OWN], stdout=log, stderr=log, env=env)
        return name

    def own_cluster(self, servers, router):
        """Servers that are told of the router as a sidecar does it."""
        document = self.document(servers, [router])
        self.start_router(router, "--config=" + self.write_document(document))
        for n in servers:
            self.assertTrue(self.ctl(self.start_own(n)).apply(document)["ok"])
        self.wait_joined("router-%d" % router, 2 * len(servers))
        return document

    def test_it_serves_behind_a_router_and_is_measured(self):
        self.own_cluster([1], 2)
        result = self.answered(self.load, [2], 400, 1)
        self.assert_credits_return("router-2")
        c = self.ctl("server-1")
        state = c.state()
        self.assertEqual([w["port"] for w in state["workers"]], [8000, 8001])
        self.assertEqual([r["address"] for r in state["routers"]], [ip(2) + ":8000"])
        self.assertGreaterEqual(state["routers"][0]["heardMillisecondsAgo"], 0)
        self.assertGreaterEqual(c.counter("server_requests_total"), result["offered"])
        for name in ("latency", "service"):
            h = c.ask("histogram", name=name, windowSeconds=60)
            self.assertGreaterEqual(h["histogram"]["total"], result["offered"], h)

    def test_it_keeps_its_configuration(self):
        self.own_cluster([1], 2)
        self.kill("server-1")
        self.wait_joined("router-2", 0)
        self.start_own(1)
        self.wait_joined("router-2", 2)
        self.answered(self.load, [2], 200, 0.5)

    def test_it_leaves_without_losing_a_request(self):
        self.own_cluster([1, 3], 2)
        self.start_lasting_load([2], 300)
        c = self.ctl("server-1")
        wait_for("it serves", lambda: c.counter("server_requests_total") > 20)
        self.terminate("server-1")
        other = self.ctl("server-3")
        before = other.counter("server_requests_total")
        wait_for("the other one goes on", lambda: other.counter("server_requests_total") > before + 20)
        self.assert_all_answered(self.end_load())

    def own_cores(self, mode, workers, **change):
        """A server of a pod with spec.scheduling, behind a router; returns its control socket, and how to change it."""
        def document(**change):
            asked = {"mode": mode, "batchSize": 16, "minCores": 1, "maxCores": 1, "ordering": "PerRequest", **change}
            return self.document([1], [2], workers, scheduling=asked)

        self.start_router(2, "--config=" + self.write_document(document(**change)))
        c = self.ctl(self.start_own(1, workers, BOBTAIL_SCHEDULING=mode))

        def apply(**change):
            self.assertTrue(c.apply(document(**change))["ok"])

        apply(**change)
        self.wait_joined("router-2", workers)
        return c, apply

    def test_d6_it_uses_the_cores_that_its_service_gives_it(self):
        """A lane of 16 threads, of which as many run as the document says, and no more than there are processors."""
        c, apply = self.own_cores("WorkStealing", 1)
        says = lambda: c.state().get("scheduling", {})  # noqa: E731
        self.assertEqual((says().get("mode"), says().get("lanes"), says().get("processors")), ("WorkStealing", 1, PROCESSORS))
        self.start_lasting_load([2], 300, "--connections=4")
        for least, most in ((1, 1), (PROCESSORS, PROCESSORS), (1, 64), (1, 1)):
            apply(minCores=least, maxCores=most, ordering="PerClient" if most == 64 else "PerRequest")
            wait_for("cores %d to %d" % (least, most), lambda a=least, b=most: (
                says()["minCores"], says()["maxCores"]) == (min(a, PROCESSORS), min(b, PROCESSORS)))
            wait_for("so many run", lambda: says()["minCores"] <= says()["activeCores"] <= says()["maxCores"])
        self.assert_all_answered(self.end_load())
        self.assertEqual((c.counter("server_threads"), c.counter("server_threads_allowed")), (16, 1))

    def test_d3_a_core_is_a_port_to_completion(self):
        c, _ = self.own_cores("RunToCompletion", 3, minCores=3, maxCores=3)
        got = c.state()
        self.assertEqual((got["scheduling"]["mode"], got["scheduling"]["lanes"], len(got["workers"])), ("RunToCompletion", 3, 3))
        self.answered(self.load, [2], 300, 0.5)

    def test_f49_it_takes_the_flow_control_of_its_service(self):
        """What the document says is in force, and clients that ask are told; without it nobody is."""
        document = self.own_cluster([1], 2)
        c = self.ctl("server-1")
        self.assertNotIn("flowControl", c.state())
        document["service"]["flowControl"] = {"waitMicroseconds": 15000, "percentilePer100000": 99000, "model": "Paper"}
        self.assertTrue(c.apply(document)["ok"])
        self.assertIn("flowControl", c.state())
        r = self.load([2], 300, 0.5, "--flow-control")
        self.assertEqual(r["offered"], r["completed"] + r["dropped"] + r["heldBack"] + r["lost"], r)
        self.assertGreater(r["completed"], 0, r)
        self.assertGreater(c.counter("server_flow_signals_total"), 0)
        self.assertGreater(c.state()["flowControl"]["clients"], 0)
        del document["service"]["flowControl"]
        self.assertTrue(c.apply(document)["ok"])
        self.assertNotIn("flowControl", c.state())

    def test_what_is_refused(self):
        for mode, workers, words in (("Fifo", 1, "scheduling: must be RunToCompletion or WorkStealing; got \"Fifo\""),
                                     ("WorkStealing", 5, "threads: must be 1..4 with scheduling WorkStealing; got 5")):
            env = {**sanitized(), "POD_IP": ip(1), "BOBTAIL_PORT": "8000", "BOBTAIL_WORKERS": str(workers),
                   "BOBTAIL_CTL": self.path("refused.sock"), "BOBTAIL_SCHEDULING": mode}
            done = subprocess.run([OWN], env=env, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (1, words + "\n"))
        for path, words in (("/nonexistent/ctl.sock", "control: "), ("x" * 200, "control: ")):
            env = {**sanitized(), "POD_IP": ip(1), "BOBTAIL_PORT": "8000", "BOBTAIL_WORKERS": "1", "BOBTAIL_CTL": path}
            done = subprocess.run([OWN], env=env, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertTrue(done.stderr.startswith(words), done.stderr)


if __name__ == "__main__":
    main()
