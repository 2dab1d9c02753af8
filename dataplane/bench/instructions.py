#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count the instructions of the router's hot path under callgrind and print them.

  instructions.py [--measurements=FILE] [--rpcs=N]

Every figure is a mean over one fixed trace (exponential service, load 0.95, dataplane/bench/trace.h). Only the named
functions and what they call are counted, so neither the trace nor the making of packets is, and for the policy only once
the pool has come to its load. A maximum needs a dump per call and is taken over MAX_RPCS of the trace: the dearest single
call of each function, added up. With 16 workers requests wait for credit when they come at random; with 1,024 and three
places at each none ever would, so there they come in bursts, and the figure at random stands beside it. A mean for which
no request waited is refused. FILE gets a list of {"name", "value"} for hack/report/report.py.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parents[2] / "build" / "dataplane" / "bench"
MAX_RPCS = 4000
POLICY = ("policy_decide", "policy_feedback")
ROUTE = ("route_request", "route_feedback")
HALVES = ("split_request", "split_feedback")


def callgrind(command, functions, per_call, holds=False):
    """Instructions inside functions: the total, or one number per call. holds: requests must have waited for credit."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None) as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        options = [f"--toggle-collect={f}" for f in functions]
        if per_call:
            options += ["--combine-dumps=yes"] + [f"--dump-after={f}" for f in functions]
        run = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *options, *command],
                             capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"instructions: {' '.join(command)}: exit {run.returncode}: {run.stderr[-600:]}")
        counts = [int(n) for n in re.findall(r"^totals: (\d+)", out.read_text(), re.MULTILINE)]
    if sum(counts) == 0:
        sys.exit(f"instructions: {' '.join(command)}: none of {', '.join(functions)} was counted; were they inlined?")
    if holds and json.loads(run.stdout)["held"] == 0:
        sys.exit(f"instructions: {' '.join(command)}: no request waited for credit, so this is not the cost with a held queue")
    return counts if per_call else sum(counts)


def mean(command, functions, rpcs):
    return callgrind([*command, str(rpcs)], functions, False, holds=True) / rpcs


def dearest(command, functions):
    return sum(max(callgrind([*command, str(MAX_RPCS)], (f,), True)) for f in functions)


def policy(workers, n, rpcs, warm_up, arrivals, holds=True):
    command = [str(BENCH / "bench_policy"), str(workers), str(n), str(rpcs), str(warm_up), arrivals]
    return callgrind(command, POLICY, False, holds) / rpcs


def dearest_policy(workers, warm_up, arrivals):
    command = [str(BENCH / "bench_policy"), str(workers), "3", str(MAX_RPCS), str(warm_up), arrivals]
    return sum(max(callgrind(command, (f,), True, True)) for f in POLICY)


def policy_rows(rpcs):
    yield "jbsq_instructions_16", policy(16, 3, rpcs, 2000, "random")
    yield "jbsq_instructions_16_max", dearest_policy(16, 2000, "random")
    yield "jbsq1_instructions_16", policy(16, 1, rpcs, 2000, "random")
    yield "jbsq_instructions_1024", policy(1024, 3, rpcs, 20000, "bursts")
    yield "jbsq_instructions_1024_max", dearest_policy(1024, 16000, "bursts")  # the burst fills every place in these
    yield "jbsq_instructions_1024_random", policy(1024, 3, rpcs, 20000, "random", holds=False)
    yield "jbsq1_instructions_1024", policy(1024, 1, rpcs, 20000, "random")


def router_rows(rpcs):
    for form, name in (("transparent", "router_instructions_per_rpc"),
                       ("encapsulated", "router_instructions_per_rpc_tagged")):
        command = [str(BENCH / "bench_router"), "16", form]
        yield name, mean(command, ROUTE, rpcs)
        if form == "transparent":
            yield f"{name}_max", dearest(command, ROUTE)
            yield "router_instructions_per_rpc_tick", mean(command, ("route_tick",), rpcs)
    command = [str(BENCH / "bench_router"), "16", "split"]
    for half in HALVES:
        yield f"router_instructions_per_rpc_{half}", mean(command, (half,), rpcs)
    yield "router_instructions_per_rpc_split", mean(command, HALVES, rpcs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--measurements", metavar="FILE")
    parser.add_argument("--rpcs", type=int, default=100000)  # in 20,000 the share that is held is still a matter of chance
    args = parser.parse_args()
    rows = []
    for source in (policy_rows, router_rows):
        for name, value in source(args.rpcs):
            rows.append({"name": name, "value": round(value, 1)})
            print(f"{name:38} {value:10.1f}", flush=True)
    if args.measurements:
        pathlib.Path(args.measurements).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
