# SPDX-License-Identifier: Apache-2.0
"""The control protocol against running programs: configurations apply whole or not at all, the
last good one survives, servers join and leave by it."""
import json
import pathlib
import signal
import subprocess
import threading

from bed import BUILD, Bed, Ctl, OTHER_KEY, ip, main, program, wait_for


class Control(Bed):
    def test_hello_names_role_version_and_incarnation(self):
        self.start_router(1)
        self.start_server(2)
        version = subprocess.run([program("bobtail-router"), "--version"], capture_output=True, text=True).stdout.split()[1]
        for name, role in (("router-1", "router"), ("server-2", "server")):
            h = self.ctl(name).ask("hello")
            self.assertEqual((h["ok"], h["role"], h["version"]), (True, role, version))
            self.assertEqual(h["pid"], self.processes[name].pid)
            first = h["incarnation"]
            self.terminate(name)
            self.start_router(1) if role == "router" else self.start_server(2)
            self.assertGreater(self.ctl(name).ask("hello")["incarnation"], first)

    def test_k30_a_router_that_hangs_is_told_from_one_that_runs(self):
        """K-30: what the probes of its pod ask is answered by the packet loop, and by nobody else."""
        self.start_router(1)
        self.ctl("router-1")  # it listens
        asked = [program("bobtail-router"), "--alive=" + self.path("router-1.sock")]
        self.assertEqual(subprocess.run(asked).returncode, 0)
        self.processes["router-1"].send_signal(signal.SIGSTOP)
        try:
            hangs = subprocess.run(asked, capture_output=True, text=True, timeout=60)
        finally:
            self.processes["router-1"].send_signal(signal.SIGCONT)
        self.assertEqual((hangs.returncode, "the program hangs" in hangs.stderr), (1, True), hangs.stderr)
        self.assertEqual(subprocess.run(asked).returncode, 0)
        gone = subprocess.run([program("bobtail-router"), "--alive=/nonexistent"], capture_output=True, text=True)
        self.assertEqual((gone.returncode, gone.stderr), (1, "/nonexistent: connect: No such file or directory\n"))

    def test_r4_transparent_keeps_to_one_family(self):
        self.start_router(1)
        document = self.document([2], [1], forwarding="Transparent")
        document["members"][0]["address"] = "fd00::2"
        error = self.ctl("router-1").apply(document)["error"]
        self.assertEqual(error["field"], "service.forwarding", error)
        self.assertIn("IPv4; fd00::2 is not", error["message"])

    def test_everything_configured_over_the_socket(self):
        """As the sidecars do it: bare processes, then one document for all."""
        self.start_server(1)
        self.start_router(2)
        self.ctl("router-2")  # it listens
        result = self.load([2], 50, 0.3)
        self.assertEqual(result["dropped"], result["offered"])
        document = self.document([1], [2])
        for name in ("server-1", "router-2"):
            c = self.ctl(name)
            self.assertEqual(c.state()["hash"], "")
            r = c.apply(document)
            self.assertEqual((r["ok"], r["unchanged"]), (True, False), r)
            self.assertEqual(c.state()["hash"], r["hash"])
            self.assertTrue(c.apply(document)["unchanged"])
        self.wait_joined("router-2", 2)
        self.answered(self.load, [2], 200, 0.5, "--verify")
        heard = self.ctl("server-1").state()["routers"]
        self.assertEqual([r["address"] for r in heard], [ip(2) + ":8000"])
        self.assertGreaterEqual(heard[0]["heardMillisecondsAgo"], 0)

    def test_a_rejected_document_names_its_field_and_changes_nothing(self):
        self.cluster([1], [2])
        c = self.ctl("router-2")
        before = c.state()["hash"]
        p = self.start_load([2], 200, 2, "--verify")
        for change, field in ((dict(workerQueueDepth=0), "service.workerQueueDepth"),
                              (dict(policy="FIFO"), "service.policy"),
                              (dict(policy="JSQ", holdBack={"packets": 4, "microseconds": 10}), "service.holdBack"),
                              (dict(colour="red"), "service.colour")):
            r = c.apply(self.document([1], [2], **change))
            self.assertFalse(r["ok"])
            self.assertEqual(r["error"]["code"], "InvalidConfig")
            self.assertTrue(r["error"]["field"].startswith(field), r)
        r = c.apply(self.document([1], [2], keys=(7,)))
        self.assertEqual(r["error"]["field"], "keyIds[0]")
        r = c.apply(self.document([1, 2], [2]))  # a router cannot be its own worker
        self.assertEqual(r["error"]["field"], "members")
        self.assertIn(ip(2) + ":8000 is the router's own", r["error"]["message"])
        self.assertEqual(c.state()["hash"], before)
        self.assert_all_answered(self.finish_load(p))

    def test_large_documents_come_by_sealed_memfd(self):
        self.start_router(1)
        c = self.ctl("router-1")
        document = self.document([], [1])
        document["members"] = [{"address": "10.1.%d.%d" % (n // 200, n % 200 + 1), "firstPort": 8000, "workers": 1,
                                "name": "server-%04d-%s" % (n, "x" * 40)} for n in range(1024)]
        self.assertGreater(len(json.dumps(document)), 60 * 1024)
        r = c.apply(document)
        self.assertEqual(r["error"]["code"], "InvalidRequest")
        r = c.apply(document, memfd=True, seal=False)
        self.assertEqual(r["error"]["field"], "memfd")
        self.assertEqual(c.state()["hash"], "")
        r = c.apply(document, memfd=True)
        self.assertTrue(r["ok"], r)
        self.assertEqual(len(c.state()["members"]), 1024)

    def test_the_last_good_configuration_survives_restarts(self):
        """Rule 3 of the design: a restarted container serves with no control plane."""
        cache = {n: "--config-cache=" + self.path("cache-%d.json" % n) for n in (1, 2)}
        self.start_server(1, cache[1])
        self.start_router(2, cache[2])
        for name in ("server-1", "router-2"):
            self.assertTrue(self.ctl(name).apply(self.document([1], [2]))["ok"])
            self.assertFalse(self.ctl(name).apply(self.document([1], [2], workerQueueDepth=99))["ok"])
        self.kill("server-1")
        self.kill("router-2")
        self.start_server(1, cache[1])
        self.start_router(2, cache[2])
        self.wait_joined("router-2", 2)
        self.answered(self.load, [2], 200, 0.5, "--verify")
        self.kill("router-2")
        with open(self.path("cache-2.json"), "w") as f:
            f.write('{"apiVersion":')  # a broken cache is said and passed over, not fatal
        self.start_router(2, cache[2])
        self.assertEqual(self.ctl("router-2").state()["hash"], "")
        log = pathlib.Path(self.path("router-2.log"))
        wait_for("it is said", lambda: "is not used" in log.read_text())

    def test_members_come_and_go_under_load(self):
        self.cluster([1, 2], [3], "--service-time=fixed:1ms")
        c = self.ctl("router-3")
        p = self.start_load([3], 300, 4, "--verify")
        for servers in ([1], [1, 2], [2], [1, 2]):
            self.assertTrue(c.apply(self.document(servers, [3]))["ok"])
            self.wait_joined("router-3", 2 * len(servers))
        self.assert_all_answered(self.finish_load(p))

    def test_n_changes_reach_the_routers(self):
        self.cluster([1], [2])
        for depth in (1, 7, 3):
            for name in ("router-2", "server-1"):
                self.assertTrue(self.ctl(name).apply(self.document([1], [2], workerQueueDepth=depth))["ok"])
            c = self.ctl("router-2")
            wait_for("n is %d" % depth, lambda: [m["n"] for m in c.state()["members"]] == [depth] * 2)

    def test_r57_keys_rotate_without_a_gap(self):
        self.cluster([1], [2], "--service-time=fixed:1ms")
        self.write_key(OTHER_KEY, key_id=2)
        p = self.start_load([2], 200, 4, "--verify")
        # Everybody learns the new key, then signs with it, then forgets the old one.
        for keys in ((1, 2), (2, 1), (2,)):
            for name in ("router-2", "server-1"):
                self.assertTrue(self.ctl(name).apply(self.document([1], [2], keys=keys))["ok"])
        self.assert_all_answered(self.finish_load(p))
        self.wait_joined("router-2", 2)
        self.assertEqual(self.ctl("router-2").counter("router_discarded_total"), 0)

    def test_leave_is_seen_by_routers_and_ends_with_an_empty_backlog(self):
        self.cluster([1, 2], [3], "--service-time=fixed:30ms")
        p = self.start_load([3], 30, 3)
        c = self.ctl("server-1")
        wait_for("server-1 has work", lambda: c.state()["backlog"] > 0)
        self.assertTrue(c.ask("leave")["draining"])
        self.assertTrue(c.ask("leave")["draining"])  # asking twice is asking once
        self.wait_joined("router-3", 2)
        wait_for("the backlog is done", lambda: c.state()["backlog"] == 0)
        self.assertTrue(c.state()["draining"])
        self.assert_all_answered(self.finish_load(p))
        self.assertIsNone(self.processes["server-1"].poll(), "leave alone does not end the process")
        self.terminate("server-1")

    def test_the_generator_answers_too(self):
        self.start_server(1)
        self.ctl("server-1")
        self.start_lasting_load([1], 200)
        c = self.ctl("load")
        self.assertEqual(c.ask("hello")["role"], "load")
        wait_for("it counts", lambda: c.counter("client_requests_ended_total", result="success") > 50)
        self.assertGreater(c.ask("histogram", name="latency", windowSeconds=60)["histogram"]["total"], 50)
        self.assertEqual(c.apply({})["error"]["code"], "InvalidRequest")
        self.assert_all_answered(self.end_load())

    def test_r225_a_router_tells_latencies_of_each_class_and_of_what_it_marked(self):
        self.cluster([1], [3])
        router = self.ctl("router-3")
        for name in [*("class%d" % n for n in range(8)), "marked"]:
            self.assertTrue(router.ask("histogram", name=name)["ok"], name)
        for name in ("class8", "class00", "class", "Marked", "marked0"):
            self.assertEqual(router.ask("histogram", name=name, windowSeconds=1)["error"]["code"], "UnknownHistogram", name)

    def test_many_askers_at_once_do_not_disturb_serving(self):
        """The control thread and the packet loop share nothing but the mailbox (run under TSan)."""
        self.cluster([1, 2], [3], "--service-time=exp:1ms")
        p = self.start_load([3], 300, 3, "--verify")
        errors = []

        def pester(name):
            try:
                c = Ctl(self.path(name + ".sock"))
                while p.poll() is None:
                    for reply in (c.state(), c.ask("counters"), c.ask("histogram", name="latency", windowSeconds=600),
                                  c.apply(self.document([1, 2], [3], workerQueueDepth=3))):
                        if not reply["ok"]:
                            errors.append(reply)
                c.close()
            except Exception as e:  # pylint: disable=broad-except
                errors.append(e)

        threads = [threading.Thread(target=pester, args=(n,)) for n in ("router-3", "router-3", "server-1", "server-2")]
        for t in threads:
            t.start()
        result = self.finish_load(p)
        for t in threads:
            t.join()
        self.assertEqual(errors, [])
        self.assert_all_answered(result)


if __name__ == "__main__":
    assert BUILD
    main()
