# SPDX-License-Identifier: Apache-2.0
"""Cycles an RPC spends in each stage of the router, generator not timed (dataplane/bench/bench_stages.c)."""
import json
import statistics
import time

import machine
import stats

# What each is: in the remarks of its row.
STAGES = {
    "request": "bt_router_requests, everything in it",
    "feedback": "bt_router_feedback, everything in it: it cannot be taken apart",
    "parse": "of request, stage by stage over a batch: is it plain, who sent it, arrival counted",
    "decide": "the worker chosen, its queue longer",
    "rewrite": "option and addresses, of both ends",
    "forward": "counted, its times noted, the pair watched, put into the queue to be sent",
    "index_chained": "the load index alone, FEEDBACK's update and a decision, each on what the last one left",
    "index_overlapped": "the same on eight indexes in turn: the last one need not be waited for",
    "clock": "an empty measurement, in each of these",
}


def calibration(procs):
    """Round trip of a cache line between two processors, ns."""
    return json.loads(procs.run("calibrate", [machine.bench("bench_calibrate"), 100], 20))["roundTripNanoseconds"]


def figures(runs):
    note = f"{len(runs)} runs; cache line between processors {min(r['calibration'] for r in runs):.0f} .. {max(r['calibration'] for r in runs):.0f} ns"
    value, interval = stats.summary(runs, lambda rs: statistics.median(r["rpc"] for r in rs))
    rows = [{"name": "router_cycles_per_rpc", "value": value, "interval": interval, "note": note}]
    for stage, what in STAGES.items():
        value, interval = stats.summary(runs, lambda rs, s=stage: statistics.median(r[s] for r in rs))
        rows.append({"name": f"router_cycles_per_rpc_{stage}", "value": value, "interval": interval, "unit": "cycles", "note": what})
    value, interval = stats.summary(runs, lambda rs: statistics.median(r["rpc"] / r["cyclesPerNanosecond"] for r in rs))
    rows.append({"name": "router_ns_per_rpc", "value": value, "interval": interval, "unit": "ns",
                 "note": "the same in time; cycles are the time-stamp counter's, not the core's"})
    return rows


def measure(ctx):
    runs = []
    with machine.Processes(ctx.logs / "stages") as procs:
        for _ in range(5 if ctx.quick else 15):
            one = json.loads(procs.run("stages", [machine.bench("bench_stages"), 20000], 60, cpus=str(machine.CPUS - 1)))
            runs.append({**one, "calibration": calibration(procs)})
            ctx.say("  " + "  ".join(f"{s} {one[s]:.0f}" for s in (*STAGES, "rpc")) + f" cycles; calibration {runs[-1]['calibration']:.0f} ns")
            time.sleep(0.2)
    return {"runs": runs}


def rows(raw):
    return figures(raw["runs"])
