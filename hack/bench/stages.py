# SPDX-License-Identifier: Apache-2.0
"""Cycles an RPC spends in each stage of the router, generator not timed (dataplane/bench/bench_stages.c)."""
import json
import statistics
import time

import machine
import stats

STAGES = ("request", "feedback", "decide")


def calibration(procs):
    """Round trip of a cache line between two processors, ns."""
    return json.loads(procs.run("calibrate", [machine.bench("bench_calibrate"), 100], 20))["roundTripNanoseconds"]


def figures(runs):
    note = f"{len(runs)} runs; cache line between processors {min(r['calibration'] for r in runs):.0f} .. {max(r['calibration'] for r in runs):.0f} ns"
    value, interval = stats.summary(runs, lambda rs: statistics.median(r["rpc"] for r in rs))
    rows = [{"name": "router_cycles_per_rpc", "value": value, "interval": interval, "note": note}]
    for stage in STAGES:
        value, interval = stats.summary(runs, lambda rs, s=stage: statistics.median(r[s] for r in rs))
        rows.append({"name": f"router_cycles_per_rpc_{stage}", "value": value, "interval": interval, "unit": "cycles"})
    value, interval = stats.summary(runs, lambda rs: statistics.median(r["rpc"] / r["cyclesPerNanosecond"] for r in rs))
    rows.append({"name": "router_ns_per_rpc", "value": value, "interval": interval, "unit": "ns",
                 "note": "the same in time; cycles are the time-stamp counter's, not the core's"})
    return rows


def run(ctx):
    runs = []
    with machine.Processes(ctx.logs / "stages") as procs:
        for _ in range(5 if ctx.quick else 15):
            one = json.loads(procs.run("stages", [machine.bench("bench_stages"), 20000], 60, cpus=str(machine.CPUS - 1)))
            runs.append({**one, "calibration": calibration(procs)})
            ctx.say("  " + "  ".join(f"{s} {one[s]:.0f}" for s in (*STAGES, "rpc")) + f" cycles; calibration {runs[-1]['calibration']:.0f} ns")
            time.sleep(0.2)
    return figures(runs)
