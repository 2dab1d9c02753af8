# SPDX-License-Identifier: Apache-2.0
"""A program of one's own on bobtail/serve.h in a pod's environment: it learns its routers by the control socket, says of
itself what a sidecar asks, and leaves without losing a request."""
import os
import subprocess
import unittest

from bed import BUILD, Bed, ip, main, sanitized, wait_for

OWN = os.path.join(BUILD, "tests", "apps", "own_server")


class OwnServer(Bed):
    def start_own(self, n, threads=2):
        name = "server-%d" % n
        env = {**sanitized(), "POD_IP": ip(n), "BOBTAIL_PORT": "8000", "BOBTAIL_WORKERS": str(threads),
               "BOBTAIL_CTL": self.path(name + ".sock"), "BOBTAIL_KEY_DIR": self.path("keys"),
               "BOBTAIL_CONFIG_CACHE": self.path(name + ".json")}
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

    def test_what_is_refused(self):
        for path, words in (("/nonexistent/ctl.sock", "control: "), ("x" * 200, "control: ")):
            env = {**sanitized(), "POD_IP": ip(1), "BOBTAIL_PORT": "8000", "BOBTAIL_WORKERS": "1", "BOBTAIL_CTL": path}
            done = subprocess.run([OWN], env=env, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertTrue(done.stderr.startswith(words), done.stderr)


if __name__ == "__main__":
    main()
