#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is kept of Lancet's coverage is of the present code, and the page says that. Run: measure/lancet/coverage_test.py"""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import coverage  # noqa: E402

ROWS = [{"name": f"lancet_{what}_{queue}", "value": value} for queue in coverage.QUEUES for what, value in (("ci_coverage", 0.95), ("conclusive_share", 0.8))]


def rows(n):
    return [*ROWS, {"name": "lancet_experiments", "value": n}]


def quietly(function, *args):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return function(*args)


class Kept(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.lancet = self.root / coverage.LANCET
        (self.lancet / "stats").mkdir(parents=True)
        for name in (*coverage.EXPERIMENT, "judge.go", "other_test.go", "stats/anderson.go"):
            (self.lancet / name).write_text("package x // one\n\nvar a = \"// no comment\"\n")
        for name in (coverage.KEPT, coverage.PAGE):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / coverage.PAGE).write_text("before\n" + coverage.BEGIN + "typed\n" + coverage.END + "after\n")
        self.measured = self.root / "run.json"
        self.measured.write_text(json.dumps(rows(500)))
        quietly(coverage.keep, self.measured, coverage.digest(self.root), self.root)

    def check(self):
        return quietly(coverage.check, self.root)

    def test_page_is_written(self):
        page = (self.root / coverage.PAGE).read_text()
        self.assertTrue(page.startswith("before\n") and page.endswith("after\n"))
        self.assertIn("| M/M/4, load 0.8 | 400 of 500 | 380 of 400: 0.950 (0.924 … 0.967) |", page)
        self.assertNotIn("typed", page)
        self.assertEqual(self.check(), 0)

    def test_edited_table(self):
        page = self.root / coverage.PAGE
        page.write_text(page.read_text().replace("0.950", "0.960"))
        self.assertEqual(self.check(), 1)

    def test_other_code(self):
        for name in ("judge.go", "queue_test.go", "stats/anderson.go"):
            kept = (self.lancet / name).read_text()
            (self.lancet / name).write_text(kept.replace("no comment", "none"))
            self.assertEqual(self.check(), 1, name)
            self.assertEqual(quietly(coverage.kept_as, self.root / "out.json", self.root), 1, name)
            (self.lancet / name).write_text(kept)
        (self.lancet / "new.go").write_text("package x\n")
        self.assertEqual(self.check(), 1)

    def test_comments_and_other_tests_are_no_code(self):
        (self.lancet / "judge.go").write_text("/* two\n*/\npackage x // other\nvar a = \"// no comment\"\n")
        (self.lancet / "other_test.go").write_text("package x\nvar b = 1\n")
        self.assertEqual(self.check(), 0)

    def test_kept_as_measurements(self):
        out = self.root / "out.json"
        self.assertEqual(quietly(coverage.kept_as, out, self.root), 0)
        self.assertEqual(json.loads(out.read_text()), rows(500))

    def keep(self, n):
        self.measured.write_text(json.dumps(rows(n)))
        self.assertEqual(quietly(coverage.keep, self.measured, coverage.digest(self.root), self.root), 0)
        return coverage.experiments(coverage.load(self.root))

    def test_a_smaller_run_of_the_same_code_is_not_kept(self):
        self.assertEqual(self.keep(120), 500)
        self.assertEqual(self.keep(600), 600)

    def test_a_smaller_run_of_other_code_is_kept_until_there_is_a_whole_one(self):
        (self.lancet / "judge.go").write_text("package x\n")
        self.assertEqual(self.keep(10), 500)
        self.assertEqual(self.check(), 1)
        self.assertEqual(self.keep(120), 120)
        self.assertEqual(self.check(), 0)
        self.assertIn("The whole run has 500", (self.root / coverage.PAGE).read_text())
        self.assertEqual(quietly(coverage.kept_as, self.root / "out.json", self.root), 1)
        self.assertEqual(self.keep(500), 500)
        self.assertNotIn("The whole run", (self.root / coverage.PAGE).read_text())
        self.assertEqual(quietly(coverage.kept_as, self.root / "out.json", self.root), 0)

    def test_code_that_changed_meanwhile(self):
        with self.assertRaises(SystemExit):
            quietly(coverage.keep, self.measured, "of before", self.root)

    def test_page_without_place(self):
        (self.root / coverage.PAGE).write_text("nothing\n")
        with self.assertRaises(SystemExit):
            self.check()


class Interval(unittest.TestCase):
    def test_wilson(self):  # Wilson 1927; a share of one has an interval, too
        self.assertEqual([round(x, 4) for x in coverage.wilson(1.0, 49)], [0.9273, 1.0])
        self.assertEqual(coverage.wilson(0.0, 0), (0.0, 1.0))


class Code(unittest.TestCase):
    def test_strings_are_kept(self):
        self.assertEqual(coverage.code_of("a := `// raw`  // x\nb := '\"' /* y */ + \"\\\"//\"\n"), "a := `// raw`\nb := '\"'   + \"\\\"//\"")


if __name__ == "__main__":
    unittest.main(verbosity=0)
