#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Second copies in the simulator: the tables and the plot of docs/hedging.md.

  hedging.py write LOADS CELLS   what `bobtail-sim hedge` and `bobtail-sim hedge --cells` wrote with --json
  hedging.py check               exits 1 when the tables are not what docs/figures/hedging.json makes

make figures writes them. The same seed gives the same digits on any machine, so a difference is one of the code.
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, KEPT, PLOT = ROOT / "docs" / "hedging.md", ROOT / "docs" / "figures" / "hedging.json", ROOT / "docs" / "figures" / "hedging.svg"
POLICIES = ("Random", "JSQ", "PSQ", "Naive", "Delayed", "LoadAware", "LA+CC", "LA+CC+PC", "Idealized")
VARIANTS = ("LoadAware", "LA+CC", "LA+CC+PC")  # what the gate judges
HARM = 1.05
# Share of the cells whose p99 is more than 20, 30, 40 % below that of PSQ, as published.
PUBLISHED = {"LoadAware": (13.4, 9.8, 3.8), "LA+CC": (16.8, 12.2, 5.2), "LA+CC+PC": (15.9, 12.3, 9.2), "Idealized": (29.9, 21.5, 15.4)}
SHOWN = (("PSQ", "no copies (PSQ)", "black", {}), ("LoadAware", "LÆDGE", 2, {}), ("LA+CC+PC", "LÆDGE with cleanup and pre-emption", 1, {}),
         ("Idealized", "bound (Idealized)", "#888888", {"dash": True}))


def tally(cells, policy):
    """What the command prints of a policy: gains in %, cells above HARM times PSQ, what the gate said."""
    ratio = {q: [c[policy][q] / c["PSQ"][q] for c in cells] for q in ("p50", "p99")}
    hurt = [a > HARM or b > HARM for a, b in zip(ratio["p50"], ratio["p99"])]
    said = [c["gate"].get(policy) for c in cells]
    return {"gain": [round(100 * sum(r < 0.8 - 0.1 * g for r in ratio["p99"]) / len(cells), 1) for g in range(3)],
            "p50": sum(r > HARM for r in ratio["p50"]), "p99": sum(r > HARM for r in ratio["p99"]), "either": sum(hurt),
            "on": said.count("Pays"), "harmed": sum(h for h, s in zip(hurt, said) if s == "Pays"),
            "refused": [said.count(why) for why in ("Overloaded", "MedianWouldRise", "TailTooLittle")]}


def kept(loads, cells):
    """What the page is made of."""
    rows = [{"load": r["load"], **{p: {q: round(r[p][q], 5) for q in ("p50", "p99")} for p in POLICIES}} for r in loads]
    return {"loads": rows, "cells": len(cells), "tally": {p: tally(cells, p) for p in PUBLISHED}}


def gap(rows):
    gaps = {r["load"]: r["LoadAware"]["p99"] - r["Idealized"]["p99"] for r in rows}
    middle = [g for load, g in gaps.items() if 0.049 <= load <= 0.501]
    return max(gaps.values()), sum(middle) / len(middle)


def over_loads(data):
    lines = ["```sh output", f"{'load':>6}" + "".join(f"{p:>10}" for p in POLICIES)]
    lines += [f"{r['load']:6.2f}" + "".join(f"{r[p]['p99']:10.2f}" for p in POLICIES) for r in data["loads"]]
    most, mean = gap(data["loads"])
    return lines + ["```", "", f"p99 of LoadAware above that of Idealized: {most:.2f} at most, {mean:.2f} on average over loads of 5 to 50 %."]


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
    for name, lines in (("loads", over_loads(data)), ("cells", over_cells(data))):
        begin, end = f"<!-- {name}: hack/figures/hedging.py writes this -->\n", f"<!-- /{name} -->\n"
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


def write(loads, cells):
    import plot  # matplotlib: a check does without
    data = kept(json.loads(pathlib.Path(loads).read_text()), json.loads(pathlib.Path(cells).read_text()))
    rows = ",\n".join(json.dumps(r) for r in data["loads"])
    KEPT.write_text('{"loads": [\n' + rows + f'],\n"cells": {data["cells"]},\n"tally": ' + json.dumps(data["tally"]) + "}\n")
    PAGE.write_text(page(PAGE.read_text(), data))
    plot.draw([panel(data, "p99", 32), panel(data, "p50", 12)], [PLOT])
    return 0


def main(argv):
    if len(argv) == 3 and argv[0] == "write":
        return write(*argv[1:])
    if argv == ["check"]:
        text = PAGE.read_text()
        if page(text, json.loads(KEPT.read_text())) == text:
            return 0
        print("docs/hedging.md: a table is not what docs/figures/hedging.json makes: run make figures, or undo the edit", file=sys.stderr)
        return 1
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
