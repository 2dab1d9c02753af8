#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers that their configuration tells how many cores they use (D-3, D-4, D-6), end to end: real clients, a router
and a server. What is waited for is what the server says; no test has a time in which something must have happened.
"""
import os
import unittest

import bed

PROCESSORS = len(os.sched_getaffinity(0))
RATE = 400


def asked(mode="WorkStealing", **change):
    """A `scheduling` of the document."""
    return {"mode": mode, "batchSize": 16, "minCores": 1, "maxCores": PROCESSORS, "ordering": "PerRequest", **change}


def threads(pid):
    return [int(t) for t in os.listdir("/proc/%d/task" % pid)]


def allow(pid, processors):
    """What a change of its cpuset does to a process: all of its threads may use these, and those that it starts, too."""
    for t in threads(pid):
        os.sched_setaffinity(t, processors)


class Scheduling(bed.Bed):
    def serving(self, lanes=1, mode="WorkStealing", scheduling=None, **options):
        """One server and one router, at ip(2); returns the server's control socket."""
        document = self.write_document(self.document([1], [2], lanes, scheduling=scheduling or asked(mode)))
        self.start_server(1, "--config=" + document, "--service-time=fixed:500us", workers=lanes,
                          prefix=("env", "-u", "BOBTAIL_SERVE_MODE", "BOBTAIL_SCHEDULING=" + mode), **options)
        self.start_router(2, "--config=" + document)
        self.wait_joined("router-2", lanes)
        return self.ctl("server-1")

    def says(self, c):
        return c.state().get("scheduling", {})

    def change(self, c, lanes=1, **change):
        """Another document for server and router."""
        document = self.document([1], [2], lanes, scheduling=asked(**change))
        for who in (c, self.ctl("router-2")):
            reply = who.apply(document)
            self.assertTrue(reply["ok"], reply)

    def test_d6_threads_that_run_follow_the_document(self):
        """Least and most are the document's, at most as many as there are processors; nothing is lost meanwhile."""
        c = self.serving(scheduling=asked(minCores=1, maxCores=1))
        got = self.says(c)
        self.assertEqual((got["mode"], got["lanes"], got["processors"]), ("WorkStealing", 1, PROCESSORS), got)
        self.start_lasting_load([2], RATE, "--connections=4")
        for least, most in ((PROCESSORS, PROCESSORS), (1, 1), (1, 64), (64, 64), (1, 1)):
            self.change(c, minCores=least, maxCores=most)
            bed.wait_for("the least is %d and the most %d" % (least, most), lambda a=least, b=most: (
                self.says(c)["minCores"], self.says(c)["maxCores"]) == (min(a, PROCESSORS), min(b, PROCESSORS)))
            bed.wait_for("so many run", lambda: self.says(c)["minCores"] <= self.says(c)["activeCores"] <= self.says(c)["maxCores"])
        self.assertEqual(self.says(c)["parks"] > 0, PROCESSORS > 1)
        self.assert_all_answered(self.end_load())
        self.assertGreater(self.says(c)["longestNanoseconds"], 400000)
        self.assertEqual(c.counter("server_threads_allowed"), 1)

    def test_d6_a_cpuset_is_followed_under_load(self):
        """Processors are taken away and given back; threads are parked and run, and nothing is lost."""
        if PROCESSORS < 2:
            self.skipTest("one processor cannot be taken away")
        c = self.serving(scheduling=asked(minCores=2, maxCores=2))
        pid = self.processes["server-1"].pid
        every = os.sched_getaffinity(0)
        bed.wait_for("two run", lambda: self.says(c)["activeCores"] == 2)
        self.start_lasting_load([2], RATE, "--connections=4")
        for processors in ({min(every)}, every):
            allow(pid, processors)
            bed.wait_for("it follows", lambda p=processors: (self.says(c)["processors"], self.says(c)["activeCores"]) == (len(p), min(2, len(p))))
        self.assert_all_answered(self.end_load())

    def test_d3_lanes(self):
        """A port for each lane, and each has a thread at least; to completion a port for each core."""
        c = self.serving(lanes=2, scheduling=asked(minCores=1, maxCores=20))
        bed.wait_for("one runs in each lane", lambda: self.says(c)["activeCores"] >= 2)
        self.assertEqual((self.says(c)["lanes"], len(c.state()["workers"])), (2, 2))
        self.answered(self.load, [2], RATE, 1)

    def test_d3_to_completion(self):
        c = self.serving(lanes=3, mode="RunToCompletion", scheduling=asked("RunToCompletion", minCores=3, maxCores=3, batchSize=1))
        got = self.says(c)
        self.assertEqual((got["mode"], got["lanes"], got["activeCores"]), ("RunToCompletion", 3, 3), got)
        self.answered(self.load, [2], RATE, 1)
        self.change(c, lanes=3, mode="WorkStealing", minCores=1, maxCores=1)  # it is about to be replaced
        self.assertEqual(self.says(c)["activeCores"], 3)
        self.answered(self.load, [2], RATE, 1)

    def test_d4_in_order_by_client(self):
        """The document says so, and requests of one client are still answered."""
        self.serving(scheduling=asked(ordering="PerClient", minCores=PROCESSORS))
        self.answered(self.load, [2], RATE, 1, "--connections=1")

    def test_a_server_that_nobody_told_says_nothing(self):
        """One that knows nothing of it takes the document and serves as without it."""
        document = self.write_document(self.document([1], [2], 1, scheduling=asked()))
        self.start_server(1, "--config=" + document, workers=1, prefix=("env", "-u", "BOBTAIL_SERVE_MODE"))
        self.start_router(2, "--config=" + document)
        self.wait_joined("router-2", 1)
        self.assertNotIn("scheduling", self.ctl("server-1").state())

    def test_bad_words_in_the_environment(self):
        for value, workers, word in (("Fifo", 1, "must be RunToCompletion or WorkStealing"), ("WorkStealing", 5, "must be 1..4")):
            p = self.start_server(1, workers=workers, name="bad-%d" % workers, prefix=("env", "-u", "BOBTAIL_SERVE_MODE", "BOBTAIL_SCHEDULING=" + value))
            self.assertEqual(p.wait(timeout=60), 2)
            with open(self.path("bad-%d.log" % workers)) as f:
                self.assertIn(word, f.read())


if __name__ == "__main__":
    unittest.main(verbosity=2)
