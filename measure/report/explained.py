#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each figure means: the tables of a page, and that every goal has its row there.

  explained.py     exits 1 when a goal has no row, a row no goal, or another unit
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "hack/verify"))
from pages import PATHS  # noqa: E402

ROW = re.compile(r"^\| `([^`]+)` \| (\S+) \| (.*) \|$")


def tables(text):
    """{target: {figure: (unit, meaning)}}; a target is a heading, a figure a row below it."""
    found, target = {}, ""
    for line in text.splitlines():
        if line.startswith("## "):
            target = line[3:].strip()
        elif m := ROW.match(line):
            found.setdefault(target, {})[m[1]] = m[2], m[3].replace("\\|", "|")
    return found


def of(target):
    """{figure: meaning} of a target; empty without the page, since a report is one without words, too."""
    page = ROOT / PATHS["explained"]
    return {name: meaning for name, (_, meaning) in tables(page.read_text()).get(target, {}).items()} if page.is_file() else {}


def faults(shown, goals):
    """What of {target: {figure: (unit, meaning)}} and {target: [goal]} is not the same."""
    bad = []
    for target in sorted({*shown, *goals}):
        rows, wanted = shown.get(target, {}), {g["name"]: g for g in goals.get(target, [])}
        bad += [f"{target}: {name} has a goal and no row" for name in wanted if name not in rows]
        bad += [f"{target}: {name} has a row and no goal" for name in rows if name not in wanted]
        bad += [f"{target}: {name} is in {rows[name][0]}, its goal in {g['unit']}" for name, g in wanted.items() if name in rows and rows[name][0] != g["unit"]]
    return bad


def main():
    goals = {f.stem: json.loads(f.read_text()) for f in (ROOT / "measure" / "goals").glob("*.json")}
    bad = faults(tables((ROOT / PATHS["explained"]).read_text()), goals)
    for fault in bad:
        print(f"{PATHS['explained']}: {fault}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
