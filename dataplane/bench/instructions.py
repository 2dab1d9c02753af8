#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count the instructions of the router's hot path under callgrind and print them.

  instructions.py [--measurements=FILE] [--rpcs=N]

Every figure is over one fixed trace (exponential service, load 0.95, dataplane/bench/trace.h), all of it. Only the named
functions and what they call are counted, so neither the trace nor the making of packets is, and for the policy only once
the pool has come to its load. A mean is what is counted over the RPCs; a maximum is the dearest single call of each
function, added up. With 16 workers requests wait for credit when they come at random; with 1,024 and three places at each
none ever would, so there they come in bursts, and the figure at random stands beside it. A mean for which no request
waited is refused where one should have. FILE gets a list of {"name", "value", "note"} for measure/report/report.py.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parents[2] / "build" / "dataplane" / "bench"
POLICY = ("policy_decide", "policy_feedback")
FIFO = ("fifo_decide", "fifo_feedback", "fifo_pump")
ROUTE = ("route_request", "route_feedback")
HALVES = ("split_request", "split_feedback")


def callgrind(command, functions, per_call):
    """What the program printed, and the instructions inside functions: the total, or one number per call."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None) as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        options = [f"--toggle-collect={f}" for f in functions]
        if per_call:
            options += ["--combine-dumps=yes"] + [f"--dump-after={f}" for f in functions]
        run = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *options, *command],
                             capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"instructions: {' '.join(command)}: exit {run.returncode}: {run.stderr[-600:]}")
        with out.open() as lines:
            counts = [int(line.split()[1]) for line in lines if line.startswith("totals: ")]
    if sum(counts) == 0:
        sys.exit(f"instructions: {' '.join(command)}: none of {', '.join(functions)} was counted; were they inlined?")
    return json.loads(run.stdout), counts if per_call else sum(counts)


def mean(command, functions, rpcs, holds=True):
    """A row's value and note. holds: requests must have waited for credit."""
    said, total = callgrind(command, functions, False)
    if holds and said["held"] == 0:
        sys.exit(f"instructions: {' '.join(command)}: no request waited for credit, so this is not the cost with a held queue")
    return total / rpcs, f"callgrind; {rpcs} RPCs, {100 * said['held'] / rpcs:.0f} % of the requests held"


def dearest(command, functions, rpcs):
    calls = [max(callgrind(command, (f,), True)[1]) for f in functions]
    return sum(calls), f"callgrind; the dearest call of each in {rpcs} RPCs, added up: {', '.join(f'{f} {n}' for f, n in zip(functions, calls))}"


def policy(workers, n, arrivals, rpcs, counted="policy"):
    warm_up = 20 * workers if workers > 100 else 2000
    return [str(BENCH / "bench_policy"), str(workers), str(n), str(rpcs), str(warm_up), arrivals, counted]


def router(workers, form, rpcs, burst=1):
    return [str(BENCH / "bench_router"), str(workers), form, str(rpcs), str(burst)]


def policy_rows(rpcs):
    """(name, function that counts it, its arguments)"""
    for workers, arrivals, name in ((16, "random", "jbsq_instructions_16"), (1024, "bursts", "jbsq_instructions_1024"),
                                    (1024, "random", "jbsq_instructions_1024_random")):
        holds = (workers, arrivals) != (1024, "random")
        yield name, mean, policy(workers, 3, arrivals, rpcs), POLICY, rpcs, holds
        yield f"{name}_fifo", mean, policy(workers, 3, arrivals, rpcs, "fifo"), FIFO, rpcs, holds
        if holds:
            yield f"{name}_max", dearest, policy(workers, 3, arrivals, rpcs), POLICY, rpcs
    for workers in (16, 1024):
        yield f"jbsq1_instructions_{workers}", mean, policy(workers, 1, "random", rpcs), POLICY, rpcs


def router_rows(rpcs):
    name = "router_instructions_per_rpc"
    yield name, mean, router(16, "transparent", rpcs), ROUTE, rpcs
    yield f"{name}_max", dearest, router(16, "transparent", rpcs), ROUTE, rpcs
    yield f"{name}_tick", mean, router(16, "transparent", rpcs), ("route_tick",), rpcs
    yield f"{name}_256", mean, router(256, "transparent", rpcs), ROUTE, rpcs, False
    yield f"{name}_tagged", mean, router(16, "encapsulated", rpcs), ROUTE, rpcs
    yield f"{name}_split", mean, router(16, "split", rpcs), HALVES, rpcs
    for half in HALVES:
        yield f"{name}_{half}", mean, router(16, "split", rpcs), (half,), rpcs
    for burst in (16, 64):  # what waits for its burst keeps a place at a worker, of which 16 have too few
        command = router(256, "split-bursts", rpcs, burst)
        yield f"{name}_split_burst{burst}", mean, command, HALVES, rpcs, False
        for half in HALVES:
            yield f"{name}_{half}_burst{burst}", mean, command, (half,), rpcs, False


def counted(job):
    name, count, *arguments = job
    value, note = count(*arguments)
    print(f"{name:48} {value:10.1f}  {note}", flush=True)
    return {"name": name, "value": round(value, 1), "note": note}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--measurements", metavar="FILE")
    parser.add_argument("--rpcs", type=int, default=100000)  # in 20,000 the share that is held is still a matter of chance
    args = parser.parse_args()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # what others do at the same time is not counted
        rows = list(pool.map(counted, [*policy_rows(args.rpcs), *router_rows(args.rpcs)]))
    if args.measurements:
        pathlib.Path(args.measurements).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
