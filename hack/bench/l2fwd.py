# SPDX-License-Identifier: Apache-2.0
"""The router's packets per second against a bare forwarder's, on rings and on memif (dataplane/bench/bench_forward.c).

A round runs both on one transport, each between two calibrations. Only rounds in which all calibrations are of one
mode count; see stats.same_mode. The ratio is of packets taken in per second: an RPC is two of them, REQ0 and FEEDBACK.
"""
import contextlib
import json
import pathlib
import statistics

import machine
import stages
import stats


PAGES_WANTED = 32  # 64 MiB, as bench_forward asks for
PAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")


@contextlib.contextmanager
def hugepages(more):
    """So many more hugepages meanwhile, if the machine lets us; the programs use them when they are there."""
    try:
        before = int(PAGES.read_text())
        PAGES.write_text(str(before + more))
        got = int(PAGES.read_text()) - before
    except OSError:
        yield
        return
    try:
        yield
    finally:
        PAGES.write_text(str(int(PAGES.read_text()) - got))  # what others reserved meanwhile stays


def one_run(procs, transport, subject, seconds):
    before = stages.calibration(procs)
    said = json.loads(procs.run(f"{transport}-{subject}", [machine.bench("bench_forward"), transport, subject, seconds], 60))
    return {**said, "calibrations": [before, stages.calibration(procs)]}


def usable(rounds):
    """Rounds whose four calibrations are of the most frequent mode."""
    flat = [c for r in rounds for run in r.values() for c in run["calibrations"]]
    kept = {flat[i] for i in stats.same_mode(flat)}
    return [r for r in rounds if all(c in kept for run in r.values() for c in run["calibrations"])]


def rows_of(transport, rounds, all_rounds):
    flat = [c for r in rounds for run in r.values() for c in run["calibrations"]]
    note = f"{len(rounds)} of {len(all_rounds)} rounds of one mode, cache line between processors {min(flat):.0f} .. {max(flat):.0f} ns"
    huge = sum(run["hugepages"] for r in rounds for run in r.values())
    note += f"; {huge} of {2 * len(rounds)} runs in hugepages"

    def row(name, figure, **more):
        value, interval = stats.summary(rounds, figure)
        return {"name": name, "value": value, "interval": interval, **more}

    def ratio(router_packets, l2fwd_packets):
        return lambda rs: statistics.median(r["router"]["perSecond"] * router_packets / (r["l2fwd"]["perSecond"] * l2fwd_packets) for r in rs)

    return [
        row(f"router_ratio_vs_l2fwd_{transport}", ratio(2, 1), note=note),
        row(f"router_ratio_vs_l2fwd_{transport}_in_and_out", ratio(3, 2), unit="ratio", note="packets in and out: three to an RPC, two to a forwarded packet"),
        row(f"router_mrps_per_core_{transport}", lambda rs: statistics.median(r["router"]["perSecond"] for r in rs) / 1e6,
            note="the router's core was busy for " + f"{statistics.median(r['router']['busyShare'] for r in rounds):.0%} of the time"),
        row(f"l2fwd_mpps_per_core_{transport}", lambda rs: statistics.median(r["l2fwd"]["perSecond"] for r in rs) / 1e6, unit="Mpps",
            note="ceiling of the transport with this generator; the forwarder's core was busy for " + f"{statistics.median(r['l2fwd']['busyShare'] for r in rounds):.0%} of the time"),
    ]


def run(ctx):
    if not (machine.BUILD / "bench" / "bench_forward").exists():
        raise machine.Failed("bench_forward is not built: install libdpdk-dev (make deps) and build again")
    if machine.CPUS < 2:
        raise machine.Failed("needs two processors, one for the generator and one for what is measured")
    rounds_wanted, seconds, rows = (4, 0.5, []) if ctx.quick else (15, 1.0, [])
    with hugepages(PAGES_WANTED), machine.Processes(ctx.logs / "l2fwd") as procs:
        for transport in ("ring", "memif"):
            rounds = []
            for i in range(rounds_wanted):
                order = ("l2fwd", "router") if i % 2 == 0 else ("router", "l2fwd")
                rounds.append({s: one_run(procs, transport, s, seconds) for s in order})
                r = rounds[-1]
                ctx.say(f"  {transport}: router {r['router']['perSecond'] / 1e6:.2f} M RPC/s, l2fwd {r['l2fwd']['perSecond'] / 1e6:.2f} Mpps; calibration "
                        + " ".join(f"{c:.0f}" for run in r.values() for c in run["calibrations"]) + " ns")
            kept = usable(rounds)
            if len(kept) < 2:
                raise machine.Failed(f"{transport}: the processors changed their mode in nearly every round; try again")
            rows += rows_of(transport, kept, rounds)
    return rows
