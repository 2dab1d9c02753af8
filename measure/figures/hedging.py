#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Hedged requests in the simulator: the tables and the plot of docs/lab/hedging.md.

  hedging.py digest              of the code that those runs execute
  hedging.py write LOADS NONE CELLS DIGEST MEASUREMENTS
                                 what `bobtail-sim hedge`, the same with --cleanup=None, and `bobtail-sim hedge --cells`
                                 wrote with --json; the digest is that of before
  hedging.py check               exits 1 when the tables are not what docs/lab/figures/hedging.json makes, when that is of
                                 other code, or when it misses a goal

make figures writes them. The same seed gives the same digits on any machine, so a difference is one of the code.
"""
import hashlib
import json
import pathlib
import sys

import hedging_judged as judged

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "measure/lancet"), str(ROOT / "hack/verify")]
from coverage import code_of  # noqa: E402  Go and C have the same comments and strings
from pages import PATHS  # noqa: E402

PAGE, KEPT, PLOT = ROOT / PATHS["hedging"], ROOT / PATHS["pictures"] / "hedging.json", ROOT / PATHS["pictures"] / "hedging.svg"
POLICIES = ("Random", "JSQ", "PSQ", "Naive", "Delayed", "LoadAware", "LA+CC", "LA+CC+PC", "Idealized")
VARIANTS = ("LoadAware", "LA+CC", "LA+CC+PC")  # what the gate judges
HARM = 1.05
PUBLISHED = judged.PUBLISHED
# What the runs execute: the model, the policy, the draws. Comments do not count.
CODE = ("sim/fanout_*.c", "sim/fanout_*.h", "sim/laedge.[ch]", "sim/stream.[ch]", "sim/sample.[ch]", "src/base/rng.*")
SHOWN = (("PSQ", "no copies (PSQ)", "black", {}), ("LoadAware", "LÆDGE", 2, {}), ("LA+CC+PC", "LÆDGE with cleanup and pre-emption", 1, {}),
         ("Idealized", "bound (Idealized)", "#888888", {"dash": True}))


def digest(root=ROOT):
    all_of_them = hashlib.sha256()
    for f in sorted(f for glob in CODE for f in (root / "dataplane").glob(glob)):
        all_of_them.update(f"{f.relative_to(root)}\n{code_of(f.read_text())}\n".encode())
    return all_of_them.hexdigest()


def tally(cells, policy):
    """What the command prints of a policy: gains in %, cells above HARM times PSQ, what the gate said."""
    ratio = {q: [c[policy][q] / c["PSQ"][q] for c in cells] for q in ("p50", "p99")}
    hurt = [a > HARM or b > HARM for a, b in zip(ratio["p50"], ratio["p99"])]
    said = [c["gate"].get(policy) for c in cells]
    return {"gain": [round(100 * sum(r < 0.8 - 0.1 * g for r in ratio["p99"]) / len(cells), 1) for g in range(3)],
            "p50": sum(r > HARM for r in ratio["p50"]), "p99": sum(r > HARM for r in ratio["p99"]), "either": sum(hurt),
            "on": said.count("Pays"), "harmed": sum(h for h, s in zip(hurt, said) if s == "Pays"),
            "refused": [said.count(why) for why in ("Overloaded", "MedianWouldRise", "TailTooLittle")]}


def kept(loads, none, cells, of):
    """What the page is made of."""
    rows = [{"load": r["load"], "preempted": r["LA+CC+PC"]["preempted"],
             **{p: {q: round(r[p][q], 5) for q in ("p50", "p99")} for p in POLICIES}} for r in loads]
    bare = [{"load": r["load"], **{p: {"p99": round(r[p]["p99"], 5)} for p in (*judged.EXISTING, "Idealized")}} for r in none]
    return {"code": of, "loads": rows, "withoutCleanup": bare, "cells": len(cells), "tally": {p: tally(cells, p) for p in PUBLISHED}}


def over_loads(data):
    lines = ["```sh output", f"{'load':>6}" + "".join(f"{p:>10}" for p in POLICIES)]
    lines += [f"{r['load']:6.2f}" + "".join(f"{r[p]['p99']:10.2f}" for p in POLICIES) for r in data["loads"]]
    most, mean = judged.above_bound(data["loads"], ("LoadAware",))
    return lines + ["```", "", f"p99 of LoadAware above that of Idealized: {most:.2f} at most, {mean:.2f} on average over loads of 5 to 50 %."]


def over_twins(data):
    """How often pre-emption takes the right one."""
    lines = ["| load | twins that made room | would have ended later | one had a hiccup, begun together | right | hedged request begun later | right |",
             "|---|---|---|---|---|---|---|"]
    for r in data["loads"]:
        cells = [f"{n} | {100 * good / n if n else 100:.2f} %" for n, good in r["preempted"]]
        lines.append(f"| {r['load']:.2f} | " + " | ".join(cells) + " |")
    return lines


def over_cells(data):
    lines = ["| | > 20 % | > 30 % | > 40 % |", "|---|---|---|---|"]
    for policy, published in PUBLISHED.items():
        lines.append(f"| {policy} | " + " | ".join(f"{g:.1f} ({p})" for g, p in zip(data["tally"][policy]["gain"], published)) + " |")
    lines += ["", f"And of the same {data['cells']} cells, those where a policy hurts, which the published maps do not show (p50 or p99 above {HARM} times that of PSQ):", "",
              "| | p50 | p99 | either | the gate lets through | of them, harmed | refused: overloaded, median, tail |", "|---|---|---|---|---|---|---|"]
    for policy in VARIANTS:
        t = data["tally"][policy]
        lines.append(f"| {policy} | {t['p50']} | {t['p99']} | {t['either']} | {t['on']} | {t['harmed']} | {', '.join(map(str, t['refused']))} |")
    return lines


def page(text, data):
    """The page with its tables between the marks."""
    for name, lines in (("loads", over_loads(data)), ("judged", judged.table(data)), ("twins", over_twins(data)), ("cells", over_cells(data))):
        begin, end = f"<!-- {name}: measure/figures/hedging.py writes this -->\n", f"<!-- /{name} -->\n"
        before, mark, rest = text.partition(begin)
        _, close, after = rest.partition(end)
        if not mark or not close:
            raise SystemExit(f"hedging: {PAGE.name}: wants its table between the lines {begin.strip()} and {end.strip()}")
        text = before + begin + "\n".join(lines) + "\n" + end + after
    return text


def panel(data, quantile, top):
    lines = [{"label": label, "x": [100 * r["load"] for r in data["loads"]], "y": [r[policy][quantile] for r in data["loads"]], "color": colour, **style}
             for policy, label, colour, style in SHOWN]
    return {"title": quantile, "x": "load [%]", "y": f"{quantile} [mean service times]", "low": 0, "top": top, "lines": lines}


def write(loads, none, cells, of, measurements):
    import plot  # matplotlib: a check does without
    if of != digest():
        raise SystemExit("hedging: the code changed while it was measured: measure again")
    data = kept(*(json.loads(pathlib.Path(f).read_text()) for f in (loads, none, cells)), of)
    parts = [f'"{name}": ' + ("[\n" + ",\n".join(map(json.dumps, v)) + "]" if isinstance(v, list) else json.dumps(v)) for name, v in data.items()]
    KEPT.write_text("{" + ",\n".join(parts) + "}\n")
    pathlib.Path(measurements).write_text(json.dumps(judged.measurements(data), indent=1) + "\n")
    PAGE.write_text(page(PAGE.read_text(), data))
    plot.draw([panel(data, "p99", 32), panel(data, "p50", 12)], [PLOT])
    return 0


def check():
    text, data = PAGE.read_text(), json.loads(KEPT.read_text())
    faults = [f"docs/lab/figures/hedging.json: {why}" for why in judged.missed(data)]
    if data["code"] != digest():
        faults.append("docs/lab/figures/hedging.json is of other code (hedging.py: CODE): run make figures and commit what it writes")
    if page(text, data) != text:
        faults.append("docs/lab/hedging.md: a table is not what docs/lab/figures/hedging.json makes: run make figures, or undo the edit")
    for fault in faults:
        print(f"hedging: {fault}", file=sys.stderr)
    return 1 if faults else 0


def main(argv):
    if argv == ["digest"]:
        print(digest())
        return 0
    if len(argv) == 6 and argv[0] == "write":
        return write(*argv[1:])
    if argv == ["check"]:
        return check()
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
