# SPDX-License-Identifier: Apache-2.0
"""Requests per second over long connections: CRAB against no balancer and against kube-proxy's DNAT.

A closed loop: CONNECTIONS connections that stand, each sends the next 64 bytes as soon as its 64 are back. One client has them on
every way, and the ways take turns of TURN_MS; a round is TURNS of each. On a shared machine the speed changes within tenths of a
second, by more than what is to be told apart: longer turns would need hours to say the same. Everything is on one processor (main
figures), which is then busy all the time: what a way costs more shows in full, and nothing depends on where the scheduler puts
client and service. The rows that end in _spread leave that to it.
"""
import statistics

import crab_bed
import machine
import proxy
import stats

CONNECTIONS = 16
TURN_MS = 10
TURNS = 10
ROUNDS = 10  # with the same connections
VARIANTS = ("direct", "crab", "kubeproxy_nftables", "kubeproxy_iptables", "kubeproxy_nftables_on_client", "kubeproxy_iptables_on_client")


def ratio(under):
    return lambda rounds: statistics.median(r["crab"] / r[under] for r in rounds)


def figures(rounds, suffix=""):
    note = f"{CONNECTIONS} connections, {len(rounds)} rounds of {TURNS} turns of {TURN_MS} ms on each way"
    rows = []
    for under in VARIANTS:
        if under == "crab":
            continue
        value, interval = stats.summary(rounds, ratio(under))
        name = f"crab_rr_ratio_vs_{under}{suffix}"
        if under == "direct":  # the figure that is judged is what holds in 39 of 40 cases
            rows.append({"name": name, "value": interval[0], "interval": interval, "unit": "ratio",
                         "note": f"lower bound of the interval; the median is {value:.3f}; {note}"})
        else:
            rows.append({"name": name, "value": value, "interval": interval, "unit": "ratio", "note": note})
    for variant in VARIANTS[:4] if not suffix else ():
        value, interval = stats.summary(rounds, lambda rs, v=variant: statistics.median(r[v] for r in rs))
        rows.append({"name": f"crab_rr_rps_{variant}", "value": value, "interval": interval, "unit": "1/s", "note": "absolute, this machine, one processor"})
    return rows


def mean(turns):
    return {v: statistics.mean(t[v] for t in turns) for v in VARIANTS}


def all_rounds(ctx, bed, clients, cpus):
    rounds = []
    for _ in range(clients):
        turns = bed.turns(VARIANTS, CONNECTIONS, ROUNDS * TURNS, TURN_MS, cpus=cpus)
        bed.procs.check()
        ctx.say("  " + "  ".join(f"{v} {statistics.median(t[v] for t in turns):.0f}/s" for v in VARIANTS))
        rounds += [mean(turns[at:at + TURNS]) for at in range(0, len(turns), TURNS)]
    return rounds


def run(ctx):
    clients = 4 if ctx.quick else 24
    cpu = str(machine.CPUS - 1)
    with machine.Processes(ctx.logs / "crab_rr") as procs, crab_bed.Bed(procs) as bed:
        bed.services()
        bed.agents()
        bed.kube_proxies()
        spread = all_rounds(ctx, bed, clients // 4, None)
        ctx.say("  now everything on one processor")
        proxy.pin_all(procs, cpu)
        one = all_rounds(ctx, bed, clients, cpu)
    return figures(one) + figures(spread, "_spread")
