# SPDX-License-Identifier: Apache-2.0
"""Requests per second over long connections: CRAB against no balancer and against kube-proxy's DNAT.

A closed loop: CONNECTIONS connections that stand, each sends the next 64 bytes as soon as its 64 are back. One client has them on
every way, and the ways take turns of TURN_MS; a round is TURNS of each. On a shared machine the speed changes within tenths of a
second, by more than what is to be told apart: longer turns would need hours to say the same. Everything is on one processor (main
figures), which is then busy all the time: what a way costs more shows in full, and nothing depends on where the scheduler puts
client and service. The rows that end in _spread leave that to it.

CRAB and no balancer differ by so little that they have rounds of their own, and most of the time: how many is fixed here; the
pair on both processors as well. Hosts with all of a node's duties, pods, IPv6 and a client's host that does not forward have a bed of their own (crab_nodes.py). The
rounds of a client have the places of its connections in memory in common, so clients are many and short, and an interval draws
whole clients.
"""
import statistics

import crab_bed
import crab_nodes
import machine
import proxy
import stats

CONNECTIONS = 16
TURN_MS = 10
TURNS = 10
ROUNDS = 5  # with the same connections
# Clients one after the other, by what their rounds are for; with --quick a sixth of them, two at least.
CLIENTS = {"pair": 102, "all": 18, "spread": 6, "pairSpread": 60, "nodes": 30}
PAIR = ("direct", "crab")
VARIANTS = ("direct", "crab", "kubeproxy_nftables", "kubeproxy_iptables", "kubeproxy_nftables_on_client", "kubeproxy_iptables_on_client")
# The rows of crab_nodes: what is measured, over what, and where it is.
NODES = {
    "as_node": ("crab_as_node", "direct", "both hosts have all duties of a node on their uplinks: balancer, client and server"),
    "pods": ("crab_pods", "direct_pods", "from pod to pod, on hosts with all duties of a node there and on the pods' veths, over pods on hosts without anything"),
    "not_forwarding": ("crab_not_forwarding", "direct", "the client's host does not forward, so that each packet is handed to its route"),
    "ipv6": ("crab_ipv6", "direct_ipv6", "over IPv6, which has no short way"),
}


def of_clients(clients):
    """The rounds of all clients: a client is the list of its rounds."""
    return [r for c in clients for r in c]


def ratio(under, over="crab"):
    return lambda clients: statistics.median(r[over] / r[under] for r in of_clients(clients))


def note(clients, ways):
    return (f"{CONNECTIONS} connections, {len(of_clients(clients))} rounds of {TURNS} turns of {TURN_MS} ms on each of {ways} ways, "
            f"{len(clients)} clients one after the other")


def against_direct(clients, suffix, ways, over="crab", under="direct", where=""):
    """The figure that is judged is what holds in 39 of 40 cases."""
    value, interval = stats.summary(clients, ratio(under, over))
    return {"name": f"crab_rr_ratio_vs_direct{suffix}", "value": interval[0], "interval": interval, "unit": "ratio",
            "note": f"lower bound of the interval; the median is {value:.3f}; {where}{note(clients, ways)}"}


def on_nodes(clients):
    """Each with what hosts of one duty have in the same rounds."""
    beside = f"{ratio('direct')(clients):.3f} with one duty a host in the same rounds; "
    return [against_direct(clients, f"_{name}", len(crab_nodes.Nodes.ways), over, under, f"{where}; {beside}") for name, (over, under, where) in NODES.items()]


def against_kube_proxy(clients, suffix):
    rows = []
    for under in VARIANTS[len(PAIR):]:
        value, interval = stats.summary(clients, ratio(under))
        rows.append({"name": f"crab_rr_ratio_vs_{under}{suffix}", "value": value, "interval": interval, "unit": "ratio", "note": note(clients, len(VARIANTS))})
    return rows


def absolute(clients):
    rows = []
    for variant in VARIANTS[:4]:
        value, interval = stats.summary(clients, lambda cs, v=variant: statistics.median(r[v] for r in of_clients(cs)))
        rows.append({"name": f"crab_rr_rps_{variant}", "value": value, "interval": interval, "unit": "1/s", "note": "absolute, this machine, one processor"})
    return rows


def rows(raw):
    return ([against_direct(raw["pair"], "", len(PAIR))] + against_kube_proxy(raw["all"], "") + absolute(raw["all"])
            + [against_direct(raw["pairSpread"], "_spread", len(PAIR))] + against_kube_proxy(raw["spread"], "_spread") + on_nodes(raw["nodes"]))


def mean(turns):
    return {v: statistics.mean(t[v] for t in turns) for v in turns[0]}


def clients_of(ctx, bed, variants, count, cpus):
    clients = []
    for _ in range(max(2, count // 6) if ctx.quick else count):
        turns = bed.turns(variants, CONNECTIONS, ROUNDS * TURNS, TURN_MS, cpus=cpus)
        bed.procs.check()
        clients.append([mean(turns[at:at + TURNS]) for at in range(0, len(turns), TURNS)])
    ctx.say("  " + "  ".join(f"{v} {statistics.median(r[v] for r in of_clients(clients)):.0f}/s" for v in variants))
    return clients


def measure(ctx):
    with machine.Processes(ctx.logs / "crab_rr") as procs, crab_bed.Bed(procs) as bed:
        bed.services()
        bed.agents()
        bed.kube_proxies()
        raw = groups(ctx, bed, None, spread=VARIANTS, pairSpread=PAIR) | groups(ctx, bed, str(machine.CPUS - 1), all=VARIANTS, pair=PAIR)
    ctx.say("  now hosts as a cluster has them")
    with machine.Processes(ctx.logs / "crab_rr_nodes") as procs, crab_nodes.Nodes(procs) as bed:
        bed.services()
        bed.agents()
        return raw | groups(ctx, bed, str(machine.CPUS - 1), nodes=tuple(bed.ways))


def groups(ctx, bed, cpus, **ways):
    """The rounds of some groups of ways, all of it where cpus says."""
    if cpus is not None:
        ctx.say("  now everything on one processor")
        proxy.pin_all(bed.procs, cpus)
    return {what: clients_of(ctx, bed, variants, CLIENTS[what], cpus) for what, variants in ways.items()}
