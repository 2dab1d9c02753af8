#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the benchmarks, judge them against its goals and write the table of docs/lab/performance.md.

  run.py                     all of them (25 to 30 minutes on two quiet processors)
  run.py --quick             fewer and shorter runs (some 8 minutes); intervals are wide
  run.py --only=proxy,echo   some of them, and only their figures are judged; those of the others keep their last values in the docs
  run.py --no-docs           leave docs/lab/performance.md alone
  run.py --again             measure nothing: draw the figures again from what was measured last
  run.py --suite=bench-crab  CRAB's benchmarks instead, which need root (at most 15 minutes, --quick 3)

Every benchmark is a module here with run(ctx) -> rows {name, value, interval, unit, note}, or, where figures are drawn
from many runs, measure(ctx) -> raw and rows(raw) -> rows. What a benchmark measured, its raw runs included, stays in
build/measurements/<suite>/<benchmark>.json, with the date and the state of the machine. The suite's table in the docs is
only written by a run that was not --quick.
Exit 0 when every required figure meets its goal, 1 when one does not or a benchmark failed.
"""
import argparse
import importlib
import json
import pathlib
import signal
import subprocess
import sys
import time

import machine
import summary
import table

sys.path.insert(0, str(machine.ROOT / "hack/verify"))
import pages  # noqa: E402

SUITES = {"bench": {
    "instructions": "instructions per decision, per RPC through the router, per simulated RPC (callgrind)",
    "stages": "cycles per RPC by stage of the router",
    "l2fwd": "the router's packets per second against a bare forwarder's on ring and memif",
    "proxy": "processor time per request of the router, NGINX and HAProxy on sockets",
    "echo": "one-core echo: libbobtail against plain UDP and gRPC-Go",
}, "bench-crab": {
    "crab_syn": "a SYN through the XDP balancer and through a DNAT program",
    "crab_rr": "requests per second over long connections: CRAB, direct, kube-proxy's DNAT",
    "crab_cpu": "processor time per request of CRAB, HAProxy in TCP mode and NGINX's stream module",
    "crab_connect": "connect, request, close: latency, and what the balancer sees of it",
}}
MEASURED = machine.ROOT / "build" / "measurements"


class Context:
    """What a benchmark is given: how long it may take and where it may write."""

    def __init__(self, quick):
        self.quick = quick
        self.logs = machine.ROOT / "build" / "bench-logs"

    @staticmethod
    def say(text):
        print(text, flush=True)


def run_one(suite, name, ctx):
    """Runs a benchmark and keeps its rows; True when it came to an end."""
    started = time.monotonic()
    ctx.say(f"== {name}: {SUITES[suite][name]}")
    kept = MEASURED / suite / f"{name}.json"
    module = importlib.import_module(name)
    try:
        raw = module.measure(ctx) if hasattr(module, "measure") else None
        rows = module.rows(raw) if raw is not None else module.run(ctx)
    except (machine.Failed, subprocess.SubprocessError, OSError) as err:
        ctx.say(f"{name}: FAILED: {err}")
        kept.unlink(missing_ok=True)  # an old figure must not stand in for one that could not be measured
        return False
    kept.write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "quick": ctx.quick, "load": machine.load_average(),
                                "rows": rows, "raw": raw}, indent=1) + "\n")
    ctx.say(f"   {time.monotonic() - started:.0f} s")
    return True


def draw_again(suite, name):
    """The figures of a benchmark from the runs it kept; without any, its figures stay what they are."""
    kept = MEASURED / suite / f"{name}.json"
    said = json.loads(kept.read_text()) if kept.exists() else {}
    if said.get("raw") is not None:
        said["rows"] = importlib.import_module(name).rows(said["raw"])
        kept.write_text(json.dumps(said, indent=1) + "\n")
    return True


def measurements(suite, names=None):
    """All rows that these benchmarks kept so far, or all of the suite, in the order of SUITES."""
    rows = []
    for name in names or SUITES[suite]:
        path = MEASURED / suite / f"{name}.json"
        if path.exists():
            kept = json.loads(path.read_text())
            rows += [{**row, "date": kept["date"], "quick": kept["quick"]} for row in kept["rows"]]
    return rows


def judged(suite, names, rows):
    """(the report's rows, whether every required figure of these benchmarks meets its goal)"""
    flat = MEASURED / f"{suite}.json"
    flat.write_text(json.dumps(rows, indent=1) + "\n")
    report = subprocess.run([sys.executable, machine.ROOT / "measure/report/report.py", suite, f"--parts={','.join(names)}", "--measurements", flat], stdout=subprocess.DEVNULL)
    return json.loads((machine.ROOT / f"build/report/{suite}.json").read_text()), report.returncode == 0


def write_docs(suite, rows, verdicts, whole):
    """Where only some ran, the page keeps what it says of the others, unless this tree has measured them, too."""
    page = machine.ROOT / pages.PATHS["performance"]
    if not whole:
        how = table.explained.of(suite)
        rows = table.beside(page, suite, how, rows)
        verdicts = table.report.judge(table.report.goals_of(suite), {r["name"]: r["value"] for r in rows}, how)
    table.write_page(page, verdicts, rows, suite)
    summary.main(["write"])


def options(argv):
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--suite", default="bench", choices=list(SUITES))
    ap.add_argument("--only", default="", metavar="A,B", help="; ".join(f"{s}: {', '.join(names)}" for s, names in SUITES.items()))
    ap.add_argument("--quick", action="store_true")
    ap.add_argument("--no-docs", action="store_true")
    ap.add_argument("--again", action="store_true", help="measure nothing")
    args = ap.parse_args(argv)
    known = SUITES[args.suite]
    args.wanted = [n for n in args.only.split(",") if n] or list(known)
    unknown = [n for n in args.wanted if n not in known]
    if unknown:
        ap.error(f"--only={args.only}: no benchmark {unknown[0]} in {args.suite}; there are {', '.join(known)}")
    return args


def end_in_order():
    """Asked to end, as timeout does, a benchmark takes away what it has made: programs, network namespaces, mounts."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def main(argv):
    args = options(argv)
    end_in_order()
    (MEASURED / args.suite).mkdir(parents=True, exist_ok=True)
    ctx = Context(args.quick)
    names = [name for name in SUITES[args.suite] if name in args.wanted]
    finished = [draw_again(args.suite, name) if args.again else run_one(args.suite, name, ctx) for name in names]
    rows = measurements(args.suite, names)
    verdicts, good = judged(args.suite, names, rows)
    print(table.plain(table.lines(verdicts, rows)))
    if not args.quick and not args.no_docs and all(finished):
        write_docs(args.suite, measurements(args.suite), verdicts, names == list(SUITES[args.suite]))
    return 0 if good and all(finished) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
