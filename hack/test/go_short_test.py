#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The short run of the Go tests, on a module made for it: what is kept, what is linked again, what is told."""
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

import go_short

TEST = "package {name}\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestFolder(t *testing.T) {{\n\tif _, err := os.Stat(\"{wants}\"); err != nil {{\n\t\tt.Fatal(err)\n\t}}\n\tif !testing.Short() {{\n\t\tt.Fatal(\"long\")\n\t}}\n}}\n"


class Groups(unittest.TestCase):
    def test_names_that_end_alike_are_apart(self):
        self.assertEqual(go_short.groups(["m/a/x", "m/b", "m/b/x", "m/c/x"]), [["m/a/x", "m/b"], ["m/b/x"], ["m/c/x"]])

    def test_a_program_keeps_its_place_whatever_the_order(self):
        found = {p: {"Dir": p} for p in ("m/a/x", "m/b/x")}
        there = {p.package: p.binary for p in go_short.programs(found, ["m/b/x", "m/a/x"], pathlib.Path("kept"))}
        self.assertEqual(there, {"m/a/x": pathlib.Path("kept/0/x.test"), "m/b/x": pathlib.Path("kept/1/x.test")})


class Module(unittest.TestCase):
    """Two packages of one name, none of which starts a goroutine."""

    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.root = pathlib.Path(tmp.name).resolve()
        (self.root / "go.mod").write_text("module m\n\ngo 1.26\n")
        for folder in ("a/x", "b/x"):
            (self.root / folder).mkdir(parents=True)
            (self.root / folder / "x_test.go").write_text(TEST.format(name="x", wants="x_test.go"))

    def run_tests(self, *flags):
        done = subprocess.run([sys.executable, "-c", "import pathlib, sys, go_short\nsys.exit(go_short.main(['', 'run', *sys.argv[2:], './...'], pathlib.Path(sys.argv[1])))",
                               self.root, *flags], cwd=pathlib.Path(go_short.__file__).parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def linked(self):
        return {path.parent.name: path.stat().st_ino for path in self.root.glob(go_short.KEPT + "/plain/*/x.test")}

    def test_they_run_where_they_are_and_are_linked_once(self):
        code, said = self.run_tests("-short")
        self.assertEqual((code, said.count("--- PASS: TestFolder"), said.count("\nok  \tm/")), (0, 2, 2), said)
        before = self.linked()
        self.assertEqual(len(before), 2)
        (self.root / "b/x/x_test.go").write_text(TEST.format(name="x", wants="nothing"))
        code, said = self.run_tests("-short")
        self.assertEqual((code, said.count("--- FAIL: TestFolder"), said.count("FAIL\tm/b/x")), (1, 1, 1), said)
        after = self.linked()
        self.assertEqual((after["0"] == before["0"], after["1"] == before["1"]), (True, False))

    def test_a_flag_reaches_the_program(self):
        code, said = self.run_tests("-run=Folder")
        self.assertEqual((code, said.count("long")), (1, 2), said)

    def test_one_that_does_not_compile_fails(self):
        (self.root / "a/x/x_test.go").write_text("package x\n\nnonsense\n")
        self.assertEqual(self.run_tests("-short")[0], 1)


class Told(unittest.TestCase):
    def test_no_arguments(self):
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            go_short.main(["go_short.py", "run"])


if __name__ == "__main__":
    unittest.main()
