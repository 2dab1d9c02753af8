# SPDX-License-Identifier: Apache-2.0
"""Echoes per second of one core that runs both ends: libbobtail, plain UDP and gRPC-Go.

Two processes, client and server, share one processor. The client keeps WINDOW requests of 64 bytes outstanding.
Variants run in turn; a run in which the two processes did not have the processor for themselves is repeated.
"""
import json
import os
import pathlib
import statistics
import subprocess
import time

import machine
import pairs
import stats

WINDOW = 32
PORT = {"bobtail": 18300, "bobtail-default": 18304, "udp": 18301, "udp-segments": 18303, "grpc": 18302, "grpc-over-r2p2": 18305}
SHARE = 0.93  # of the processor's time that the pair must have had
GO = {"grpc": machine.ROOT / "e2e" / "bench" / "grpc-echo", "grpc-over-r2p2": machine.ROOT / "clients" / "go" / "r2p2grpc" / "internal" / "echo"}


def binary(variant):
    return machine.ROOT / "build" / "bin" / f"{variant}-echo"


def build_go():
    """The gRPC pair is a Go module of its own; both pairs are built when they are wanted."""
    for variant, source in GO.items():
        binary(variant).parent.mkdir(parents=True, exist_ok=True)
        built = subprocess.run(["go", "build", "-trimpath", "-o", binary(variant), "."], cwd=source, capture_output=True, text=True,
                               env={**os.environ, "CGO_ENABLED": "0"})
        if built.returncode:
            raise machine.Failed(f"go build in {source}: {built.stderr.strip()[-400:]}")


def program(variant):
    return [binary(variant)] if variant in GO else [machine.bench("bench_echo"), variant]


def one_run(procs, variant, cpu, seconds):
    server = procs.running[f"serve-{variant}"]
    seconds = max(seconds, 3.0) if variant == "bobtail-default" else seconds  # it uses its ids in bursts a second apart
    env = {"GOMAXPROCS": "1"}
    client = procs.start("call", [*program(variant), "call", PORT[variant], WINDOW, seconds + 0.4], env=env, cpus=cpu, stdout=subprocess.PIPE)
    time.sleep(0.2)
    window = machine.Window([client.pid, server.pid])
    time.sleep(seconds)
    spent = window.close()
    said = json.loads(procs.finish("call", client, 30))
    return {"variant": variant, "rps": said["rps"], "lost": said["lost"], "share": spent["own"] / spent["wall"], "per_cpu": said["rps"] * spent["wall"] / spent["own"]}


def trouble(run):
    """An endpoint with default timers runs out of request ids and leaves the processor idle by itself."""
    if run["variant"] == "bobtail-default":
        return None
    return f"only {run['share']:.0%} of the processor" if run["share"] < SHARE else None


def ratio(over, under, key):
    return lambda rounds: statistics.median(r[over][key] / r[under][key] for r in rounds)


def figures(rounds):
    disturbed = sum(1 for r in rounds for v in r.values() if v.get("disturbed"))
    note = f"window {WINDOW}, {len(rounds)} rounds" + (f", {disturbed} runs stayed disturbed" if disturbed else "")
    rows = []
    for name, under in (("udp", "udp"), ("grpc_go", "grpc")):
        value, interval = stats.summary(rounds, ratio("bobtail", under, "rps"))
        rows.append({"name": f"echo_rps_ratio_vs_{name}", "value": value, "interval": interval, "note": note})
        value, interval = stats.summary(rounds, ratio("bobtail", under, "per_cpu"))
        rows.append({"name": f"echo_rps_ratio_vs_{name}_own", "value": value, "interval": interval, "unit": "ratio",
                     "note": "requests per processor second of the two processes: what others used is taken out"})
    for key, kind, what in (("rps", "", "as an endpoint has them that does not set fast_timers: one client port carries no more than its 65,536 request ids, each of which rests "
                             "for 0.8 s; the processor is idle meanwhile"), ("per_cpu", "_own", "requests per processor second of the two processes: what an echo costs with default timers")):
        value, interval = stats.summary(rounds, ratio("bobtail-default", "udp", key))
        rows.append({"name": f"echo_rps_ratio_vs_udp_default_timers{kind}", "value": value, "interval": interval, "unit": "ratio", "note": what})
    for key, kind in (("rps", ""), ("per_cpu", "_own")):
        value, interval = stats.summary(rounds, ratio("grpc-over-r2p2", "grpc", key))
        rows.append({"name": f"grpc_over_r2p2_ratio{kind}", "value": value, "interval": interval, "unit": "ratio",
                     "note": f"unary gRPC calls a second over R2P2 over those of gRPC-Go, both ends on one core; {note}"})
    value, interval = stats.summary(rounds, ratio("bobtail", "udp-segments", "rps"))
    rows.append({"name": "echo_rps_ratio_vs_udp_segments", "value": value, "interval": interval, "unit": "ratio",
                 "note": "plain UDP that also sends a batch as one message (UDP_SEGMENT)"})
    for variant in PORT:
        value, interval = stats.summary(rounds, lambda rs, v=variant: statistics.median(r[v]["rps"] for r in rs))
        rows.append({"name": f"echo_rps_{variant.replace('-', '_')}", "value": value, "interval": interval, "unit": "1/s", "note": "absolute, this machine"})
    return rows


def measure(ctx):
    build_go()
    rounds_wanted, seconds = (6, 0.8) if ctx.quick else (20, 1.5)
    cpu = str(machine.CPUS - 1)
    rounds, repeats = [], pairs.Repeats(rounds_wanted, ctx.say)
    with machine.Processes(pathlib.Path(ctx.logs) / "echo") as procs:
        for variant in PORT:
            procs.start(f"serve-{variant}", [*program(variant), "serve", PORT[variant]], env={"GOMAXPROCS": "1"}, cpus=cpu)
        time.sleep(0.7)
        procs.check()
        for i in range(rounds_wanted):
            order = list(PORT) if i % 2 == 0 else list(reversed(PORT))
            rounds.append({v: repeats.run(v, lambda v=v: one_run(procs, v, cpu, seconds), trouble) for v in order})
            ctx.say("  " + "  ".join(f"{v} {rounds[-1][v]['rps']:.0f}/s" for v in PORT))
    return {"rounds": rounds}


def rows(raw):
    return figures(raw["rounds"])
