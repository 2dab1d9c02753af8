# SPDX-License-Identifier: Apache-2.0
"""A SYN through CRAB's XDP balancer and through a DNAT program (e2e/bench/crab/dnat.bpf.c), by BPF_PROG_TEST_RUN.

operator/internal/redirect/syncost_test.go gives both a fresh SYN each time, of a new connection of a new port. Time is
measured here, interleaved; instructions in an emulated machine (crab_guest.py), whose clock counts them. What
making the SYN costs is measured with a program that does nothing, and subtracted.
"""
import json
import os
import pathlib
import platform
import statistics
import subprocess
import tempfile

import crab_bed
import crab_guest
import machine
import stats

BASE = {"crab": "nothing-placeholder", "dnat": "nothing"}  # CRAB's frame is eight bytes longer
BUILD = machine.ROOT / "build" / "bench-crab"


def build():
    """(the test's program, the compiled peers)"""
    BUILD.mkdir(parents=True, exist_ok=True)
    program = BUILD / "syncost.test"
    crab_bed.run("go", "test", "-trimpath", "-tags=crab", "-c", "-o", program, "./operator/internal/redirect", cwd=machine.ROOT,
                 env={**os.environ, "CGO_ENABLED": "0"})
    peers = [BUILD / f"{name}.o" for name in ("dnat", "refill")]
    for peer in peers:
        crab_bed.run("clang", "-target", "bpf", "-O2", "-g", "-Wall", "-Werror", "-mcpu=v3", f"-I/usr/include/{platform.machine()}-linux-gnu",
                     "-c", crab_bed.PEERS / f"{peer.stem}.bpf.c", "-o", peer)
    return program, peers


def timed(ctx, program, settings):
    """Rounds on this machine, in a namespace whose device has a route to the servers."""
    ns = f"bbsyn{os.getpid()}"
    inside = ["nsenter", f"--net=/var/run/netns/{ns}", "--"]
    crab_bed.run("ip", "netns", "add", ns)
    try:
        for words in ("link add eth0 type veth peer name peer0", "link set lo up", "link set peer0 up", "link set eth0 up", "addr add 10.1.255.1/16 dev eth0",
                      "route add 10.2.0.0/24 via 10.1.255.2", "neigh replace 10.1.255.2 lladdr 02:00:00:00:00:77 dev eth0 nud permanent"):
            crab_bed.run("ip", "-n", ns, *words.split())
        crab_bed.run(*inside, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        with tempfile.NamedTemporaryFile(suffix=".json") as out, machine.Processes(ctx.logs / "crab_syn") as procs:
            said = {"CRAB_SYN_COST": json.dumps({"peers": str(BUILD), "device": "eth0", "out": out.name, **settings})}
            # Its log is what a failure shows.
            procs.finish("syncost", procs.start("syncost", [*inside, program, "-test.run=TestSYNCost", "-test.v"], env=said, cpus=str(machine.CPUS - 1)), 300)
            return json.load(open(out.name))
    finally:
        subprocess.run(["ip", "netns", "del", ns], capture_output=True)


def cost(subject):
    return lambda r: r[subject] - r[BASE[subject]]


def figures(rounds):
    def row(name, figure, **more):
        value, interval = stats.summary(rounds, figure)
        return {"name": name, "value": value, "interval": interval, **more}

    def median(f):
        return lambda rs: statistics.median(f(r) for r in rs)

    note = f"{len(rounds)} interleaved rounds; Mpps of one core that does nothing else"
    rows = [row(f"{'crab_' if s == 'crab' else 'dnat_'}syn_mps_per_core", median(lambda r, c=cost(s): 1e3 / c(r)), unit="M/s", note=note) for s in BASE]
    rows.append(row("crab_syn_ratio_vs_dnat", median(lambda r: cost("dnat")(r) / cost("crab")(r)), unit="ratio", note="SYNs per second of CRAB's program over the DNAT program's"))
    live = "frames that are sent: made, chosen for and transmitted over a veth whose other end drops them, on one core (BPF_F_TEST_XDP_LIVE_FRAMES)"
    rows += [row(f"{s}_syn_mps_per_core_veth", median(lambda r, s=s: 1e3 / r[f"{s}-live"]), unit="M/s", note=live) for s in BASE]
    rows.append(row("crab_syn_ratio_vs_dnat_veth", median(lambda r: r["dnat-live"] / r["crab-live"]), unit="ratio", note="the same, CRAB's over the DNAT program's"))
    rows.append(row("veth_mps_per_core", median(lambda r: 1e3 / r["nothing-placeholder-live"]), unit="M/s", note="the same with a program that only makes the SYN: what the veth takes"))
    return rows + [row(f"{s}_syn_ns", median(cost(s)), unit="ns", note="absolute, this machine, BPF_PROG_TEST_RUN") for s in BASE]


def instructions(said):
    """The guest's last round: by then the tables of connections are full, as in service."""
    last = said["rounds"][-1]
    note = f"Linux {said['kernel']} in an emulated machine whose clock counts instructions; helpers and maps of the kernel included"
    rows = [{"name": "crab_syn_instructions_xdp", "value": cost("crab")(last), "unit": "count", "note": note},
            {"name": "dnat_syn_instructions_xdp", "value": cost("dnat")(last), "unit": "count", "note": "the DNAT program, same conditions"}]
    for subject, sizes in said["programs"].items():
        rows.append({"name": f"{subject}_xdp_program_instructions", "value": sizes["instructions"], "unit": "count",
                     "note": f"length of the program in the kernel, not a path through it; compiled {sizes['jitedBytes']} bytes"})
    return rows


def run(ctx):
    program, peers = build()
    said = timed(ctx, program, {"rounds": 8 if ctx.quick else 30, "repeat": 200_000, "other": "peer0", "live": 100_000})
    for r in said["rounds"]:
        ctx.say("  " + "  ".join(f"{s} {cost(s)(r):.0f} ns" for s in BASE))
    counted = crab_guest.counted(pathlib.Path(program), peers, {"rounds": 2, "repeat": 70_000})
    ctx.say("  " + "  ".join(f"{s} {cost(s)(counted['rounds'][-1]):.0f} instructions" for s in BASE))
    return figures(said["rounds"]) + instructions(counted)
