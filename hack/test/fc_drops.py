#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many DROPs flow control spares: make fc-drops.

At 1.5 times what the workers can do, the same load with and without try_send, one after the other, on real processes
over loopback. fc_drops_ratio is the share of offered requests that got DROP with it, over that without. Holding
everything back would be no art: fc_completed_ratio is what was served with it, over what was served without.
"""
import json
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../dataplane/tests/apps"))
import test_flow_control as flow_control  # noqa: E402  (where it stands is known only now)

ROUNDS, SECONDS = 3, 3
measured = {}


class Drops(flow_control.Bed):
    def test_drops(self):
        self.serving(centralQueueLimit=20, maxQueueMilliseconds=100)
        self.learn()
        dropped, completed = {"plain": 0.0, "tried": 0.0}, {"plain": 0.0, "tried": 0.0}
        for _ in range(ROUNDS):
            for kind in dropped:
                tries = ["--flow-control"] if kind == "tried" else []
                r = self.load([2], 1.5 * flow_control.CAPACITY, SECONDS, "--warmup=500ms",
                              "--connections=%d" % flow_control.CLIENTS, *tries)
                dropped[kind] += r["dropped"] / r["offered"]
                completed[kind] += r["completed"] / r["offered"]
                print("%-5s offered %5d  sent %5d  completed %5d  dropped %5d  held back %5d  lost %d" % (
                    kind, r["offered"], r["sent"], r["completed"], r["dropped"], r["heldBack"], r["lost"]), flush=True)
        self.assertGreater(dropped["plain"], 0.1 * ROUNDS, "nothing was overloaded")
        measured["fc_drops_ratio"] = dropped["tried"] / dropped["plain"]
        measured["fc_completed_ratio"] = completed["tried"] / completed["plain"]


def main():
    where = [a.partition("=")[2] for a in sys.argv[1:] if a.startswith("--measurements=")]
    ok = unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful()
    for name, value in measured.items():
        print("%s %.3f" % (name, value))
    if where:
        os.makedirs(os.path.dirname(where[0]) or ".", exist_ok=True)
        with open(where[0], "w") as f:
            json.dump([{"name": n, "unit": "ratio", "value": round(v, 4)} for n, v in measured.items()], f)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
