#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Flow control by waiting time, end to end: real clients, routers and servers (F-13, F-31, F-40, F-49).

Workers sleep for a request, so what they can do hardly depends on how busy the machine is. hack/test/fc_drops.py
measures on the same bed.
"""
import bed

FLOW = {"waitMicroseconds": 15000, "percentilePer100000": 99000, "model": "Refined"}
WORKERS = 4
SERVICE_MS = 2
CAPACITY = WORKERS * 1000 // SERVICE_MS
# So many clients can be held to what the workers can do: the longest silence is 32.767 ms.
CLIENTS = 4


class Bed(bed.Bed):
    def serving(self, flow=FLOW, **service):
        """One server and one router, at ip(2)."""
        service.update({"flowControl": flow} if flow else {})
        self.cluster([1], [2], "--service-time=fixed:%dms" % SERVICE_MS, workers=WORKERS, **service)

    def flow(self, server="server-1"):
        return self.ctl(server).state().get("flowControl", {})

    def learn(self, targets=(2,), rate=1.2 * CAPACITY):
        """Plain load until the server has seen enough to throttle (F-12)."""
        load = self.start_process("learn", self.load_command(targets, rate, 600, "--connections=8"))
        c = self.ctl("server-1")

        def throttles():  # both of one state
            flow = c.state().get("flowControl", {})
            return flow.get("throttling") and flow["admittedMillionths"] > 0

        bed.wait_for("it throttles, and admits a load", throttles, 120)
        load.terminate()
        load.communicate(timeout=90)

    def tried(self, rate, seconds, targets=(2,), connections=CLIENTS):
        r = self.load(list(targets), rate, seconds, "--connections=%d" % connections, "--flow-control")
        self.assertEqual(r["offered"], r["completed"] + r["dropped"] + r["heldBack"] + r["lost"], r)
        return r


class FlowControl(Bed):
    def test_f40_what_would_wait_is_not_sent(self):
        """Through a router: clients that ask hold back, and the server says why (F-13, F-31)."""
        self.serving()
        self.learn()
        r = self.tried(1.5 * CAPACITY, 2)
        self.assertGreater(r["heldBack"], r["offered"] / 10, r)
        self.assertGreater(r["completed"], 20, r)
        f = self.flow()
        self.assertGreater(f["silences"], 0, f)
        self.assertGreaterEqual(f["clients"], CLIENTS, f)
        c = self.ctl("server-1")
        self.assertEqual(c.counter("server_flow_silences_total"), f["silences"])
        self.assertGreater(c.counter("server_flow_signals_total"), 0)
        self.assertEqual(c.counter("server_flow_admitted_millionths") > 0, True)

    def test_f49_a_document_without_it_ends_it(self):
        """And then who asks is held back by nobody."""
        self.serving()
        self.learn()
        c = self.ctl("server-1")
        self.assertTrue(c.apply(self.document([1], [2], WORKERS))["ok"])
        self.assertEqual(self.flow(), {})
        signals = c.counter("server_flow_signals_total")
        # One request at a time for each worker would hold two of three back; now only what comes before the first answer.
        r = self.tried(3 * CAPACITY, 2, connections=1)
        self.assertEqual(c.counter("server_flow_signals_total"), signals)
        self.assertEqual(r["dropped"], 0, r)
        self.assertLess(r["heldBack"], r["offered"] / 2, r)

    def test_f49_threads_that_serve_themselves_without_a_router(self):
        """bobtail/serve.h's threads measure when a handler began and ended; past its tokens a client is refused."""
        self.start_server(1, "--mode=work-stealing", "--threads=1", "--service-time=fixed:500us", "--wait=2ms",
                          "--wait-percentile=0.9", "--wait-model=paper", workers=1)
        self.ctl("server-1")
        self.learn([1], 2500)
        r = self.tried(2500, 2, [1])
        self.assertGreater(r["heldBack"], 0, r)
        self.assertGreaterEqual(self.flow()["serviceNanoseconds"], 450000)


if __name__ == "__main__":
    bed.main()
