#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the threads of bobtail-serve --mode cost and give: instructions, echoes, a skewed load, an idle server.

  sched.py [--only=PART] [--quick] [--measurements=FILE]      PART: instructions, idle, echo, tcp, share, skew, background

instructions  callgrind, so whatever else the machine does: a thread of src/run over the loop that bobtail-serve was
              before, both in bench_serve, in batches of 16; alone: one request at a time
idle          processor time of a ready server without requests, all its threads, over wall time; for root past the kernel, too
echo          echoes per second of client and server on one processor, --mode=run-to-completion over --mode=loop,
              in turn; the lower end of the interval. No figure where the pair did not have the processor
skew          requests of 200 us per second with work stealing, two threads over one, all on one port; divided by what
              two plain spinning threads do over one beside the same generator. No figure where that is below 1.5
tcp           echoes per second over kernel TCP, --protocol=u32 over a plain epoll loop, both one thread on one processor, in turn
              within milliseconds; the lower end of the interval
share         processor time of a server for an echo over TCP past the kernel, over the same with the kernel's TCP, at one rate. The
              server is a memif client of a switch, whose other port is a veth; the client is the kernel's in both
background    work that threads which spin get beside an idle server that may have one to two threads, over without it
"""
import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "hack/test"))
import machine  # noqa: E402
import stats  # noqa: E402
import tcp_dpdk  # noqa: E402

ADDRESS = "127.0.0.1"
PORT = {"loop": 18410, "run-to-completion": 18420, "one": 18430, "two": 18440, "beside": 18450, "tcp": 18460, "epoll": 18470}
SHARE = 0.93  # of the processor that the two ends must have had
WINDOW = 32
BATCH = 16


def named():
    model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{machine.CPUS} CPUs, {model[1] if model else platform.machine()}, Linux {platform.release()}"


def serve(procs, name, mode, *options, cpus=None):
    argv = [machine.app("bobtail-serve"), f"--address={ADDRESS}", f"--port={PORT[name]}", f"--mode={mode}", "--ctl=", "--queue-depth=64", *options]
    process = procs.start(f"serve-{name}", argv, cpus=cpus)
    time.sleep(0.3)
    procs.check()
    return process


def call(procs, name, seconds, window=WINDOW, cpus=None):
    return procs.start(f"call-{name}", [machine.bench("bench_echo"), "bobtail", "call", PORT[name], window, seconds], cpus=cpus, stdout=subprocess.PIPE)


# --- instructions -------------------------------------------------------------


def counted(kind, requests, burst):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        run = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--toggle-collect=before_loop", "--toggle-collect=thread_loop",
                              machine.bench("bench_serve"), kind, str(requests), str(burst)], capture_output=True, text=True)
        if run.returncode:
            raise machine.Failed(f"bench_serve {kind} under callgrind: exit {run.returncode}: {run.stderr[-500:]}")
        total = sum(int(line.split()[1]) for line in out.read_text().splitlines() if line.startswith("totals: "))
    if total == 0:
        raise machine.Failed("bench_serve: nothing was counted; were the loops inlined?")
    return total / requests


def instructions(args, _procs):
    n = 5000 if args.quick else 50000
    for name, kind, burst in (("sched_instructions_added", "to-completion", BATCH), ("sched_instructions_added_alone", "to-completion", 1),
                              ("sched_instructions_added_stealing", "stealing", BATCH)):
        before, after = counted("before", n, burst), counted(kind, n, burst)
        yield {"name": name, "value": round(after - before, 1), "unit": "count", "note": f"callgrind, {n} echoes, {burst} at a time: {after:.0f} over {before:.0f}"}


# --- idle -----------------------------------------------------------------------


def idle_past_the_kernel(driver, seconds):
    """A server of TCP on one end of a veth, which has answered before."""
    with tcp_dpdk.Bed() as bed, tcp_dpdk.Server(bed, driver, "u32", "--threads=2") as server:
        tcp_dpdk.echoes(bed, tcp_dpdk.Tally(), f"before it is idle on {driver}", 20, 1)
        time.sleep(1)
        window = machine.Window([server.process.pid])
        time.sleep(seconds)
        spent = window.close()
        return spent["own"] / spent["wall"]


def idle(args, procs):
    seconds = 10 if args.quick else 60
    servers = {mode: serve(procs, name, mode, "--threads=2") for name, mode in (("one", "work-stealing"), ("two", "run-to-completion"))}
    time.sleep(1)
    windows = {mode: machine.Window([p.pid]) for mode, p in servers.items()}
    time.sleep(seconds)
    spent = {mode: w.close() for mode, w in windows.items()}
    shares = {mode: s["own"] / s["wall"] for mode, s in spent.items()}
    procs.stop("serve-one")
    procs.stop("serve-two")
    if os.geteuid() == 0:
        shares |= {f"TCP on {driver}": idle_past_the_kernel(driver, seconds) for driver in ("af_packet", "af_xdp")}
    worst = max(shares, key=shares.get)
    yield {"name": "sched_idle_cpu_share", "value": round(shares[worst], 5), "unit": "ratio",
           "note": f"{seconds} s, two threads and the helper; " + ", ".join(f"{m} {v:.5f}" for m, v in shares.items())}


# --- echo -----------------------------------------------------------------------


def echo_run(procs, name, server, seconds, cpu):
    client = call(procs, name, seconds + 0.4, cpus=cpu)
    time.sleep(0.2)
    window = machine.Window([client.pid, server.pid])
    mine = machine.Window([server.pid])
    time.sleep(seconds)
    spent, served = window.close(), mine.close()
    said = json.loads(procs.finish(f"call-{name}", client, 60))
    return {"rps": said["rps"], "share": spent["own"] / spent["wall"], "per_cpu": said["rps"] * served["wall"] / max(served["own"], 1e-9), "lost": said["lost"]}


def echo(args, procs):
    cpu, seconds, wanted = str(machine.CPUS - 1), 1.0, 4 if args.quick else 15
    servers = {name: serve(procs, name, name, *(["--threads=1", "--spin=0"] if name != "loop" else []), cpus=cpu) for name in ("loop", "run-to-completion")}
    rounds = [{name: echo_run(procs, name, server, seconds, cpu) for name, server in servers.items()} for _ in range(wanted)]
    for name in servers:
        procs.stop(f"serve-{name}")
    for row, key, usable in (("sched_echo_ratio_vs_single_loop", "rps", [r for r in rounds if all(v["share"] >= SHARE for v in r.values())]),
                             ("sched_echo_ratio_vs_single_loop_own", "per_cpu", rounds)):
        if len(usable) < max(3, wanted // 2):
            print(f"{row}: no figure: in {wanted - len(usable)} of {wanted} rounds the two ends did not have the processor for themselves")
            continue
        value, interval = stats.summary(usable, lambda rs, k=key: statistics.median(r["run-to-completion"][k] / r["loop"][k] for r in rs))
        yield {"name": row, "value": round(interval[0], 4), "unit": "ratio", "note": f"lower end; median {value:.3f}, {len(usable)} rounds in turn, window {WINDOW}"
               + ("" if key == "rps" else ", requests per processor second of the server alone")}


# --- TCP ------------------------------------------------------------------------


def serve_tcp(procs, name, *options, prefix=(), cpus=None, address=ADDRESS):
    argv = [*prefix, machine.app("bobtail-serve"), f"--address={address}", f"--port={PORT[name]}", "--mode=run-to-completion", "--protocol=u32", "--ctl=", *options]
    process = procs.start(f"serve-{name}", argv, cpus=cpus)
    time.sleep(0.5)
    procs.check()
    return process


def tcp(args, procs):
    if os.geteuid():
        print("sched_tcp_ratio_vs_epoll: no figure: the client enters a network namespace, which takes root")
        return
    cpu, turns = str(machine.CPUS - 1), 20 if args.quick else 100
    serve_tcp(procs, "tcp", "--threads=1", "--spin=0", cpus=cpu)
    procs.start("serve-epoll", [machine.bench("bench_tcp"), "serve", ADDRESS, PORT["epoll"]], cpus=cpu)
    time.sleep(0.3)
    here = "/proc/self/ns/net"
    said = json.loads(procs.run("turns", [machine.bench("bench_tcp"), "turns", WINDOW, turns, 100, here, ADDRESS, PORT["tcp"], here, ADDRESS, PORT["epoll"]], 120, cpus=cpu))
    procs.stop("serve-tcp")
    procs.stop("serve-epoll")
    value, interval = stats.summary(said, lambda rows: statistics.median(ours / theirs for ours, theirs in rows))
    yield {"name": "sched_tcp_ratio_vs_epoll", "value": round(interval[0], 4), "unit": "ratio",
           "note": f"lower end; median {value:.3f}, {turns} turns of 100 ms each, {WINDOW} connections, client and server on one processor"}


RATE = 5000  # echoes a second, of both


def spent_per_echo(procs, bed, server, seconds):
    """Seconds of the server's threads for an echo."""
    client = [*bed.prefix("client"), machine.bench("bench_tcp"), "rate", tcp_dpdk.SERVER, PORT["tcp"], 16]
    procs.run("warm", [*client, 1, RATE], 60)
    before = machine.own_seconds([server.pid])
    said = json.loads(procs.run("rate", [*client, seconds, RATE], 60 + seconds))
    return (machine.own_seconds([server.pid]) - before) / said["completed"]


def past_the_kernel(procs, seconds):
    with tempfile.TemporaryDirectory() as folder, tcp_dpdk.Bed() as bed:
        inside, socket = bed.prefix("server"), f"{folder}/memif"
        procs.start("switch", [*inside, machine.BUILD / "tests/io/memif_switch", socket, "interface=vs"])
        time.sleep(1)
        server = serve_tcp(procs, "tcp", "--driver=dpdk", f"--dpdk-port=net_memif0,role=client,socket={socket},socket-abstract=no", "--dpdk-hugepages=off",
                           "--dpdk-link-wait=20s", "--threads=1", prefix=inside, address=tcp_dpdk.SERVER)
        time.sleep(2)
        took = spent_per_echo(procs, bed, server, seconds)
        procs.stop("serve-tcp")
        procs.stop("switch")
        return took


def on_the_kernel(procs, seconds):
    with tcp_dpdk.Bed() as bed:
        bed.inside("server", "ip", "addr", "add", f"{tcp_dpdk.SERVER}/24", "dev", "vs")
        server = serve_tcp(procs, "tcp", "--threads=1", prefix=bed.prefix("server"), address=tcp_dpdk.SERVER)
        took = spent_per_echo(procs, bed, server, seconds)
        procs.stop("serve-tcp")
        return took


def share(args, procs):
    if os.geteuid():
        print("tcp_dpdk_instructions_per_echo_share: no figure: it takes root, for network namespaces")
        return
    wanted, seconds = (2, 2) if args.quick else (6, 5)
    rounds = [{"past": past_the_kernel(procs, seconds), "on": on_the_kernel(procs, seconds)} for _ in range(wanted)]
    value, interval = stats.summary(rounds, lambda rs: statistics.median(r["past"] / r["on"] for r in rs))
    past, on = (statistics.median(r[k] for r in rounds) * 1e6 for k in ("past", "on"))
    yield {"name": "tcp_dpdk_instructions_per_echo_share", "value": round(value, 4), "unit": "ratio", "interval": interval,
           "note": f"{past:.1f} over {on:.1f} us of the server's threads, user and system, {RATE} echoes/s, {wanted} rounds in turn; "
                   "with the kernel's TCP much of the work is done for whoever sends, and is in neither"}


# --- skew -----------------------------------------------------------------------


def stolen(procs, name, threads, seconds):
    serve(procs, name, "work-stealing", f"--threads={threads}", "--service-time=fixed:200us")
    said = json.loads(procs.finish(f"call-{name}", call(procs, name, seconds, window=16), 60))
    procs.stop(f"serve-{name}")
    return said["rps"]


def plain(procs, threads, seconds):
    serve(procs, "beside", "loop")
    load = procs.start("load", [machine.app("bobtail-load"), f"--target={ADDRESS}:{PORT['beside']}", "--rate=8000", f"--duration={seconds + 1}s", "--warmup=0s"])
    said = json.loads(procs.run("spin", [machine.bench("bench_serve"), "spin", str(threads), str(int(seconds * 1000))], 60))
    procs.stop("load")
    procs.stop("serve-beside")
    return said["chunks"]


def skew(args, procs):
    wanted, seconds = (2, 1) if args.quick else (8, 2)
    rounds = [{"two": stolen(procs, "two", 2, seconds), "one": stolen(procs, "one", 1, seconds), "plain2": plain(procs, 2, seconds), "plain1": plain(procs, 1, seconds)}
              for _ in range(wanted)]
    ours = statistics.median(r["two"] / r["one"] for r in rounds)
    theirs = statistics.median(r["plain2"] / r["plain1"] for r in rounds)
    if theirs < 1.5:
        print(f"sched_skew_share: no figure: two plain spinning threads do {theirs:.2f} times what one does; other work has the processors (stealing: {ours:.2f})")
        return
    value, interval = stats.summary(rounds, lambda rs: statistics.median((r["two"] / r["one"]) / (r["plain2"] / r["plain1"]) for r in rs))
    yield {"name": "sched_skew_share", "value": round(value, 4), "unit": "ratio", "interval": interval, "note": f"stealing {ours:.2f}, plain {theirs:.2f}, {wanted} rounds in turn"}


# --- a neighbour ----------------------------------------------------------------


def neighbour(procs, milliseconds):
    return json.loads(procs.run("spin", [machine.bench("bench_serve"), "spin", str(machine.CPUS), str(milliseconds)], 60))["chunks"]


def background(args, procs):
    wanted, milliseconds = (3, 800) if args.quick else (10, 1500)
    rounds = []
    for _ in range(wanted):
        absent = neighbour(procs, milliseconds)
        serve(procs, "two", "work-stealing", "--threads=2", "--min-threads=1")
        rounds.append({"beside": neighbour(procs, milliseconds), "absent": absent})
        procs.stop("serve-two")
    value, interval = stats.summary(rounds, lambda rs: statistics.median(r["beside"] / r["absent"] for r in rs))
    yield {"name": "sched_background_gain", "value": round(value, 4), "unit": "ratio", "interval": interval, "note": f"threads that spin, beside an idle server of 1 to 2 threads over without it, {wanted} rounds in turn"}


PARTS = {"instructions": instructions, "idle": idle, "echo": echo, "tcp": tcp, "share": share, "skew": skew, "background": background}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--measurements", metavar="FILE")
    args = parser.parse_args()
    rows, place = [], named()
    for name, part in PARTS.items():
        if args.only in (None, name):
            with machine.Processes(machine.BUILD / "bench-sched" / name) as procs:
                load = machine.load_average()
                for row in part(args, procs):
                    rows.append({**row, "note": f"{row['note']}; {place}, load average {load:.1f}"})
                    print(f"{row['name']:40} {row['value']:10}  {rows[-1]['note']}", flush=True)
    if args.measurements:
        pathlib.Path(args.measurements).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
