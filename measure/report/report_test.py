#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report tool decides what CI calls good, so its own verdicts are tested."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import report

GOALS = [
    {"name": "a", "unit": "s", "op": "<=", "goal": 10, "required": True, "how": "x"},
    {"name": "b", "unit": "bool", "op": "==", "goal": False, "required": True, "how": "x"},
    {"name": "c", "unit": "ratio", "op": "between", "goal": [0.8, 1.25], "required": False, "how": "x"},
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

    def test_goals_file_is_well_formed(self):
        goals = json.loads((report.ROOT / "goals.json").read_text())
        for target, rows in goals.items():
            names = [r["name"] for r in rows]
            self.assertEqual(len(names), len(set(names)), target)
            for r in rows:
                self.assertEqual(set(r), {"name", "unit", "op", "goal", "required", "how"}, (target, r))
                self.assertIn(r["op"], list(report.OPS) + ["between"])


class Exit(unittest.TestCase):
    def run_tool(self, values):
        with tempfile.TemporaryDirectory() as tmp:
            goals = pathlib.Path(tmp, "goals.json")
            goals.write_text(json.dumps({"selftest": GOALS}))
            m = pathlib.Path(tmp, "m.json")
            m.write_text(json.dumps([{"name": k, "value": v} for k, v in values.items()]))
            tool = pathlib.Path(report.__file__)
            out = subprocess.run([sys.executable, tool, "selftest", "--goals", goals, "--measurements", m],
                                 capture_output=True, text=True)
            (report.report_dir() / "selftest.json").unlink(missing_ok=True)
            return out.returncode

    def test_required_failure_exits_non_zero(self):
        self.assertEqual(self.run_tool({"a": 11, "b": False, "c": 1.0}), 1)

    def test_stretch_failure_only_reports(self):
        self.assertEqual(self.run_tool({"a": 9, "b": False, "c": 2.0}), 0)


if __name__ == "__main__":
    unittest.main()
