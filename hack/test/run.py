#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the stages of a list: progress while it works, a log a stage, one closing line, a report.

  run.py [--of=test|test-all] [--only=NAME[,NAME]] [--skip=NAME[,NAME]] [--list] [--keep-going] [--again]
  run.py --steady [...]

test      proves each system once, every time it is run.
test-all  everything; a stage that passed on this commit, in a tree without changes, is not run again (--again: is).
--steady  every stage of `test` three times in a row beside one busy process per processor; it goes on where it was, too.
--list    prints the stages, what each proves and what it costs, and runs none.

A failing stage prints the end of its log and the likely cause; later stages still run with --keep-going (CI), otherwise
the run ends there. Without root the stages that need it are left out and named.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import time

import machine
import stages
from passed import Passed
from play import ROOT, Job, expected, play, say

STEADY_RUNS = 3
WARM_SECONDS = 30  # a build that took longer had something to build (a fresh clone links everything): judged as a run without caches


def selected(known, name, only, skip):
    """(jobs, names left out) of a list: what was asked for and may run here."""
    names = [s.name for s in known if name in s.forms]
    for given in [*(only or []), *(skip or [])]:
        if given not in names:
            raise SystemExit(f"run.py: no stage {given!r} in {name}; there are: {', '.join(names)}")
    chosen = [s for s in known if s.name in names and (not only or s.name in only) and s.name not in (skip or [])]
    left_out = []
    if os.geteuid() != 0:
        left_out = [s.name for s in chosen if "root" in s.needs]
    jobs = [Job(s, s.forms[name]) for s in chosen if s.name not in left_out]
    if os.geteuid() != 0:
        jobs = [Job(j.stage, j.form._replace(beside=())) for j in jobs]  # they would share loopback addresses (hack/dataplane, apart)
    return jobs, left_out


def list_stages(jobs, state, kind):
    for stage, form in jobs:
        before = state.runs(kind, stage.name, form.command)
        say(f"{stage.name:<14} {form.cost:>5} s  {form.proves or stage.proves}{f' (passed on this commit: {before})' if before else ''}")
    say(f"{'all of them':<14} {expected(jobs):>5} s  on two quiet processors where nothing has to be built")


def report(target, rows, parts):
    path = ROOT / "build" / "measurements" / f"{target}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows) + "\n")
    return subprocess.run([sys.executable, ROOT / "measure/report/report.py", target, "--measurements", path, f"--parts={','.join(parts)}"]).returncode


def seconds(results, jobs, judged):
    """A row for each stage; its budget is judged where the machine was quiet and nothing had to be built."""
    budgets = {job.stage.name: job.form.budget for job in jobs}
    return [{"name": f"seconds_{r.name}", "value": r.seconds, "unit": "s", "op": "<=", "goal": budgets[r.name], "required": judged,
             "how": "its budget in hack/test/stages.py"} for r in results]


def unless_changed(state, note):
    """Notes something only if the tree is still the commit it was."""
    if state.folder is not None and Passed.of(ROOT).folder == state.folder:
        note()


def whole_wall(results, began, whole):
    """({name: seconds}, parts to judge) of the wall time of a whole run, by whether anything had to be built."""
    if not whole:
        return {}, []
    built = next((r.seconds for r in results if r.name == "build"), 0)
    kind = "warm" if built <= WARM_SECONDS else "cold"
    return {"test_wall_seconds" if kind == "warm" else "test_wall_seconds_cold": round(time.time() - began)}, [kind]


def run_list(args, jobs, state, whole):
    """test and test-all: their results and whether the report's figures hold."""
    quiet = machine.quiet()
    done = [] if args.of == stages.TEST or args.again else [j for j in jobs if state.runs("stage", j.stage.name, j.form.command)]
    if done:
        say(f"passed on this commit before, not run again: {', '.join(j.stage.name for j in done)}")
    results = play([j for j in jobs if j not in done], args.keep_going,
                   lambda r: unless_changed(state, lambda: state.note("stage", r.name, r.command, r.ok, r.seconds)))
    finished = len(results) == len(jobs) - len(done)
    wall, parts = whole_wall(results, args.began, whole and finished and args.of == stages.TEST)
    quiet = quiet and machine.quiet()
    rows = [{"name": "stages_failed", "value": sum(not r.ok for r in results)}, {"name": "machine_quiet", "value": quiet},
            *({"name": n, "value": v} for n, v in wall.items()), *seconds(results, jobs, quiet and "cold" not in parts and args.of == stages.TEST)]
    if args.of == stages.ALL:
        rows.append({"name": "stages_left", "value": len(jobs) - len(done) - sum(r.ok for r in results)})
    if wall and all(r.ok for r in results):
        unless_changed(state, lambda: state.keep("test", wall))
    return results, report(args.of, rows, parts if args.of == stages.TEST else ["whole"] if whole else []) == 0


def run_steady(args, jobs, state, whole):
    """Each stage until it passed three times in a row; the runs of this commit's earlier calls count."""
    results, least = [], STEADY_RUNS
    with machine.spinners(os.cpu_count()):
        for job in jobs:
            runs = 0 if args.again else state.runs("steady", job.stage.name, job.form.command)
            while runs < STEADY_RUNS:
                say(f"--- steady: {job.stage.name}, run {runs + 1} of {STEADY_RUNS} beside {os.cpu_count()} busy processes")
                results += play([job], True)
                ok = results[-1].ok
                runs = runs + 1 if ok else 0
                unless_changed(state, lambda: state.note("steady", job.stage.name, job.form.command, ok, results[-1].seconds))
                if not ok:
                    break
            least = min(least, runs)
            if runs < STEADY_RUNS and not args.keep_going:
                break
    rows = [{"name": "steady_runs_green", "value": least}, {"name": "stages_failed", "value": sum(not r.ok for r in results)}]
    if whole and least == STEADY_RUNS:
        unless_changed(state, lambda: state.keep("test-steady", {"steady_runs_green": least}))
    return results, report("test-steady", rows, []) == 0


def processors(results):
    """What each stage took of the processors and of the clock: where one is far below the other times their number, others may run beside it."""
    each = ", ".join(f"{r.name} {r.processor:.0f} in {r.seconds:.0f}" for r in results)
    return f"seconds of {os.cpu_count()} processors in seconds of the clock: {each}; together {sum(r.processor for r in results):.0f}"


def options(argv):
    split = lambda text: [x for x in text.split(",") if x]
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--of", default=stages.TEST, choices=(stages.TEST, stages.ALL))
    ap.add_argument("--steady", action="store_true")
    ap.add_argument("--only", type=split)
    ap.add_argument("--skip", type=split)
    ap.add_argument("--keep-going", action="store_true")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--again", action="store_true", help="run what passed on this commit, too")
    ap.add_argument("--began", type=float, default=time.time(), help="when the caller began (seconds since 1970): counts into the wall time")
    args = ap.parse_args(argv)
    if args.steady and args.of != stages.TEST:
        ap.error("--steady plays the stages of test")
    return args


def main(argv):
    args = options(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    jobs, left_out = selected(stages.STAGES, args.of, args.only, args.skip)
    state = Passed.of(ROOT)
    if args.list:
        list_stages(jobs, state, "steady" if args.steady else "stage")
        return 0
    if left_out:
        say(f"not root: leaving out {', '.join(left_out)} (they make network namespaces and start kubelets)")
    if state.folder is None and (args.steady or args.of == stages.ALL):
        say("the tree differs from its commit (git status): what passes is not remembered")
    whole = not (args.only or args.skip or left_out)
    results, good = (run_steady if args.steady else run_list)(args, jobs, state, whole)
    say(processors(results))
    passed, failed, skipped = (sum(r.tests[i] for r in results) for i in range(3))
    bad = [r.name for r in results if not r.ok]
    if bad:
        say(f"failed stages: {', '.join(bad)}")
        for result in results:
            for line in result.failures:
                say(f"  {result.name}: {line}")
    say(f"{passed} passed, {max(failed, len(bad))} failed, {skipped} skipped")
    return 1 if bad or not good else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
