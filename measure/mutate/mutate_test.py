#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The draw, the reviewed list, and what is made of gremlins' and universalmutator's findings. Runs no mutant."""
import pathlib
import sys
import tempfile
import threading
import unittest
import unittest.mock

sys.dont_write_bytecode = True
import draw  # noqa: E402
import gremlins  # noqa: E402
import trial  # noqa: E402

SOURCE = "int f(int a)\n{\n    if (a < 3) {\n        a++;\n    }\n    a++;\n    return a;\n}\n"


def lines(source=SOURCE):
    return list(draw.lines_of("f.c", source))


def two(line):
    """Two mutants of every line."""
    return [draw.Mutant(line, line.text.rstrip("\n") + " // 1\n"), draw.Mutant(line, line.text.rstrip("\n") + " // 2\n")]


class Draw(unittest.TestCase):
    def test_the_same_seed_draws_the_same(self):
        self.assertEqual(list(draw.order("s", lines(), two)), list(draw.order("s", lines()[::-1], two)))
        self.assertNotEqual(list(draw.order("s", lines(), two)), list(draw.order("t", lines(), two)))

    def test_one_mutant_a_line_of_every_line(self):
        drawn = list(draw.order("s", lines(), two))
        self.assertEqual(sorted(m.line.number for m in drawn), list(range(1, 9)))

    def test_lines_that_read_alike_are_told_apart(self):
        self.assertEqual([one.nth for one in lines() if draw.plain(one.text) == "a++;"], [0, 1])

    def test_an_edit_elsewhere_moves_nothing(self):
        before = [m.names() for m in draw.order("s", lines(), two)]
        after = [m.names() for m in draw.order("s", lines("// a line more\n" + SOURCE), two) if "line more" not in m.line.text]
        self.assertEqual(before, after)

    def test_applied_at_its_line(self):
        mutant = draw.Mutant(lines()[5], "    a--;\n")
        self.assertEqual(mutant.apply(SOURCE), SOURCE.replace("    }\n    a++;", "    }\n    a--;"))
        for changed in ("int g;\n" + SOURCE, "int f;\n"):
            with self.assertRaises(SystemExit):
                mutant.apply(changed)


class NeverBuilt(unittest.TestCase):
    """What no compiler takes costs a build each time it is drawn."""

    def mutant(self, text, token, kind):
        return gremlins.replaced(text, len(text[:text.index(token)].encode()) + 1, kind)

    def test_an_address_taken_is_no_bitwise_and(self):
        for text in ("\treturn &T{}\n", "\tf(&o.Spec)\n", "\tx := &T{}\n", "\tf(a, &b)\n", "\treturn []*T{&a}\n", "\tok := p == &a\n", "\t&a,\n", "\tc <- &T{}\n"):
            self.assertIsNone(self.mutant(text, "&", "INVERT_BITWISE"), text)
        for text, token, want in (("\tx := a & b\n", "&", "\tx := a | b\n"), ("\tx := f(a) & 7\n", "&", "\tx := f(a) | 7\n"),
                                  ("\tx := a[i]&^b\n", "&^", "\tx := a[i]&b\n"), ("\tx := returned & 1\n", "&", "\tx := returned | 1\n")):
            self.assertEqual(self.mutant(text, token, "INVERT_BITWISE"), want)

    def test_texts_are_joined_and_nothing_else(self):
        for text in ('\tx := "a" + b\n', '\tx := a + "b"\n', "\tx := a + `b`\n", "\tx := `a`+b\n"):
            self.assertIsNone(self.mutant(text, "+", "ARITHMETIC_BASE"), text)
        self.assertEqual(self.mutant('\tx := f("a", b+c)\n', "+", "ARITHMETIC_BASE"), '\tx := f("a", b-c)\n')
        self.assertEqual(self.mutant("\tx := -1 + a\n", "-", "INVERT_NEGATIVES"), "\tx := +1 + a\n")


class Settle(unittest.TestCase):
    VERDICTS = ["caught", "stillborn", "survived", "same", "reviewed", "caught", "caught", "caught"]

    def settle(self, count, jobs):
        asked, lock = [], threading.Lock()

        def verdict(mutant):
            with lock:
                asked.append(mutant)
            return {"verdict": self.VERDICTS[mutant]}
        return draw.settle(range(len(self.VERDICTS)), verdict, count, jobs), asked

    def test_another_for_each_that_does_not_count(self):
        for jobs in (1, 2, 5):
            settled, asked = self.settle(3, jobs)
            self.assertEqual([m for m, _ in settled], [0, 1, 2, 3, 4, 5])
            self.assertEqual(sorted(asked), [0, 1, 2, 3, 4, 5], "none is run that is not needed")
            self.assertEqual(draw.share([r for _, r in settled]), (2, 3))

    def test_ends_when_there_are_no_more(self):
        settled, _ = self.settle(99, 2)
        self.assertEqual(draw.share([r for _, r in settled]), (4, 5))

    def test_an_error_ends_it(self):
        def verdict(_):
            raise SystemExit("the unchanged copy does not pass")
        with self.assertRaises(SystemExit):
            draw.settle(range(9), verdict, 3, 2)


class ReviewedList(unittest.TestCase):
    ROW = '- file: "f.c"\n  line: "if (a < 3) {"\n  mutant: "if (a <= 3) {"\n  why: "a is never 3"\n'

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        (self.root / "f.c").write_text(SOURCE)

    def read(self, text):
        (self.root / "list.yaml").write_text(text)
        return draw.Reviewed.read(self.root / "list.yaml")

    def test_holds_its_mutant_wherever_the_line_stands(self):
        listed = self.read("# why\n" + self.ROW)
        moved = "\n\n" + SOURCE.replace("    if", "\t\tif")
        for source in (SOURCE, moved):
            line = next(one for one in lines(source) if "if" in one.text)
            self.assertTrue(listed.holds(draw.Mutant(line, "  if (a <= 3) {\n")))
            self.assertFalse(listed.holds(draw.Mutant(line, "  if (a > 3) {\n")))
        self.assertEqual(listed.stale(self.root), [])

    def test_a_row_that_finds_nothing_is_an_error(self):
        listed = self.read(self.ROW + self.ROW + self.ROW.replace("a < 3", "a < 4") + self.ROW.replace("f.c", "g.c")
                           + self.ROW.replace("<=", "<") + self.ROW.replace("a is never 3", " ").replace("<=", "!="))
        said = listed.stale(self.root)
        self.assertEqual([s.split(":")[1] for s in said], ["5", "9", "13", "17", "21"])
        for part, one in zip(["twice", "no line reads", "no such file", "the line itself", "why is empty"], said):
            self.assertIn(part, one)

    def test_a_row_of_another_form_is_an_error(self):
        for text in (self.ROW.replace("why", "because"), self.ROW.replace("  why: \"a is never 3\"\n", ""),
                     '  line: "x"\n', '- file: f.c\n'):
            with self.assertRaises(SystemExit, msg=text):
                self.read(text)


class OfGremlins(unittest.TestCase):
    def test_a_token_is_put_another_way(self):
        for text, column, kind, want in (
                ("\tif a >= b {\n", 7, "CONDITIONALS_BOUNDARY", "\tif a > b {\n"),
                ("\tif a >= b {\n", 7, "CONDITIONALS_NEGATION", "\tif a < b {\n"),
                ('\ts := f("\u00b5", y+x)\n', 16, "ARITHMETIC_BASE", '\ts := f("\u00b5", y-x)\n'), # columns count bytes
                ("\tx &^= y\n", 4, "REMOVE_SELF_ASSIGNMENTS", "\tx = y\n"),
                ("\tx <<= y\n", 4, "INVERT_BWASSIGN", "\tx >>= y\n"),
                ("\t\tbreak outer\n", 3, "INVERT_LOOPCTRL", "\t\tcontinue outer\n"),
                ("\tx %= y\n", 4, "INVERT_ASSIGNMENTS", None), # gremlins leaves it as it is
                ("\tif a >= b {\n", 6, "CONDITIONALS_BOUNDARY", None)):
            self.assertEqual(gremlins.replaced(text, column, kind), want, text)

    def test_the_product_alone(self):
        for name, left_out in (("operator/internal/agent/agent.go", False), ("operator/internal/agent/agent_test.go", True),
                               ("clients/go/spans/otlptest/receiver.go", True), ("clients/go/r2p2/example/minimal/main.go", True),
                               ("operator/internal/redirect/programs/zz_generated_crab_lb_bpfel.go", True)):
            self.assertEqual(bool(gremlins.LEFT_OUT.search(name)), left_out, name)


class OfUniversalmutator(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import universal # the package may be missing where only the tree is read
        cls.universal = universal

    def test_comments_and_brackets_are_no_lines(self):
        source = '#include "a.h"\n/* two\n   lines */\nint x = 1; // one\n\n}\nstatic_assert(sizeof(int) == 4, "");\n#define N 3\nputs("// no comment");\n'
        self.assertEqual([one.number for one in self.universal.worth("f.c", source)], [4, 8, 9])

    def test_a_mutant_of_a_comment_is_none(self):
        source = "int x = 1; // 2 < 3\n"
        texts = [m.text for m in self.universal.mutants_of(lines(source)[0], source)]
        self.assertTrue(texts)
        self.assertEqual([t for t in texts if "int x = 1;" in t and "2 < 3" not in t], [])

    def test_a_bound_is_moved(self):
        texts = [draw.plain(m.text) for m in self.universal.mutants_of(lines()[2], SOURCE)]
        self.assertIn("if (a <= 3) {", texts)
        self.assertEqual(len(texts), len(set(texts)))


class Trial(unittest.TestCase):
    def one(self, script, folder="/"):
        return trial.Test("t", ("sh", "-c", script), folder, (("NAME", "x"),), "t")

    def said(self, script):
        with tempfile.TemporaryDirectory() as folder:
            return trial.Tests({"t": 0.1}).fails(self.one(script, folder))

    def test_a_failure_that_does_not_come_again_is_none(self):
        self.assertIsNone(self.said("true"))
        self.assertEqual(self.said("echo FAIL: not seven; exit 3"), "t: FAIL: not seven")
        self.assertIsNone(self.said("test -e again || { touch again; exit 1; }"))

    def test_what_is_skipped_here_says_nothing(self):
        self.assertIsNone(self.said("exit 77"))

    def test_the_environment_and_the_folder(self):
        self.assertIsNone(self.said('test "$NAME" = x && test ! -e there && touch there'))

    def test_who_takes_a_processor_for_ever_is_stopped_once(self):
        with unittest.mock.patch.multiple(trial, LEAST_PROCESSOR_SECONDS=1, TIMES=0):
            self.assertEqual(self.said("echo >>runs; test $(wc -l <runs) = 1 || exit 0; while :; do :; done"), "t: never ends")

    def test_what_does_not_pass_unchanged_judges_nothing(self):
        with self.assertRaises(SystemExit):
            trial.Tests({}).passes(self.one("false"))

    def test_how_long_the_unchanged_code_takes_is_kept(self):
        tests = trial.Tests({})
        tests.passes(self.one("true"))
        self.assertGreaterEqual(tests.kept["t"], 0)


if __name__ == "__main__":
    unittest.main()
