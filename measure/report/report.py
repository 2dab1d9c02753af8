#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judge measurements against measure/goals/<target>.json, print a table, write build/report/<target>.json.

Every target that measures something ends here, so that "ok" is computed in one
place, a figure that was promised but not measured fails, and the goals stand in
one folder that can be reviewed. What a figure means is said by a page of the docs (explained.py).

  report.py TARGET --measurements FILE [FILE ...]   judge and write the report
  report.py TARGET --parts A,B --measurements FILE  the same of a partial run: figures of its other parts were not asked for
  report.py --show [TARGET ...]                     print reports already written

A measurements file is a JSON list of {"name", "value"} (other keys are kept as
"note"); a name given twice takes the last value. A goal with a "part" belongs to
that part of the target; --parts names those that ran (none: --parts=), and what
a part that ran did not measure is missing all the same. A measurement may bring
its goal itself (op, goal, required, unit, how). Exit 0 when every required
figure meets its goal, 1 when one does not, 2 on bad usage.
"""
import argparse
import json
import operator
import pathlib
import sys

import explained

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOALS = ROOT / "measure" / "goals"
OPS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "==": operator.eq}


def meets(value, op, goal):
    """True when value satisfies `op goal`; a missing value (None) never does."""
    if value is None:
        return False
    if op == "between":
        return goal[0] <= value <= goal[1]
    if isinstance(goal, bool) != isinstance(value, bool):
        return False
    return OPS[op](value, goal)


def load_rows(files):
    """Return {name: row} of all files; a bad file is an error that names it."""
    out = {}
    for name in files:
        try:
            rows = json.loads(pathlib.Path(name).read_text())
            for row in rows:
                out[row["name"]] = {**row, "value": row["value"]}
        except FileNotFoundError:
            print(f"report: {name}: no such measurements file; its figures count as missing", file=sys.stderr)
        except (ValueError, KeyError, TypeError) as err:
            raise SystemExit(f"report: {name}: not a list of {{name, value}}: {err}")
    return out


def goals_of(target, folder=GOALS):
    """What is asked of a target's figures, in order."""
    return json.loads((pathlib.Path(folder) / f"{target}.json").read_text())


def of_parts(goals, parts):
    """The goals that a run of these parts is judged by; None: a whole run."""
    for part in parts or []:
        if not any(g.get("part") == part for g in goals):
            print(f"report: part {part!r} owes no figure", file=sys.stderr)
    return [g for g in goals if parts is None or "part" not in g or g["part"] in parts]


def judged_row(goal, value, how):
    return {"name": goal["name"], "value": value, "unit": goal["unit"], "op": goal["op"], "goal": goal["goal"],
            "required": goal["required"], "ok": meets(value, goal["op"], goal["goal"]), "how": how}


def own_row(row):
    """A measurement that the goals do not know: judged by the goal it brings, or only reported."""
    if "goal" in row:
        return judged_row({"unit": "", "required": False, **row}, row["value"], row.get("how", ""))
    return {"name": row["name"], "value": row["value"], "unit": "", "op": "", "goal": None,
            "required": False, "ok": True, "how": "reported, no goal"}


def judge(goals, values, how=None, parts=None, measured=None):
    """Rows of the report: goals in order, then measurements that have none there.

    how: {name: what the figure means}; parts: those of a partial run, None of a whole one; measured: the whole rows of
    the measurements by name.
    """
    rows = [judged_row(g, values.get(g["name"]), (how or {}).get(g["name"], "")) for g in of_parts(goals, parts)]
    known = {g["name"] for g in goals}
    return rows + [own_row((measured or {}).get(name) or {"name": name, "value": values[name]}) for name in values if name not in known]


def text(value):
    if value is None:
        return "missing"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    if isinstance(value, list):
        return "..".join(text(v) for v in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def verdict(row):
    if row["ok"]:
        return "ok" if row["op"] else "-"
    return "FAIL" if row["required"] else "below goal"


def table(target, rows):
    width = max([len(r["name"]) for r in rows] + [6])
    lines = [f"report {target}", f"  {'FIGURE':<{width}}  {'VALUE':>10}  {'GOAL':>16}  {'UNIT':<6} VERDICT"]
    for r in rows:
        goal = f"{r['op']} {text(r['goal'])}" if r["op"] else ""
        lines.append(f"  {r['name']:<{width}}  {text(r['value']):>10}  {goal:>16}  {r['unit']:<6} {verdict(r)}")
    return "\n".join(lines)


def report_dir():
    return ROOT / "build" / "report"


def show(targets):
    for path in sorted(report_dir().glob("*.json")):
        if not targets or path.stem in targets:
            print(table(path.stem, json.loads(path.read_text())))


def main(argv):
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("target", nargs="*", help="report to make, or with --show those to print")
    ap.add_argument("--measurements", nargs="+", default=[], metavar="FILE")
    ap.add_argument("--goals", default=str(GOALS), metavar="FOLDER")
    ap.add_argument("--parts", metavar="A,B", help="the parts that ran, of a run that was not whole")
    ap.add_argument("--show", action="store_true")
    args = ap.parse_args(argv)
    if args.show:
        show(args.target)
        return 0
    if len(args.target) != 1:
        ap.error("give exactly one TARGET")
    target = args.target[0]
    if not (pathlib.Path(args.goals) / f"{target}.json").is_file():
        ap.error(f"{target}: {args.goals} has no {target}.json; write its goals there")
    measured = load_rows(args.measurements)
    parts = None if args.parts is None else [p for p in args.parts.split(",") if p]
    values = {name: row["value"] for name, row in measured.items()}
    rows = judge(goals_of(target, args.goals), values, explained.of(target), parts, measured)
    report_dir().mkdir(parents=True, exist_ok=True)
    (report_dir() / f"{target}.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(table(target, rows))
    return 1 if any(r["required"] and not r["ok"] for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
