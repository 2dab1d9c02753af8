# SPDX-License-Identifier: Apache-2.0
"""Requests per second over long connections: CRAB against no balancer and against kube-proxy's DNAT.

A closed loop: CONNECTIONS connections that stand, each sends the next 64 bytes as soon as its 64 are back. A round runs every way
once. Everything is on one processor (main figures), which is then busy all the time: what a way costs more shows in
full, and nothing depends on where the scheduler puts client and service. The rows that end in _spread leave that to it.
"""
import statistics

import crab_bed
import machine
import proxy
import stats

CONNECTIONS = 16
VARIANTS = ("direct", "crab", "kubeproxy_nftables", "kubeproxy_iptables", "kubeproxy_nftables_on_client", "kubeproxy_iptables_on_client")


def ratio(under):
    return lambda rounds: statistics.median(r["crab"] / r[under] for r in rounds)


def figures(rounds, suffix=""):
    note = f"{CONNECTIONS} connections, {len(rounds)} interleaved rounds"
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


def all_rounds(ctx, bed, wanted, seconds, cpus):
    rounds = []
    for i in range(wanted):
        order = VARIANTS if i % 2 == 0 else VARIANTS[::-1]
        rounds.append({v: bed.client(v, "closed", CONNECTIONS, seconds, cpus=cpus)["achievedRps"] for v in order})
        bed.procs.check()
        ctx.say("  " + "  ".join(f"{v} {rounds[-1][v]:.0f}/s" for v in VARIANTS))
    return rounds


def run(ctx):
    wanted, seconds = (12, 0.3) if ctx.quick else (60, 0.4)  # many short pairs: what disturbs the machine lasts longer than one
    cpu = str(machine.CPUS - 1)
    with machine.Processes(ctx.logs / "crab_rr") as procs, crab_bed.Bed(procs) as bed:
        bed.services()
        bed.agents()
        bed.kube_proxies()
        spread = all_rounds(ctx, bed, wanted // 3, 2 * seconds, None)
        ctx.say("  now everything on one processor")
        proxy.pin_all(procs, cpu)
        one = all_rounds(ctx, bed, wanted, seconds, cpu)
    return figures(one) + figures(spread, "_spread")
