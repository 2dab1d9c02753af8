#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Flow control by waiting time, end to end: real clients, routers and servers (F-13, F-18, F-31, F-40, F-48, F-49).

Workers sleep for a request, so what they can do does not depend on how busy the machine is.
"""
import os
import unittest

import bed

FLOW = {"waitMicroseconds": 15000, "percentilePer100000": 99000, "model": "Refined"}
WORKERS = 4
SERVICE_MS = 2
CAPACITY = WORKERS * 1000 // SERVICE_MS
LEARNT = 1000  # services of a worker, before anything is throttled (F-12)


class FlowControl(bed.Bed):
    def serving(self, *routers, flow=FLOW, **service):
        """One server with so many workers, and routers; the address that clients use."""
        service.update({"flowControl": flow} if flow else {})
        self.cluster([1], list(routers), "--service-time=fixed:%dms" % SERVICE_MS, workers=WORKERS, **service)

    def learn(self, targets):
        """Plain load until every worker has seen enough to judge."""
        c = self.ctl("server-1")
        load = self.start_process("learn", self.load_command(targets, 1.2 * CAPACITY, 600, "--connections=8"))
        bed.wait_for("rho* is known", lambda: c.state().get("flowControl", {}).get("admittedMillionths", 0) > 0)
        bed.wait_for("it throttles", lambda: c.state()["flowControl"]["throttling"])
        load.terminate()
        load.communicate(timeout=90)

    def test_f40_what_would_wait_is_not_sent_and_so_not_dropped(self):
        """At 1.5 times what the workers can do, the same load with and without try_send, one after the other."""
        self.serving(2, centralQueueLimit=20, maxQueueMilliseconds=100)
        self.learn([2])
        dropped = {"plain": 0, "tried": 0}
        for _ in range(2):
            for kind in dropped:
                tries = ["--flow-control"] if kind == "tried" else []
                r = self.load([2], 1.5 * CAPACITY, 3, "--connections=4", "--warmup=500ms", *tries)
                self.assertEqual((r["lost"], r["timeouts"], r["errors"]), (0, 0, 0), r)
                dropped[kind] += r["dropped"] / r["offered"]
                print(kind, {k: r[k] for k in ("offered", "sent", "completed", "dropped", "heldBack")},
                      r["percentilesMicroseconds"], self.ctl("server-1").state()["flowControl"], flush=True)
        self.assertGreater(dropped["plain"], 0.2)
        print("fc_drops_ratio %.3f" % (dropped["tried"] / dropped["plain"]))


if __name__ == "__main__":
    unittest.main()
