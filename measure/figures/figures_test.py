#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The judge of the figures: every kind of check holds, and fails, where it must. Run: measure/figures/figures_test.py"""
import json
import math
import os
import pathlib
import re
import sys
import tempfile
import unittest
import warnings

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import admission  # noqa: E402
import checks  # noqa: E402
import hedging  # noqa: E402
import hedging_judged as judged_hedging  # noqa: E402
import page  # noqa: E402
import pipeline  # noqa: E402
import plot  # noqa: E402
import run  # noqa: E402


def judged(check, **series):
    """Whether one check holds over series given as {name: [(x, value), ...]}."""
    figure = {"id": "f", "axes": {"metric": "p99", "scale": 1}, "checks": [{"panel": "p", **check}]}
    points = {("f", "p", name): [{"x": x, "p99": v, "share": v, "share_error": 0.0} for x, v in rows] for name, rows in series.items()}
    return checks.Judge(figure, points).all()[0]


class Checks(unittest.TestCase):
    def test_value(self):
        check = {"what": "value", "series": "a", "at": 1, "want": 10, "tolerance": 0.05}
        self.assertTrue(judged(check, a=[(1, 10.4)])["ok"])
        self.assertFalse(judged(check, a=[(1, 10.6)])["ok"])

    def test_order(self):
        check = {"what": "order", "less": "a", "more": "b", "at": [1, 2]}
        self.assertTrue(judged(check, a=[(1, 1), (2, 2)], b=[(1, 1), (2, 3)])["ok"])
        self.assertFalse(judged(check, a=[(1, 1), (2, 4)], b=[(1, 1), (2, 3)])["ok"])

    def test_order_against_the_slo(self):
        check = {"what": "order", "less": "a", "more": "limit150", "at": [1]}
        self.assertTrue(judged(check, a=[(1, 149)])["ok"])
        self.assertFalse(judged(check, a=[(1, 151)])["ok"])

    def test_difference_and_ratio(self):
        two = {"a": [(1, 20)], "b": [(1, 10)]}
        self.assertTrue(judged({"what": "difference", "a": "a", "b": "b", "at": [1], "low": 9, "high": 11}, **two)["ok"])
        self.assertFalse(judged({"what": "difference", "a": "a", "b": "b", "at": [1], "low": 11, "high": 12}, **two)["ok"])
        self.assertTrue(judged({"what": "ratio", "a": "a", "b": "b", "at": [1], "low": 1.9, "high": 2.1}, **two)["ok"])
        self.assertFalse(judged({"what": "ratio", "a": "a", "b": "b", "at": [1], "low": 1.9, "high": 2.1, "minus": 5}, **two)["ok"])

    def test_rises_and_flat(self):
        rises = {"what": "rises", "series": "a", "metric": "p99", "from": 1, "to": 3, "slack": 0.01}
        self.assertTrue(judged(rises, a=[(1, 1), (2, 2), (3, 2), (4, 0)])["ok"])
        self.assertFalse(judged(rises, a=[(1, 1), (2, 2), (3, 1.9)])["ok"])
        flat = {"what": "flat", "series": "a", "metric": "p99", "from": 1, "to": 3, "tolerance": 0.05}
        self.assertTrue(judged(flat, a=[(1, 1), (2, 0.96), (3, 1)])["ok"])
        self.assertFalse(judged(flat, a=[(1, 1), (2, 0.9), (3, 1)])["ok"])

    def test_within(self):
        check = {"what": "within", "series": "a", "metric": "p99", "low": 1, "high": 2}
        self.assertTrue(judged(check, a=[(1, 1), (2, 2)])["ok"])
        self.assertFalse(judged(check, a=[(1, 1), (2, 2.01)])["ok"])
        self.assertFalse(judged(check, a=[(1, 0.99), (2, 2)])["ok"])
        self.assertTrue(judged({**check, "from": 1, "to": 1}, a=[(1, 1), (2, 5)])["ok"])
        self.assertFalse(judged({**check, "from": 3, "to": 4}, a=[(1, 1)])["ok"], "no point is no proof")

    def test_runs_of_one_kind_only(self):
        figure = {"id": "f", "axes": {"metric": "p99"}, "checks": [{"panel": "p", "what": "within", "series": "a", "metric": "p99", "high": 1, "full": True}]}
        points = {("f", "p", "a"): [{"x": 1, "p99": 2}]}
        self.assertFalse(checks.Judge(figure, points).all()[0]["ok"])
        self.assertEqual(checks.Judge(figure, points, 2.0).all(), [])
        figure["checks"][0] = {**figure["checks"][0], "full": False, "quick": True}
        self.assertEqual(checks.Judge(figure, points).all(), [])
        self.assertFalse(checks.Judge(figure, points, 2.0).all()[0]["ok"])

    def test_crossing_is_interpolated(self):
        check = {"what": "crossing", "a": "a", "b": "b", "limit": 100, "low": 1.49, "high": 1.51}
        a, b = [(0.1, 10), (0.2, 1000)], [(0.05, 10), (0.1, 100), (0.2, 1e9)]
        self.assertEqual(judged(check, a=a, b=b)["got"], "1.50 ×")
        self.assertTrue(judged(check, a=a, b=b)["ok"])

    def test_best_takes_the_best_n(self):
        check = {"what": "best", "series": "a", "low": 0.95, "quickAt": 1}
        self.assertTrue(judged(check, a=[(1, 0.4), (2, 0.96), (3, 0.94)])["ok"])
        self.assertFalse(judged(check, a=[(1, 0.4), (2, 0.949)])["ok"])

    def test_what_was_not_measured_fails(self):
        row = judged({"what": "value", "series": "b", "at": 1, "want": 1, "tolerance": 1}, a=[(1, 1)])
        self.assertFalse(row["ok"])
        self.assertIn("not measured", row["got"])


class Explained(unittest.TestCase):
    """What differs from the published number says why, or there is no page."""
    NAMES = re.compile(r"P4-|JBSQ\([^)]*\)|M/[GM]/\d+|R2P2|146[45]|p99|(within|at) 150 µs|5/55 µs|above 1\.6 M|n > 1")

    def setUp(self):
        self.spec = yaml.safe_load((HERE / "expected.yaml").read_text())

    @staticmethod
    def bad(check, **series):
        figure = {"id": "f", "axes": {"metric": "p99", "scale": 1}, "checks": [{"panel": "p", "published": "", **check}]}
        points = {("f", "p", name): [{"x": x, "p99": v, "share": v} for x, v in rows] for name, rows in series.items()}
        return [got for _, got in checks.Judge(figure, points).unexplained(0.05)]

    def test_a_number_within_the_tolerance_needs_no_note(self):
        check = {"what": "value", "series": "a", "at": 1, "want": 10, "tolerance": 1, "publishedNumber": 10}
        self.assertEqual(self.bad(check, a=[(1, 10.4)]), [])
        self.assertEqual(self.bad(check, a=[(1, 10.6)]), [[10.6]])
        self.assertEqual(self.bad({**check, "note": "why"}, a=[(1, 20)]), [])
        del check["publishedNumber"]
        self.assertEqual(self.bad(check, a=[(1, 20)]), [])

    def test_every_kind_of_number(self):
        two = {"a": [(1, 20), (2, 30)], "b": [(1, 10), (2, 10)]}
        self.assertEqual(self.bad({"what": "difference", "a": "a", "b": "b", "at": [1, 2], "publishedNumber": 10}, **two), [[10, 20]])
        self.assertEqual(self.bad({"what": "ratio", "a": "a", "b": "b", "at": [1], "publishedNumber": 2}, **two), [])
        self.assertEqual(self.bad({"what": "ratio", "a": "a", "b": "b", "at": [1], "minus": 2, "publishedNumber": 2}, **two), [[1.8]])
        self.assertEqual(self.bad({"what": "flat", "series": "a", "metric": "p99", "publishedNumber": 1}, **two), [[1.5]])
        self.assertEqual(self.bad({"what": "within", "series": "a", "metric": "p99", "publishedNumber": 20}, **two), [[20, 30]])
        self.assertEqual(self.bad({"what": "crossing", "a": "a", "b": "b", "limit": 40, "publishedNumber": 1}, **two), [])

    def test_another_n_always_needs_a_note_and_its_share_is_shown(self):
        check = {"what": "best", "series": "a", "low": 0.9, "quickAt": 1, "publishedNumber": 3}
        self.assertEqual(self.bad(check, a=[(3, 0.99), (100, 0.98)]), [])
        self.assertEqual(self.bad(check, a=[(3, 0.98), (4, 0.99)]), [[4]])
        self.assertEqual(judged(check, a=[(3, 0.98), (4, 0.99)])["got"], "0.990 ± 0.000 (n = 4); 0.980 ± 0.000 (n = 3)")
        self.assertEqual(judged(check, a=[(3, 0.99), (4, 0.98)])["got"], "0.990 ± 0.000 (n = 3)")

    def test_the_page_is_refused(self):
        results, _ = page.load()
        text = page.write(results, self.spec)
        self.assertIn("more than 5 % from the published one", text)
        slo = next(f for f in self.spec["figures"] if f["id"] == "slo")
        check = next(c for c in slo["checks"] if c["panel"] == "exponential" and c["series"] == "p4")
        del check["note"]
        with self.assertRaisesRegex(SystemExit, "slo, exponential: p4, best n: published optimal, n = 3, ours 6: needs a note"):
            page.write(results, self.spec)

    def test_what_was_published_as_a_number_is_one_here(self):
        for figure in self.spec["figures"]:
            for c in figure["checks"]:
                text = self.NAMES.sub("", c.get("published", ""))
                if re.search(r"\d|≈|flat", text):
                    self.assertIn("publishedNumber", c, f"{figure['id']}: {c['published']}: its number is not compared with ours")
                if "publishedNumber" in c:
                    self.assertIn(c["what"], ("value", "difference", "ratio", "crossing", "best", "flat", "within"), c)


class FakeSimulator:
    """Answers like `bobtail-sim admission` of a service that carries 1.3 M requests/s within its objective."""

    def __init__(self):
        self.calls = []

    def __call__(self, arguments):
        self.calls.append(arguments)
        options = dict(a[2:].split("=", 1) for a in arguments[1:])
        rates = [float(r) for r in options["rates"].split(",")]
        over = max(rates) > 1.3e6
        part = {"p_over_slo": 3.0 if over and options["controller"] == "Off" else 0.9, "good_rps": 1.17e6, "refused_share": 0.2, "refused_by_class": [0.4, 0, 0]}
        series = [{"at": i * 0.5, "answered_rps": 1e6, "p_us": 250.0 + i, "refused_share": 0.1 * i} for i in range(4)]
        pathlib.Path(options["json"]).write_text(json.dumps({"all": part, "oscillation_share": 0.05, "series": series}))


class Admission(unittest.TestCase):
    """R-226, R-230: capacity is searched without admission control; what is beyond it is measured against it."""
    SIZE = {"seeds": [11, 12], "seconds": 1, "settle": 0.1, "window": 0.5, "searchSeconds": 0.2}

    def setUp(self):
        self.simulator = FakeSimulator()
        self.runs = admission.Admission(self.simulator, self.SIZE)
        self.figure = {"options": {"slo": 300, "rates": "1e6,1.8e6", "mix": "1"}}

    def points(self, kind, **options):
        return self.runs.points(self.figure, {}, {"admission": kind, "options": {"controller": "Track", **options}})

    def test_capacity_is_found_and_never_exceeded(self):
        rows = self.points("capacity")
        self.assertEqual([r["x"] for r in rows], [11, 12])
        for row in rows:
            self.assertTrue(1.297e6 < row["capacity"] <= 1.3e6, row)
        self.assertTrue(all("--controller=Off" in c and "--mix=1" not in c for c in self.simulator.calls))

    def test_goodput_is_a_share_of_the_capacity_of_the_same_seed(self):
        rows = self.points("beyond")
        for row in rows:
            self.assertAlmostEqual(row["goodput_share"], 0.9, delta=0.003)
        above = [a for c in self.simulator.calls for a in c if a.startswith("--above=")]
        self.assertEqual({round(float(a[8:]), -4) for a in above}, {1.3e6})

    def test_time_is_in_steps_and_the_same_run_is_shared(self):
        self.points("beyond")
        before = len(self.simulator.calls)
        rows = self.points("time")
        self.assertEqual(len(self.simulator.calls), before)
        self.assertEqual([r["x"] for r in rows], [0, 0.5, 1, 1.5])

    def test_a_failed_run_fails_everybody_who_waits_for_it(self):
        def broken(_):
            raise SystemExit("figures: exited 2")
        runs = admission.Admission(broken, self.SIZE)
        for _ in range(2):
            with self.assertRaises(SystemExit):
                runs.run({"seed": 1})

    def test_report_takes_the_worst_seed_of_the_worse_policy(self):
        def rows(p, goodput, oscillation):
            return [{"x": s, "p_over_slo": p + s / 100, "goodput_share": goodput - s / 100, "refused": 0.2, "oscillation": oscillation + s / 100} for s in (1, 2)]

        random, jbsq = rows(0.9, 1, 0.05), rows(1, 1.1, 0)
        kinds = [(service, series) for service in admission.SERVICES for series in ("track", "aiad")]
        points = {(figure, *kind): of for figure, of in (("sven", random), ("svenjbsq", jbsq)) for kind in kinds}
        got = {r["name"]: r["value"] for r in admission.measurements(points)}
        self.assertEqual((got["sven_p99_over_slo_fixed"], got["sven_goodput_share_bimodal"], got["sven_oscillation_share"]), (1.02, 0.98, 0.07))
        self.assertEqual(got["sven_aiad_p99_over_slo_fixed"], 0.92, "the published model has a random choice")
        self.assertEqual(admission.measurements({key: p for key, p in points.items() if key[0] == "sven"}), [])


class Pipeline(unittest.TestCase):
    """How many workers a pass of the switch compares is what the checker found, and nothing else."""

    def test_the_newest_answer_counts_and_none_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertRaises(SystemExit, pipeline.workers_per_pass, folder)
            for name, value in (("p4", 12), ("p4-short", 14)):
                file = pathlib.Path(folder, name + ".json")
                file.write_text(json.dumps([{"name": "p4_workers_per_pass", "value": value, "unit": "count"}]))
                os.utime(file, (value, value))
            self.assertEqual(pipeline.workers_per_pass(folder), 14)
            pathlib.Path(folder, "p4-short.json").write_text("[]")
            self.assertEqual(pipeline.workers_per_pass(folder), 12)

    def test_rows_of_the_switch_get_it_and_no_others(self):
        spec = yaml.safe_load((HERE / "expected.yaml").read_text())
        runner, calls = run.Runner(spec, "none", True, 1, 12), []

        def call(arguments):
            calls.append(arguments)
            pathlib.Path(next(a for a in arguments if a.startswith("--json="))[7:]).write_text('{"rows": []}')
        runner.call = call
        for task in runner.tasks({"fig5", "fig7", "fig8", "fig9"}):
            if "wire" not in task.series:
                runner.one(task)
                self.assertEqual("--group=12" in calls[-1], task.series["policy"].startswith("Switch"), calls[-1])
        self.assertEqual({t.figure["id"] for t in runner.tasks({"fig5", "fig7", "fig8", "fig9"}) if t.series.get("policy", "").startswith("Switch")},
                         {"fig5", "fig7", "fig8", "fig9"})


class Swings(unittest.TestCase):
    """R-221: how far Track swings, over seeds."""
    TIMES = {"seconds": 20, "settle": 2, "window": 1}

    def test_windows_of_a_step_are_counted_against_its_own_mean(self):
        series = [{"at": float(at), "p_us": (270.0 if at < 20 else 300.0) + (33 if at == 25 else 900 if at % 20 < 2 else 0)} for at in range(40)]
        result = {"all": {"p_over_slo": 1.0, "refused_share": 0.1}, "oscillation_share": 0.104, "series": series}
        got = admission.swings(result, 300, self.TIMES)
        self.assertEqual((got["windows"], got["beyond"]), (36, 1))
        series[25]["p_us"] = 320.0
        self.assertEqual(admission.swings(result, 300, self.TIMES)["beyond"], 0)

    def test_over_seeds(self):
        rows = [{"oscillation": v, "windows": 36, "beyond": 0} for v in (0.05, 0.07, 0.09)]
        mean, half = admission.mean_of_seeds(rows)
        self.assertAlmostEqual(mean, 0.07)
        self.assertAlmostEqual(half, 4.303 * 0.02 / 3 ** 0.5)
        points = {(admission.STEADY, policy, s): rows for policy in admission.POLICIES for s in admission.SERVICES}
        got = dict(admission.of_seeds(points, 0.08))
        self.assertEqual(got["sven_oscillation_share"], 0.09)
        self.assertAlmostEqual(got["sven_oscillation_mean_high"], mean + half)
        self.assertAlmostEqual(got["sven_oscillation_windows_high"], 0.0059, delta=0.0001)  # Wilson of 0 of 648
        self.assertEqual(admission.of_seeds({}, 0.08), [])


class Hedging(unittest.TestCase):
    """R-248: what docs/lab/hedging.md says of cells and loads, and that it stands between its marks."""

    @staticmethod
    def cell(p50, p99, says):
        psq, other = {"p50": 1.0, "p99": 10.0}, {"p50": p50, "p99": p99}
        return {"PSQ": psq, **{p: other for p in hedging.PUBLISHED}, "gate": {p: says for p in hedging.VARIANTS}}

    def test_tally(self):
        cells = [self.cell(1.0, 5.9, "Pays"), self.cell(1.06, 7.5, "MedianWouldRise"), self.cell(1.0, 10.6, "Pays"), self.cell(1.0, 10.4, "TailTooLittle")]
        self.assertEqual(hedging.tally(cells, "LoadAware"), {"gain": [50.0, 25.0, 25.0], "p50": 1, "p99": 1, "either": 2, "on": 2, "harmed": 1, "refused": [0, 1, 1]})

    def test_page(self):
        loads = [{"load": load, **{p: {"p50": 1.0, "p99": 9.0 if p == "LoadAware" else 8.0 - load, "preempted": [[100, 99], [4, 2], [5, 1]]} for p in hedging.POLICIES}}
                 for load in (0.02, 0.1, 0.4, 0.8)]
        data = hedging.kept(loads, loads, [self.cell(1.0, 5.9, "Pays")], "of")
        text = "a\n" + "".join(f"<!-- {n}: measure/figures/hedging.py writes this -->\nold\n<!-- /{n} -->\nb\n" for n in ("loads", "judged", "twins", "cells"))
        once = hedging.page(text, data)
        self.assertIn("1.80 at most, 1.25 on average", once)
        self.assertIn("| 0.40 | 100 | 99.00 % | 4 | 50.00 % | 5 | 20.00 % |", once)
        self.assertIn("| LoadAware | 100.0 (13.4) |", once)
        self.assertNotIn("old", once)
        self.assertEqual(hedging.page(once, data), once)
        self.assertRaises(SystemExit, hedging.page, "a page without marks", data)


class HedgingJudged(unittest.TestCase):
    """What the goals hold of the published evaluation of hedged requests."""

    def test_closed_forms_of_the_specification(self):
        self.assertAlmostEqual(judged_hedging.unloaded(0.001), 16.6, delta=0.05)
        self.assertAlmostEqual(judged_hedging.unloaded(0.001 ** 2), 8.5, delta=0.05)

    def test_crossing(self):
        rows = [{"load": load, "PSQ": {"p99": 10.0}, "Naive": {"p99": v}} for load, v in ((0.1, 5.0), (0.2, 8.0), (0.3, 12.5), (0.4, 50.0))]
        self.assertAlmostEqual(judged_hedging.crossing(rows, "Naive"), 0.25)
        self.assertTrue(math.isnan(judged_hedging.crossing(rows[:2], "Naive")), "no crossing is no figure")

    def test_shares_are_the_furthest(self):
        tally = {p: {"gain": list(v)} for p, v in judged_hedging.PUBLISHED.items()}
        self.assertEqual(set(judged_hedging.shares(tally).values()), {0})
        tally["LA+CC"]["gain"][1] -= 3
        tally["Idealized"]["gain"][0] += 7
        got = judged_hedging.shares(tally)
        self.assertAlmostEqual(got["hedge_share_points_la_cc"], 3)
        self.assertAlmostEqual(got["hedge_share_points_idealized_20"], 7)
        self.assertEqual(got["hedge_share_points_idealized"], 0)

    def test_every_kept_figure_has_a_goal_that_can_be_missed(self):
        data = json.loads(hedging.KEPT.read_text())
        self.assertEqual(judged_hedging.missed(data), [])
        for row in data["loads"]:
            row["LoadAware"] = {"p50": 1.0, "p99": row["LoadAware"]["p99"] * 1.3}
            row["Naive"] = row["LoadAware"]
            row["PSQ"] = {"p50": 1.0, "p99": row["PSQ"]["p99"] * 1.3}
            row["Delayed"] = row["PSQ"]
            row["preempted"] = [[100, 98], [100, 60], [100, 30]]
        for row in data["withoutCleanup"]:
            row["Idealized"] = {"p99": row["Idealized"]["p99"] / 2}
        for t in data["tally"].values():
            t.update(gain=[g - 6 for g in t["gain"]], either=(t["either"] + 7) // 4)
        hurt = {line.split()[0] for line in judged_hedging.missed(data)}
        self.assertEqual({name for name, _, _ in judged_hedging.JUDGED} - hurt, set())

    def test_the_digest_is_of_code_not_of_comments(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "dataplane/sim").mkdir(parents=True)
            file = root / "dataplane/sim/fanout_pull.c"
            seen = []
            for text in ("int a;", "int a; // said otherwise", "int b;"):
                file.write_text(text + "\n")
                seen.append(hedging.digest(root))
            self.assertEqual(seen[0], seen[1])
            self.assertNotEqual(seen[0], seen[2])


class Drawing(unittest.TestCase):
    def test_panels_beside_one_another_fit(self):
        panel = {"title": "t", "x": "x", "y": "y", "log": True, "low": 10, "top": 100, "limit": 30, "lines": [{"label": "a", "x": [1, 2], "y": [20, 30]}]}
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("error")  # "Tight layout not applied"
            plot.draw([panel] * 3, [pathlib.Path(folder) / "a.svg"])


class Table(unittest.TestCase):
    """expected.yaml names only what exists."""

    def test_names(self):
        spec = yaml.safe_load((HERE / "expected.yaml").read_text())
        names = {(f["id"], p["name"], s["name"]) for f in spec["figures"] for p in f["panels"] for s in run.panel_series(f, p)}
        for figure in spec["figures"]:
            for check in figure["checks"]:
                self.assertTrue(hasattr(checks.Judge, "check_" + check["what"]), check)
                for role in ("a", "b", "less", "more", "series"):
                    if role in check and check[role] != checks.LIMIT:
                        self.assertIn((figure["id"], check["panel"], check[role]), names)
                self.assertTrue("published" in check or "rule" in check, f"{check}: says neither what was published nor which rule")
        for mistake in spec["planted"]:
            self.assertIn((mistake["figure"], mistake["panel"], mistake["series"]), names)

    def test_every_figure_has_a_planted_mistake(self):
        spec = yaml.safe_load((HERE / "expected.yaml").read_text())
        without = {f["id"] for f in spec["figures"]} - {p["figure"] for p in spec["planted"]}
        self.assertEqual(without, set())


if __name__ == "__main__":
    unittest.main()
