#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report tool decides what CI calls good, so its own verdicts are tested."""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import explained
import report

GOALS = [
    {"name": "a", "unit": "s", "op": "<=", "goal": 10, "required": True},
    {"name": "b", "unit": "bool", "op": "==", "goal": False, "required": True},
    {"name": "c", "unit": "ratio", "op": "between", "goal": [0.8, 1.25], "required": False},
]


class Judge(unittest.TestCase):
    def test_missing_figure_fails(self):
        rows = report.judge(GOALS, {"b": False, "c": 1.0})
        self.assertFalse(rows[0]["ok"])
        self.assertEqual(report.text(rows[0]["value"]), "missing")

    def test_bool_goal_wants_a_bool(self):
        self.assertFalse(report.meets(0, "==", False))
        self.assertTrue(report.meets(False, "==", False))
        self.assertFalse(report.meets(True, "<=", 10))

    def test_between_is_inclusive(self):
        self.assertTrue(report.meets(0.8, "between", [0.8, 1.25]))
        self.assertFalse(report.meets(1.26, "between", [0.8, 1.25]))

    def test_row_has_the_contract_keys(self):
        row = report.judge(GOALS, {})[0]
        self.assertEqual(set(row), {"name", "value", "unit", "op", "goal", "required", "ok", "how"})

    def test_a_row_says_what_the_figure_means(self):
        rows = report.judge(GOALS, {}, {"b": "whether it is"})
        self.assertEqual([r["how"] for r in rows], ["", "whether it is", ""])

    def test_goals_files_are_well_formed(self):
        targets = sorted(f.stem for f in report.GOALS.glob("*.json"))
        self.assertIn("test", targets)
        for target in targets:
            rows = report.goals_of(target)
            names = [r["name"] for r in rows]
            self.assertEqual(len(names), len(set(names)), target)
            for r in rows:
                self.assertEqual(set(r) - {"part"}, {"name", "unit", "op", "goal", "required"}, (target, r))
                self.assertIn(r["op"], list(report.OPS) + ["between"])

    def test_a_goal_of_its_own_is_judged(self):
        measured = {"d": {"name": "d", "value": 9, "unit": "s", "op": "<=", "goal": 8, "required": True, "how": "x"}}
        rows = report.judge([], {"d": 9, "e": 1}, measured=measured)
        self.assertEqual([(r["name"], r["ok"], r["required"]) for r in rows], [("d", False, True), ("e", True, False)])
        self.assertEqual(set(rows[0]), set(rows[1]))

    def test_the_goals_of_a_target_have_the_last_word(self):
        rows = report.judge(GOALS, {"a": 11}, measured={"a": {"name": "a", "value": 11, "op": "<=", "goal": 99}})
        self.assertFalse(rows[0]["ok"])


class Parts(unittest.TestCase):
    GOALS = [{**GOALS[0], "part": "one"}, {**GOALS[1], "part": "two"}, GOALS[2]]

    def names(self, parts, values):
        return {r["name"]: r["ok"] for r in report.judge(self.GOALS, values, parts=parts)}

    def test_what_was_not_asked_for_is_not_missing(self):
        self.assertEqual(self.names(["one"], {"a": 3, "c": 1.0}), {"a": True, "c": True})
        self.assertEqual(self.names([], {"c": 1.0}), {"c": True})

    def test_what_was_asked_for_and_not_measured_is(self):
        self.assertEqual(self.names(["two"], {"c": 1.0}), {"b": False, "c": True})

    def test_a_whole_run_owes_every_part(self):
        self.assertEqual(self.names(None, {"a": 3, "c": 1.0}), {"a": True, "b": False, "c": True})

    def test_a_figure_of_another_part_is_not_shown(self):
        self.assertEqual(self.names(["one"], {"a": 3, "b": True, "c": 1.0}), {"a": True, "c": True})

    def test_a_part_that_owes_nothing_is_told(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.assertEqual(self.names(["three"], {"c": 1.0}), {"c": True})
        self.assertIn("part 'three' owes no figure", said.getvalue())


class Explained(unittest.TestCase):
    PAGE = "# Page\n## one\n| figure | unit | what it is |\n|---|---|---|\n| `a` | s | first\\|second |\n| `b` | % | more |\n\n## two\n| `a` | s | other |\n"

    def test_tables_are_read(self):
        self.assertEqual(explained.tables(self.PAGE), {"one": {"a": ("s", "first|second"), "b": ("%", "more")}, "two": {"a": ("s", "other")}})

    def test_goal_without_row_row_without_goal_and_other_unit(self):
        goals = {"one": [{"name": "a", "unit": "s"}, {"name": "c", "unit": "s"}], "two": [{"name": "a", "unit": "ms"}]}
        self.assertEqual(explained.faults(explained.tables(self.PAGE), goals),
                         ["one: c has a goal and no row", "one: b has a row and no goal", "two: a is in s, its goal in ms"])

    def test_a_target_without_a_table(self):
        self.assertEqual(explained.faults({}, {"new": [{"name": "a", "unit": "s"}]}), ["new: a has a goal and no row"])


class Exit(unittest.TestCase):
    def run_tool(self, values, *options, goals_of=GOALS):
        with tempfile.TemporaryDirectory() as tmp:
            goals = pathlib.Path(tmp, "selftest.json")
            goals.write_text(json.dumps(goals_of))
            m = pathlib.Path(tmp, "m.json")
            m.write_text(json.dumps([{"name": k, "value": v} for k, v in values.items()]))
            tool = pathlib.Path(report.__file__)
            out = subprocess.run([sys.executable, tool, "selftest", "--goals", tmp, "--measurements", m, *options],
                                 capture_output=True, text=True)
            (report.report_dir() / "selftest.json").unlink(missing_ok=True)
            return out.returncode

    def test_required_failure_exits_non_zero(self):
        self.assertEqual(self.run_tool({"a": 11, "b": False, "c": 1.0}), 1)

    def test_a_partial_run_is_judged_by_its_parts(self):
        self.assertEqual(self.run_tool({"c": 1.0}, "--parts=", goals_of=Parts.GOALS), 0)
        self.assertEqual(self.run_tool({"c": 1.0}, "--parts=one", goals_of=Parts.GOALS), 1)

    def test_stretch_failure_only_reports(self):
        self.assertEqual(self.run_tool({"a": 9, "b": False, "c": 2.0}), 0)


if __name__ == "__main__":
    unittest.main()
