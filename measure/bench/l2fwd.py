# SPDX-License-Identifier: Apache-2.0
"""The router's packets per second against a bare forwarder's, on rings and on memif (dataplane/bench/bench_forward.c).

A round runs both on one transport, freely and in lock step, the two of a kind one after the other, each between two
calibrations. Only rounds in which all calibrations are of one mode count; see stats.same_mode. The ratio is of packets taken in
per second: an RPC is two of them, REQ0 and FEEDBACK.

The subject is to find each packet outside of its own cache, as behind a device. Where the host has put both processors on one
core it does not: the forwarder takes a packet of the other processor for as few cycles as one of its own. Each round asks for
that, and those on one core count only where there are not enough others, which the note says then.

Running freely, the generator may be the slower one: a subject that is busy for half of the time could have handled more. So
there are two more ratios, in which it does not count: of packets per second for which the subject was busy, and of
the cycles the subject takes to empty a transport that the generator has filled before (lock step).
"""
import contextlib
import json
import pathlib
import statistics

import machine
import stages
import stats


FULL = 0.95  # share of the time for which a subject is busy that is not kept waiting
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


ENOUGH = 3       # rounds on two cores; up to twice as many rounds as usual are made for them
ONE_CORE = 2     # times the cycles of a packet of one's own that one of another processor takes on two cores at least
SUBJECTS = ("l2fwd", "router")


def one_run(procs, transport, subject, how):
    before = stages.calibration(procs)
    said = json.loads(procs.run(f"{transport}-{subject}", [machine.bench("bench_forward"), transport, subject, how], 60))
    return {**said, "calibrations": [before, stages.calibration(procs)]}


def one_round(procs, transport, seconds, backwards):
    """{subject: run freely, subject_steps: in lock step}"""
    order = SUBJECTS[::-1] if backwards else SUBJECTS
    freely = {s: one_run(procs, transport, s, seconds) for s in order}
    steps = {f"{s}_steps": one_run(procs, transport, s, "apart") for s in order}
    return {**freely, **steps, "one_core": on_one_core(procs)}


def on_one_core(procs):
    """Whether the forwarder takes another processor's packets from a ring as fast as its own."""
    cycles = [json.loads(procs.run(f"cores-{how}", [machine.bench("bench_forward"), "ring", "l2fwd", how], 60))["cycles"] for how in ("apart", "together")]
    return cycles[0] < ONE_CORE * cycles[1]


def counting(rounds):
    """The usable rounds on two cores, or where those are too few all that are usable; and whether they are on two."""
    apart = usable([r for r in rounds if not r.get("one_core")])
    return (apart, True) if len(apart) >= ENOUGH else (usable(rounds), False)


def runs_of(r):
    return [run for name, run in r.items() if name != "one_core"]


def usable(rounds):
    """Rounds whose calibrations are all of the most frequent mode."""
    flat = [c for r in rounds for run in runs_of(r) for c in run["calibrations"]]
    kept = {flat[i] for i in stats.same_mode(flat)}
    return [r for r in rounds if all(c in kept for run in runs_of(r) for c in run["calibrations"])]


def rows_of(transport, rounds, all_rounds, two_cores=True):
    flat = [c for r in rounds for run in runs_of(r) for c in run["calibrations"]]
    note = f"{len(rounds)} of {len(all_rounds)} rounds of one mode, cache line between processors {min(flat):.0f} .. {max(flat):.0f} ns"
    huge = sum(run["hugepages"] for r in rounds for run in runs_of(r))
    note += f"; {huge} of {sum(len(runs_of(r)) for r in rounds)} runs in hugepages"
    if not two_cores:
        note += "; the host had both processors on one core most of the time: the forwarder found each packet in its own cache"
    busy = {s: statistics.median(r[s]["busyShare"] for r in rounds) for s in SUBJECTS}
    if busy["l2fwd"] < FULL:
        note += f"; the forwarder was busy for {busy['l2fwd']:.0%} of the time only, the generator bounds it: see _by_busy_time and _lock_step"

    def row(name, figure, **more):
        value, interval = stats.summary(rounds, figure)
        return {"name": name, "value": value, "interval": interval, **more}

    def ratio(router_packets, l2fwd_packets):
        return lambda rs: statistics.median(r["router"]["perSecond"] * router_packets / (r["l2fwd"]["perSecond"] * l2fwd_packets) for r in rs)

    def by_busy_time(rs):
        return statistics.median(2 * r["router"]["perSecond"] / r["router"]["busyShare"] / (r["l2fwd"]["perSecond"] / r["l2fwd"]["busyShare"]) for r in rs)

    return [
        row(f"router_ratio_vs_l2fwd_{transport}", ratio(2, 1), note=note),
        row(f"router_ratio_vs_l2fwd_{transport}_by_busy_time", by_busy_time, unit="ratio",
            note=f"packets per second for which the subject was busy: the router {busy['router']:.0%}, the forwarder {busy['l2fwd']:.0%} of the time"),
        row(f"router_ratio_vs_l2fwd_{transport}_lock_step", lambda rs: statistics.median(2 * r["l2fwd_steps"]["cycles"] / r["router_steps"]["cycles"] for r in rs), unit="ratio",
            note="packets per cycle, the transport filled before: the generator is in neither"),
        *(row(f"{s}_cycles_lock_step_{transport}", lambda rs, s=s: statistics.median(r[f"{s}_steps"]["cycles"] for r in rs), unit="cycles",
              note="for an RPC, two packets in and one out" if s == "router" else "for a packet, in and out") for s in SUBJECTS),
        row(f"router_ratio_vs_l2fwd_{transport}_in_and_out", ratio(3, 2), unit="ratio", note="packets in and out: three to an RPC, two to a forwarded packet"),
        row(f"router_mrps_per_core_{transport}", lambda rs: statistics.median(r["router"]["perSecond"] for r in rs) / 1e6,
            note=f"the router's core was busy for {busy['router']:.0%} of the time"),
        row(f"l2fwd_mpps_per_core_{transport}", lambda rs: statistics.median(r["l2fwd"]["perSecond"] for r in rs) / 1e6, unit="Mpps",
            note=f"ceiling of the transport with this generator; the forwarder's core was busy for {busy['l2fwd']:.0%} of the time"),
    ]


def measure(ctx):
    if not (machine.BUILD / "bench" / "bench_forward").exists():
        raise machine.Failed("bench_forward is not built: install libdpdk-dev (make deps) and build again")
    if machine.CPUS < 2:
        raise machine.Failed("needs two processors, one for the generator and one for what is measured")
    wanted, seconds, raw = (3, 0.5, {}) if ctx.quick else (15, 1.0, {})
    with hugepages(PAGES_WANTED), machine.Processes(ctx.logs / "l2fwd") as procs:
        for transport in ("ring", "memif"):
            raw[transport] = []
            for i in range(2 * wanted):
                if i >= wanted and counting(raw[transport])[1]:
                    break
                r = one_round(procs, transport, seconds, i % 2 == 1)
                raw[transport].append(r)
                ctx.say(f"  {transport}: router {r['router']['perSecond'] / 1e6:.2f} M RPC/s, l2fwd {r['l2fwd']['perSecond'] / 1e6:.2f} Mpps; lock step "
                        f"{r['router_steps']['cycles']:.0f} cycles/RPC, {r['l2fwd_steps']['cycles']:.0f} cycles/packet; calibration "
                        + " ".join(f"{c:.0f}" for run in runs_of(r) for c in run["calibrations"]) + " ns" + (", on one core" if r["one_core"] else ""))
    return raw


def rows(raw):
    drawn = []
    for transport, rounds in raw.items():
        kept, two_cores = counting(rounds)
        if len(kept) < 2:
            raise machine.Failed(f"{transport}: the processors changed their mode in nearly every round; try again")
        drawn += rows_of(transport, kept, rounds, two_cores)
    return drawn
