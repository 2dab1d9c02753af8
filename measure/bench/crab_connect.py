# SPDX-License-Identifier: Apache-2.0
"""What a connection costs: connect, request, answer and close, one after the other; and what of it the balancer sees."""
import statistics

import crab_bed
import machine
import proxy
import stats

VARIANTS = ("direct", "crab", "kubeproxy_nftables", "kubeproxy_iptables", "haproxy", "nginx_stream")


def ended(rounds, *variants):
    """The remark on connections that the other end ended before it answered; empty when there were none. The client fails when it
    were more than one in 200."""
    parts = {v: sum(r[v]["ended"] for r in rounds) for v in variants}
    return "".join(f"; {n} of {n + sum(r[v]['completed'] for r in rounds)} connections of {v} were ended before the answer" for v, n in parts.items() if n)


def figures(rounds):
    rows = []
    for variant in VARIANTS[1:]:
        note = f"{len(rounds)} interleaved rounds{ended(rounds, 'direct', variant)}"
        value, interval = stats.summary(rounds, lambda rs, v=variant: statistics.median(r[v]["p50Microseconds"] - r["direct"]["p50Microseconds"] for r in rs))
        name = "crab_crr_added_us_vs_direct" if variant == "crab" else f"crr_added_us_vs_direct_{variant}"
        rows.append({"name": name, "value": value, "interval": interval, "unit": "us", "note": f"difference of the medians of a round; {note}"})
    value, interval = stats.summary(rounds, lambda rs: statistics.median(r["direct"]["p50Microseconds"] for r in rs))
    rows.append({"name": "crab_crr_us_direct", "value": value, "interval": interval, "unit": "us", "note": "absolute, this machine, one processor" + ended(rounds, "direct")})
    packets, connections = (sum(r["crab"][key] for r in rounds) for key in ("packets", "completed"))
    rows.append({"name": "crab_lb_packets_per_connection", "value": packets / connections, "unit": "count",
                 "note": f"{packets} packets came in on the balancer's link for {connections} connections with a request each{ended(rounds, 'crab')}"})
    return rows


def watched(bed, host, act):
    """What act() says, with the packets and bytes that reached the host's link meanwhile."""
    before = bed.link(host)
    said = act()
    after = bed.link(host)
    return {**said, "packets": after[0] - before[0], "linkBytes": after[1] - before[1]}


def bulk(bed, connections, size):
    """Bytes that reached the balancer for each 10^9 that were transferred, over so many connections."""
    rows = []
    for variant, host in (("crab", "lb"), ("kubeproxy_nftables", "nft")):
        got = [watched(bed, host, lambda v=variant: bed.client(v, "bulk", size)) for _ in range(connections)]
        name = "crab_lb_bytes_per_gb" if variant == "crab" else f"lb_bytes_per_gb_{variant}"
        rows.append({"name": name, "value": sum(g["linkBytes"] for g in got) / (connections * size / 1e9), "unit": "bytes",
                     "note": f"{connections} connections of {size / 1e6:.0f} MB, client to server; what came in on the link of the host between"})
    return rows


def last_words(procs):
    """What the proxies of this run logged last: they log errors alone."""
    said = {name: (procs.log_dir / f"{name}.log").read_text().strip() for name in ("haproxy", "nginx") if name in procs.running}
    return "".join(f"\n{name}: {text[-400:]}" for name, text in said.items() if text)


def run(ctx):
    cpu = str(machine.CPUS - 1)
    with machine.Processes(ctx.logs / "crab_connect") as procs, crab_bed.Bed(procs) as bed:
        bed.services()
        bed.agents()
        bed.kube_proxies()
        bed.proxies()
        bulks = bulk(bed, 4, 250_000_000)
        proxy.pin_all(procs, cpu)
        try:
            rounds = all_rounds(ctx, bed, cpu)
        except machine.Failed as err:
            raise machine.Failed(f"{err}{last_words(procs)}") from err
    return figures(rounds) + bulks


def all_rounds(ctx, bed, cpu):
    wanted, count = (6, 500) if ctx.quick else (24, 2000)
    rounds = []
    for i in range(wanted):
        order = VARIANTS if i % 2 == 0 else VARIANTS[::-1]
        rounds.append({v: watched(bed, "lb", lambda v=v: bed.client(v, "connect", count, cpus=cpu)) for v in order})
        bed.procs.check()
        ctx.say("  " + "  ".join(f"{v} {rounds[-1][v]['p50Microseconds']:.1f} us" for v in VARIANTS))
    return rounds
