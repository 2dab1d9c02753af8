#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The judge of the figures: every kind of check holds, and fails, where it must. Run: hack/figures/figures_test.py"""
import pathlib
import sys
import unittest

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import checks  # noqa: E402
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
