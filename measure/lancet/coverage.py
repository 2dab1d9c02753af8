#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often Lancet's intervals hold the truth: the measurement that is kept, and its table in docs/lab/lancet.md.

  coverage.py digest             of the code that the simulated experiments run
  coverage.py keep FILE DIGEST   a run's measurements become docs/lab/lancet-coverage.json and the table
  coverage.py kept FILE          writes what is kept as measurements and prints it; exit 1 when it is of other code,
                                 or of fewer experiments than the goals ask for
  coverage.py check              exit 1 when the table is not what is kept, or that is of other code

A run takes 20 minutes (make lancet-coverage) and its draws are seeded, so that the same code has the same figures:
they are measured again when the code changes, which is what the digest tells. It is of Go without comments.
"""
import datetime
import hashlib
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "hack/verify"))
import pages  # noqa: E402

KEPT, PAGE = pages.PATHS["coverage"], pages.PATHS["lancet"]
LANCET = "operator/internal/lancet"
TRUTH = "operator/internal/queueing"  # what the intervals must hold
BESIDE = ("router.go",)  # of it: which model a service's policy has, which no experiment asks
# The tests that are the experiment: its queues, and how it is counted.
EXPERIMENT = ("coverage_test.go", "models_test.go", "queue_test.go")
WHOLE = 500  # experiments of each queue that the goals ask for
LEAST = 50  # for a table until somebody has 20 minutes
QUEUES = {"mm1": "M/M/1, load 0.7", "md1": "M/D/1, load 0.7", "mmk": "M/M/4, load 0.8"}
BEGIN, END = "<!-- coverage: measure/lancet/coverage.py writes this -->\n", "<!-- /coverage -->\n"
TOKENS = re.compile(r'"(?:\\.|[^"\\\n])*"|`[^`]*`|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)


def code_of(go):
    """Go without comments and empty lines."""
    bare = TOKENS.sub(lambda m: " " if m.group().startswith(("//", "/*")) else m.group(), go)
    return "\n".join(line.rstrip() for line in bare.splitlines() if line.strip())


def digest(root=ROOT):
    folder = root / LANCET
    globs = (folder.glob("*.go"), folder.glob("stats/*.go"), (root / TRUTH).glob("*.go"))
    sources = [f for glob in globs for f in glob if not f.name.endswith("_test.go") and f.name not in BESIDE]
    all_of_them = hashlib.sha256()
    for f in sorted([*sources, *(folder / name for name in EXPERIMENT)]):
        all_of_them.update(f"{f.relative_to(root)}\n{code_of(f.read_text())}\n".encode())
    return all_of_them.hexdigest()


def wilson(share, n, z=1.96):
    """The 95 % interval of a share seen n times."""
    if n == 0:
        return 0.0, 1.0
    middle, half = share + z * z / (2 * n), z * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def table(kept):
    value = {m["name"]: m["value"] for m in kept["measurements"]}
    n = value["lancet_experiments"]
    short = "" if n >= WHOLE else f" The whole run has {WHOLE}: `make figures` and `make lancet-coverage` make it and put it here."
    lines = [f"Measured on {kept['date']}, {n} experiments of each queue; in brackets the 95 % interval of the share (Wilson).{short}", "",
             "| queue | conclusive | hold the truth |", "|---|---|---|"]
    for name, title in QUEUES.items():
        conclusive, share = round(value["lancet_conclusive_share_" + name] * n), value["lancet_ci_coverage_" + name]
        low, high = wilson(share, conclusive)
        lines.append(f"| {title} | {conclusive} of {n} | {round(share * conclusive)} of {conclusive}: {share:.3f} ({low:.3f} … {high:.3f}) |")
    return "\n".join(lines) + "\n"


def with_table(page, text):
    before, _, rest = page.partition(BEGIN)
    old, _, after = rest.partition(END)
    if not old or END in after:
        raise SystemExit(f"coverage: {PAGE}: wants its table between the lines {BEGIN.strip()} and {END.strip()}, once")
    return before + BEGIN + text + END + after


def load(root):
    path = root / KEPT
    return json.loads(path.read_text()) if path.exists() else {"date": "", "code": "", "measurements": []}


def experiments(kept):
    return next((m["value"] for m in kept["measurements"] if m["name"] == "lancet_experiments"), 0)


def keep(path, of, root=ROOT):
    try:
        rows = json.loads(pathlib.Path(path).read_text())
    except FileNotFoundError:
        raise SystemExit(f"coverage: {path}: no such file: the run ended before it had measured anything")
    value = {m["name"]: m["value"] for m in rows}
    n = value.get("lancet_experiments", 0)
    if of != digest(root):
        raise SystemExit(f"coverage: {LANCET} changed while it was measured: measure again")
    least = experiments(load(root)) if not current(root) else LEAST
    if n < least:
        print(f"coverage: {n} experiments of each queue are not kept: the table of {PAGE} has, or wants, {least}")
        return 0
    kept = {"date": datetime.date.today().isoformat(), "code": of, "measurements": rows}
    (root / KEPT).write_text(json.dumps(kept, indent=1) + "\n")
    page = root / PAGE
    page.write_text(with_table(page.read_text(), table(kept)))
    print(table(kept), end="")
    return 0


def current(root):
    """Why what is kept is not of this code; empty: it is."""
    if load(root)["code"] == digest(root):
        return ""
    return f"{KEPT} is of other code than {LANCET} (its queues and stats with it) and {TRUTH}: run make lancet-coverage (20 min) and commit what it writes"


def kept_as(path, root=ROOT):
    why = current(root)
    if not why and experiments(load(root)) < WHOLE:
        why = f"{KEPT} has {experiments(load(root))} experiments of each queue: the whole run has {WHOLE}"
    if why:
        print(f"coverage: {why}")
        return 1
    pathlib.Path(path).write_text(json.dumps(load(root)["measurements"], indent=1) + "\n")
    print(f"Lancet's intervals; the code is as it was then. {table(load(root))}", end="")
    return 0


def check(root=ROOT):
    page = (root / PAGE).read_text()
    faults = [current(root)]
    kept = load(root)
    if kept["measurements"] and with_table(page, table(kept)) != page:
        faults.append(f"{PAGE}: the table is not what {KEPT} says: run make lancet-coverage, or undo the edit")
    for fault in filter(None, faults):
        print(f"coverage: {fault}", file=sys.stderr)
    return 1 if any(faults) else 0


def main(argv):
    match argv:
        case ["digest"]:
            print(digest())
            return 0
        case ["keep", path, of]:
            return keep(path, of)
        case ["kept", path]:
            return kept_as(path)
        case ["check"]:
            return check()
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
