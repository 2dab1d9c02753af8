# SPDX-License-Identifier: Apache-2.0
"""What balancing costs a request: CRAB against HAProxy in TCP mode and NGINX's stream module.

Cost = (non-idle processor time of the whole machine with the balancer - without it) / requests, at one open-loop rate over
long connections; see proxy.py, whose rules for a disturbed run hold here too.
"""
import json
import statistics
import time

import crab_bed
import machine
import proxy
import stats

RATE = 10000
CONNECTIONS = 64
VARIANTS = ("direct", "crab", "haproxy", "nginx_stream")
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


def share(theirs, key):
    """None where the other one's cost is not above nothing: then the run says nothing."""
    return lambda rs: stats.ratio_of_medians(rs, proxy.cost("crab", "direct", key), proxy.cost(theirs, "direct", key))


def figures(rounds, wanted, suffix=""):
    quiet = proxy.undisturbed(rounds)
    enough = len(quiet) >= max(2, wanted // 2)
    note = f"{RATE} requests/s, {len(quiet)} undisturbed rounds of {len(rounds)}" + ("" if enough else ": the machine was not quiet, no figure")
    rows = []

    def add(name, kept, figure, **more):
        value, interval = stats.summary(kept, figure) if len(kept) >= 2 else (None, None)
        rows.append({"name": name + suffix, "value": value, "interval": interval, **more})

    for kept, key, kind, said in ((quiet if enough else [], "busy", "", note), (rounds, "own", "_own", "processes only")):
        for theirs in ("haproxy", "nginx_stream"):
            add(f"crab_cpu_share_vs_{theirs}{kind}", kept, share(theirs, key), unit="ratio", note=said)
        for variant in VARIANTS[1:]:
            add(f"crab_cpu_us_per_request_{variant}{kind}", kept, lambda rs, c=proxy.cost(variant, "direct", key): statistics.median(c(r) for r in rs),
                unit="us", note="more than direct; " + ("processes only" if kind else "whole machine"))
    return rows


def all_rounds(ctx, bed, wanted, seconds, cpus):
    rounds, repeats = [], proxy.Repeats(wanted, ctx.say)
    while len(proxy.undisturbed(rounds)) < wanted and len(rounds) < wanted * 3 // 2:
        order = VARIANTS if len(rounds) % 2 == 0 else VARIANTS[::-1]
        rounds.append({v: repeats.run(v, lambda v=v: one_run(bed, v, seconds, cpus), trouble) for v in order})
        ctx.say("  " + "  ".join(f"{v} {rounds[-1][v]['busy']:.1f} ({rounds[-1][v]['own']:.1f})" for v in VARIANTS) + " us/request, machine (processes)")
    return rounds


def run(ctx):
    wanted, seconds = (4, 1.0) if ctx.quick else (20, 1.5)
    cpu = str(machine.CPUS - 1)
    with machine.Processes(ctx.logs / "crab_cpu") as procs, crab_bed.Bed(procs) as bed:
        bed.services()
        bed.agents()
        nginx, haproxy = bed.proxies()
        ctx.say(f"  NGINX {nginx}, HAProxy {haproxy}")
        spread = all_rounds(ctx, bed, max(3, wanted // 2), seconds, None)
        ctx.say("  now everything on one processor")
        proxy.pin_all(procs, cpu)
        one = all_rounds(ctx, bed, wanted, seconds, cpu)
    return figures(one, wanted) + figures(spread, max(3, wanted // 2), "_spread")
