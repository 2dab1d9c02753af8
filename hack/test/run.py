#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the stages of `make test`: progress while it works, a log a stage, one closing line.

  run.py [--only NAME[,NAME]] [--skip NAME[,NAME]] [--list] [--keep-going]

A failing stage prints the end of its log and the likely cause; later stages
still run with --keep-going (CI), otherwise the run ends there. Without root the
stages that need it are left out and named.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

from stages import STAGES

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOGS = ROOT / "build" / "log"
# Closing lines of the runners the stages call, for the one sum at the end.
MESON_OK = re.compile(r"^Ok:\s+(\d+)", re.M)
MESON_FAIL = re.compile(r"^(?:Fail|Timeout|Unexpected Pass):\s+(\d+)", re.M)
MESON_SKIP = re.compile(r"^Skipped:\s+(\d+)", re.M)
GO_PASS = re.compile(r"^\s*--- PASS: ", re.M)
GO_FAIL = re.compile(r"^\s*--- FAIL: ", re.M)
GO_SKIP = re.compile(r"^\s*--- SKIP: ", re.M)
FAILURE = re.compile(r"--- FAIL: |_test\.go:\d+: |\bFAILED\b|^\s*\d+/\d+ .*(FAIL|TIMEOUT)|^panic: |ERROR: |: error: |NOT CAUGHT")
NAMED, TAIL = 30, 40  # lines shown of a failed stage
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)


def count(log):
    """(passed, failed, skipped) tests that a stage's log tells of."""
    passed = sum(map(int, MESON_OK.findall(log))) + len(GO_PASS.findall(log))
    failed = sum(map(int, MESON_FAIL.findall(log))) + len(GO_FAIL.findall(log))
    skipped = sum(map(int, MESON_SKIP.findall(log))) + len(GO_SKIP.findall(log))
    for p, f, s in PLAIN.findall(log):
        passed, failed, skipped = passed + int(p), failed + int(f), skipped + int(s or 0)
    return passed, failed, skipped


def excerpt(lines):
    """What a reader of nothing but this output needs: the lines that name a failure, then how the log ends."""
    named = [line for line in lines if FAILURE.search(line)]
    return [*named[-NAMED:], *(["..."] if named else []), *lines[-TAIL:]]


def busy_seconds():
    """Processor seconds that the machine was not idle since it started, of all processors; None where /proc does not tell."""
    try:
        with open("/proc/stat") as f:
            user, nice, system, _idle, _wait, irq, softirq, *_ = map(int, f.readline().split()[1:])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def busy_share(before, took):
    """How busy all processors were since `before`, in percent: what a stage that waits leaves to others."""
    now = busy_seconds()
    return round(100 * (now - before) / (took * os.cpu_count())) if before is not None and now is not None and took else None


def run_stage(stage):
    path = LOGS / f"test-{stage.name}.log"
    print(f"==> {stage.name}: {stage.proves} (about {stage.cost}; log {path.relative_to(ROOT)})", flush=True)
    start, before = time.monotonic(), busy_seconds()
    # Run as root, no Go test may leave itself out for want of it (hack/test/privileged).
    env = {**os.environ, "BOBTAIL_PRIVILEGED_TESTS": "1"} if os.geteuid() == 0 else None
    with path.open("w") as log:
        code = subprocess.run(["bash", "-euo", "pipefail", "-c", stage.command], cwd=ROOT, stdin=subprocess.DEVNULL,
                              stdout=log, stderr=subprocess.STDOUT, env=env).returncode
    text = path.read_text(errors="replace")
    tests = count(text)
    took = time.monotonic() - start
    busy = busy_share(before, took)
    print(f"    {'ok' if code == 0 else 'FAILED'} in {took:.0f} s (machine busy {busy} %): {tests[0]} passed, {tests[1]} failed, {tests[2]} skipped",
          flush=True)
    if code:
        shown = "\n".join("    | " + line for line in excerpt(text.splitlines()))
        print(f"{shown}\n    stage {stage.name} exited {code}; likely cause: {stage.cause}", flush=True)
    return {"name": stage.name, "ok": code == 0, "seconds": round(took, 1), "tests": tests}


def choose(args):
    names = [s.name for s in STAGES]
    for given in (args.only or []) + (args.skip or []):
        if given not in names:
            raise SystemExit(f"run.py: no stage {given!r}; there are: {', '.join(names)}")
    left_out = []
    chosen = []
    for s in STAGES:
        if (args.only and s.name not in args.only) or (args.skip and s.name in args.skip):
            continue
        if "root" in s.needs and os.geteuid() != 0:
            left_out.append(s.name)
            continue
        chosen.append(s)
    return chosen, left_out


def write_report(results, wall):
    m = ROOT / "build" / "measurements" / "test.json"
    m.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"name": "stages_failed", "value": sum(not r["ok"] for r in results)},
            {"name": "test_wall_seconds", "value": round(wall)}]
    rows += [{"name": f"seconds_{r['name']}", "value": r["seconds"]} for r in results]
    m.write_text(json.dumps(rows))
    return subprocess.run([sys.executable, ROOT / "measure/report/report.py", "test", "--measurements", m]).returncode


def main():
    split = lambda text: [x for x in text.split(",") if x]
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--only", type=split)
    ap.add_argument("--skip", type=split)
    ap.add_argument("--keep-going", action="store_true")
    ap.add_argument("--list", action="store_true")
    args = ap.parse_args()
    chosen, left_out = choose(args)
    if args.list:
        for s in chosen:
            print(f"{s.name:<10} {s.cost:>6}  {s.proves}")
        return 0
    if left_out:
        print(f"not root: leaving out {', '.join(left_out)} (they make network namespaces and start kubelets)", flush=True)
    LOGS.mkdir(parents=True, exist_ok=True)
    start, results = time.monotonic(), []
    for stage in chosen:
        results.append(run_stage(stage))
        if not results[-1]["ok"] and not args.keep_going:
            break
    code = write_report(results, time.monotonic() - start)
    passed, failed, skipped = (sum(r["tests"][i] for r in results) for i in range(3))
    bad = [r["name"] for r in results if not r["ok"]]
    if bad:
        print(f"failed stages: {', '.join(bad)}")
    print(f"{passed} passed, {max(failed, len(bad))} failed, {skipped} skipped")
    return 1 if bad or code else 0


if __name__ == "__main__":
    sys.exit(main())
