# SPDX-License-Identifier: Apache-2.0
"""What of the published evaluation of hedged requests is held to its numbers: the measurements of docs/lab/figures/hedging.json
that the goals of make figures judge. The simulator prints curves; here they become figures with a name."""
import itertools
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "measure/report"))
import report  # noqa: E402

SHARDS, P, D = 50, 0.001, 15  # of the run over loads
# Share of the cells whose p99 is more than 20, 30, 40 % below that of PSQ, as published.
PUBLISHED = {"LoadAware": (13.4, 9.8, 3.8), "LA+CC": (16.8, 12.2, 5.2), "LA+CC+PC": (15.9, 12.3, 9.2), "Idealized": (29.9, 21.5, 15.4)}
WITHOUT_LOAD = ("Naive", "LoadAware", "LA+CC", "LA+CC+PC")  # two copies of everything, and no delay
EXISTING = ("PSQ", "Naive", "Delayed")  # the best policy before load-aware ones is the best of these
# name, what the page calls it, as published
JUDGED = (
    ("hedge_unloaded_psq_vs_closed_form", "p99 of PSQ at a load of 2 % ÷ closed form (16.6)", "17"),
    ("hedge_unloaded_copies_vs_closed_form", "p99 with two copies ÷ closed form (8.5), the furthest of four policies", "8"),
    ("hedge_naive_crossing_load", "load from which copies of everything have a longer p99 than PSQ", "≈ 0.25"),
    ("hedge_delayed_crossing_load", "the same of delayed copies", "0.3 or 0.4, see below"),
    ("hedge_delayed_cleanup_share", "part of that load lost without cancelling the other copy", "≈ 0.40"),
    ("hedge_existing_gap_max", "best policy before above Idealized, at most", "7.5"),
    ("hedge_existing_gap_mean", "the same, mean over loads of 5 to 50 %", "4.94"),
    ("laedge_p99_gap_max", "LoadAware above Idealized, at most", "3.8"),
    ("laedge_p99_gap_mean", "the same, mean over loads of 5 to 50 %", "2.16"),
    ("hedge_share_points_loadaware", "improved cells of LoadAware, furthest share from the published one, points", "table below"),
    ("hedge_share_points_la_cc", "the same of LA+CC", "table below"),
    ("hedge_share_points_la_cc_pc", "the same of LA+CC+PC", "table below"),
    ("hedge_share_points_idealized", "the same of Idealized, > 30 and > 40 %", "table below"),
    ("hedge_share_points_idealized_20", "the same of Idealized, > 20 %", "29.9 %"),
    ("laedge_harm_cells", "cells of 176 that LoadAware hurts when it is always on", "not shown"),
    ("laedge_preemptive_harm_cells", "the same of LA+CC+PC", "not shown"),
    ("hedge_preempt_accuracy", "twins that made room and would have ended later, least share of 15 loads", "> 0.99"),
    ("hedge_preempt_hiccup_together", "the same where one had a hiccup, begun together, load 0.4", "≈ 0.50"),
    ("hedge_preempt_hiccup_later", "the same, the hedged request begun later", "≈ 0.19"),
)


def unloaded(p):
    """p99 of a request that meets nobody: the largest of SHARDS services, each P + D with probability p."""
    q, low, high = 1 - 0.99 ** (1 / SHARDS), 0.0, 100.0
    while high - low > 1e-9:
        x = (low + high) / 2
        beyond = (1 - p) * math.exp(-x) + p * min(1, math.exp(D - x))
        low, high = (x, high) if beyond > q else (low, x)
    return low


def crossing(rows, policy):
    """The load from which a policy's p99 is above that of PSQ, between two loads by the logarithm of their ratio."""
    over = [(r["load"], math.log(r[policy]["p99"] / r["PSQ"]["p99"])) for r in rows]
    for (a, below), (b, above) in itertools.pairwise(over):
        if below <= 0 < above:
            return a - below * (b - a) / (above - below)
    return math.nan


def above_bound(rows, best):
    """(most, mean over loads of 5 to 50 %) by which the best of some policies is above Idealized."""
    gaps = {r["load"]: min(r[p]["p99"] for p in best) - r["Idealized"]["p99"] for r in rows}
    middle = [g for load, g in gaps.items() if 0.049 <= load <= 0.501]
    return max(gaps.values()), sum(middle) / len(middle)


def right(row, kind):
    n, good = row["preempted"][kind]
    return good / n


def shares(tally):
    off = {p: [abs(a - b) for a, b in zip(tally[p]["gain"], PUBLISHED[p])] for p in PUBLISHED}
    return {"hedge_share_points_loadaware": max(off["LoadAware"]), "hedge_share_points_la_cc": max(off["LA+CC"]),
            "hedge_share_points_la_cc_pc": max(off["LA+CC+PC"]), "hedge_share_points_idealized": max(off["Idealized"][1:]),
            "hedge_share_points_idealized_20": off["Idealized"][0]}


def values(data):
    """{name: value} of JUDGED."""
    rows, none = data["loads"], data["withoutCleanup"]
    first, at_40 = rows[0], next(r for r in rows if abs(r["load"] - 0.4) < 1e-9)
    delayed, bare = crossing(rows, "Delayed"), crossing(none, "Delayed")
    existing, laedge = above_bound(none, EXISTING), above_bound(rows, ("LoadAware",))
    copies = [first[p]["p99"] / unloaded(P * P) for p in WITHOUT_LOAD]
    found = {"hedge_unloaded_psq_vs_closed_form": first["PSQ"]["p99"] / unloaded(P),
             "hedge_unloaded_copies_vs_closed_form": max(copies, key=lambda v: abs(v - 1)),
             "hedge_naive_crossing_load": crossing(rows, "Naive"), "hedge_delayed_crossing_load": delayed,
             "hedge_delayed_cleanup_share": 1 - bare / delayed,
             "hedge_existing_gap_max": existing[0], "hedge_existing_gap_mean": existing[1],
             "laedge_p99_gap_max": laedge[0], "laedge_p99_gap_mean": laedge[1],
             **shares(data["tally"]), "laedge_harm_cells": data["tally"]["LoadAware"]["either"],
             "laedge_preemptive_harm_cells": data["tally"]["LA+CC+PC"]["either"],
             "hedge_preempt_accuracy": min(right(r, 0) for r in rows),
             "hedge_preempt_hiccup_together": right(at_40, 1), "hedge_preempt_hiccup_later": right(at_40, 2)}
    return {name: round(found[name], 4) for name, _, _ in JUDGED}


def goals():
    return {g["name"]: g for g in report.goals_of("figures")}


def measurements(data):
    units = goals()
    return [{"name": name, "value": value, "unit": units[name]["unit"]} for name, value in values(data).items()]


def missed(data):
    """What of the kept figures does not meet its goal."""
    judge = goals()
    return [f"{name} is {value}, must be {judge[name]['op']} {judge[name]['goal']}" for name, value in values(data).items()
            if not report.meets(value, judge[name]["op"], judge[name]["goal"])]


def must_be(goal):
    return "{} to {}".format(*goal["goal"]) if goal["op"] == "between" else f"{goal['op'].replace('<=', '≤').replace('>=', '≥').replace('==', '=')} {goal['goal']}"


def table(data):
    found, judge = values(data), goals()
    lines = ["| | published | ours | must be |", "|---|---|---|---|"]
    return lines + [f"| {title} | {published} | {found[name]:.4g} | {must_be(judge[name])} |" for name, title, published in JUDGED]
