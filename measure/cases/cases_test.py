#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A case counts as closed only with a test that cites it, and seen to fail on the mend as it is."""
import pathlib
import tempfile
import unittest

import cases


class Cases(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "a_test.go").write_text("// K-1: so it is.\nfunc TestIt(t *testing.T) {}\n// K-20 too\n")
        (self.root / "a.go").write_text("mended\n")
        self.row = {"tests": ["a_test.go:TestIt"], "undo": {"file": "a.go", "from": "mended", "to": ""}, "seen": "2026-11-26"}

    def open(self, case, **change):
        return cases.trouble(case, {**self.row, **change}, self.root)

    def test_what_closes_a_case_and_what_leaves_it_open(self):
        self.assertIsNone(self.open("K-1"))
        self.assertIn("does not cite K-2", self.open("K-2"))  # K-20 is another case
        self.assertIn("has no TestOther", self.open("K-1", tests=["a_test.go:TestOther"]))
        self.assertIn("is not there", self.open("K-1", tests=["b_test.go"]))
        self.assertEqual(self.open("K-1", tests=[]), "no test")
        self.assertEqual(self.open("K-1", seen=""), "not seen to fail")
        self.assertEqual(self.open("K-1", undo=None), "not seen to fail")
        self.assertIn("has changed since", self.open("K-1", undo={"file": "a.go", "from": "otherwise", "to": ""}))
        self.assertEqual(cases.trouble("K-1", None, self.root), "no test")

    def test_all_forty_are_judged(self):
        self.assertEqual([c for c, _, _ in cases.judged({})], [f"K-{n}" for n in range(1, 41)])


if __name__ == "__main__":
    unittest.main()
