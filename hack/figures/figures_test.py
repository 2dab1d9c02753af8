#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The judge of the figures: every kind of check holds, and fails, where it must. Run: hack/figures/figures_test.py"""
import json
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
import page  # noqa: E402
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

    def test_full_runs_only(self):
        figure = {"id": "f", "axes": {"metric": "p99"}, "checks": [{"panel": "p", "what": "within", "series": "a", "metric": "p99", "high": 1, "full": True}]}
        points = {("f", "p", "a"): [{"x": 1, "p99": 2}]}
        self.assertFalse(checks.Judge(figure, points).all()[0]["ok"])
        self.assertEqual(checks.Judge(figure, points, 2.0).all(), [])

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


class Hedging(unittest.TestCase):
    """R-248: what docs/hedging.md says of cells and loads, and that it stands between its marks."""

    @staticmethod
    def cell(p50, p99, says):
        psq, other = {"p50": 1.0, "p99": 10.0}, {"p50": p50, "p99": p99}
        return {"PSQ": psq, **{p: other for p in hedging.PUBLISHED}, "gate": {p: says for p in hedging.VARIANTS}}

    def test_tally(self):
        cells = [self.cell(1.0, 5.9, "Pays"), self.cell(1.06, 7.5, "MedianWouldRise"), self.cell(1.0, 10.6, "Pays"), self.cell(1.0, 10.4, "TailTooLittle")]
        self.assertEqual(hedging.tally(cells, "LoadAware"), {"gain": [50.0, 25.0, 25.0], "p50": 1, "p99": 1, "either": 2, "on": 2, "harmed": 1, "refused": [0, 1, 1]})

    def test_page(self):
        loads = [{"load": load, **{p: {"p50": 1.0, "p99": 9.0 if p == "LoadAware" else 8.0 - load} for p in hedging.POLICIES}} for load in (0.02, 0.1, 0.8)]
        data = hedging.kept(loads, [self.cell(1.0, 5.9, "Pays")])
        text = "a\n" + "".join(f"<!-- {n}: hack/figures/hedging.py writes this -->\nold\n<!-- /{n} -->\nb\n" for n in ("loads", "cells"))
        once = hedging.page(text, data)
        self.assertIn("1.80 at most, 1.10 on average", once)
        self.assertIn("| LoadAware | 100.0 (13.4) |", once)
        self.assertNotIn("old", once)
        self.assertEqual(hedging.page(once, data), once)
        self.assertRaises(SystemExit, hedging.page, "a page without marks", data)


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
