# SPDX-License-Identifier: Apache-2.0
"""What balancing costs a request: CRAB against HAProxy in TCP mode and NGINX's stream module.

Cost = (non-idle processor time of the whole machine with the balancer - without it) / requests, at one open-loop rate over
long connections; see proxy.py, whose rules for a disturbed run hold here too.
"""
import json
import time

import crab_bed
import machine
import pairs
import proxy

RATE = 10000
CONNECTIONS = 64
ROUNDS = 50  # what CRAB adds is a third of a microsecond, what a round of it tells is off by as much again
THEIRS = ("haproxy", "nginx_stream")
VARIANTS = ("direct", "crab", *THEIRS)
PARTS = {"direct": ("serve-service",), "crab": ("serve-server", "agent-client", "agent-lb", "agent-server"),
         "haproxy": ("serve-service", "haproxy"), "nginx_stream": ("serve-service", "nginx")}


def one_run(bed, variant, seconds, cpus):
    """Processor microseconds per request, of the machine and of the processes that have a part in it."""
    settle = 0.3
    load = bed.started(variant, "rate", CONNECTIONS, seconds + 2 * settle, RATE, cpus=cpus)
    time.sleep(settle)
    window = machine.Window([load.pid, *(bed.procs.running[p].pid for p in PARTS[variant])])
    time.sleep(seconds)
    spent = window.close()
    said = json.loads(bed.procs.finish("client", load, 30))
    bed.procs.check()
    requests = said["achievedRps"] * spent["wall"]
    return {"busy": spent["busy"] / requests * 1e6, "own": spent["own"] / requests * 1e6, "others": spent["others"], "rps": said["achievedRps"]}


def trouble(run):
    return proxy.trouble({**run, "rps": run["rps"] * proxy.RATE / RATE})


ADDED = {v: ("direct", v) for v in VARIANTS[1:]}


def figures(rounds, enough, suffix=""):
    rows = []
    for theirs in THEIRS:
        rows += proxy.both_rows(rounds, enough, f"crab_cpu_share_vs_{theirs}", suffix, (ADDED["crab"], ADDED[theirs]), f"{RATE} requests/s", "ratio")
    for variant, pair in ADDED.items():
        rows += proxy.both_rows(rounds, enough, f"crab_cpu_us_per_request_{variant}", suffix, (pair,), "more than direct", "us")
    return rows


def measure(ctx):
    """Rounds, raw: rows() draws the figures from them."""
    (wanted, spread), seconds = ((4, 3), 1.0) if ctx.quick else ((ROUNDS, 10), 1.5)
    cpu = str(machine.CPUS - 1)
    with machine.Processes(ctx.logs / "crab_cpu") as procs, crab_bed.Bed(procs) as bed:
        bed.services()
        bed.agents()
        nginx, haproxy = bed.proxies()
        ctx.say(f"  NGINX {nginx}, HAProxy {haproxy}")

        def rounds(wanted, cpus):
            return pairs.collect(ctx, wanted, VARIANTS, list(ADDED.values()), lambda v: one_run(bed, v, seconds, cpus), trouble)

        on_both = rounds(spread, None)
        ctx.say("  now everything on one processor")
        proxy.pin_all(procs, cpu)
        # A quick run is no judgement: it may do with fewer pairs than it tried.
        return {"enough": 3 if ctx.quick else proxy.JUDGED, "rounds": rounds(wanted, cpu), "enoughSpread": 2 if ctx.quick else spread, "roundsSpread": on_both}


def rows(raw):
    return figures(raw["rounds"], raw["enough"]) + figures(raw["roundsSpread"], raw["enoughSpread"], "_spread")
