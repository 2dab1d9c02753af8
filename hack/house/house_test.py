#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of the house, on small trees where they can be counted by hand."""
import json
import pathlib
import tempfile
import unittest
import unittest.mock

import branches
import circles
import judge
import shape
import sources
import static

ROOM = "dataplane/src/router"


class Tree(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.root = pathlib.Path(tmp.name)
        for name, value in (("ROOT", self.root), ("listed", self.listed)):
            patch = unittest.mock.patch.object(sources, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def listed(self, *patterns):
        files = [p.relative_to(self.root) for p in sorted(self.root.rglob("*")) if p.is_file()]
        return [f.as_posix() for f in files if any(f.match(p.rpartition("/")[2]) and f.as_posix().startswith(p.rpartition("/")[0]) for p in patterns)]

    def file(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class Circles(Tree):
    def room(self, **files):
        for name, text in files.items():
            self.file(f"{ROOM}/{name[:-2]}.{name[-1]}", text)
        return [[pathlib.Path(u).name for u in part] for part in circles.circles(circles.edges(ROOM))]

    def test_includes_alone_make_none(self):
        self.assertEqual(self.room(a_c='#include "b.h"\nvoid a(void)\n{\n    b();\n}\n', b_h="void b(void);\n", b_c='#include "b.h"\nvoid b(void)\n{\n}\n'), [])

    def test_a_call_back_closes_one_whatever_header_declares_it(self):
        found = self.room(all_h="void a(void);\nvoid b(void);\n", a_c='#include "all.h"\nvoid a(void)\n{\n    b();\n}\n',
                          b_c='#include "router/all.h"\nvoid b(void)\n{\n    a();\n}\n')
        self.assertEqual(found, [["a", "b"]])

    def test_what_a_header_does_counts_and_what_it_declares_does_not(self):
        self.file(f"{ROOM}/state.h", "void a(void);\nstatic inline void s(void)\n{\n}\n")
        self.assertEqual(self.room(a_c='#include "state.h"\nvoid a(void)\n{\n    s();\n}\n'), [])
        self.file(f"{ROOM}/state.h", "void a(void);\nstatic inline void s(void)\n{\n    a();\n}\n")
        self.assertEqual(self.room(), [["a", "state"]])

    def test_a_word_in_a_comment_or_a_text_is_no_call(self):
        self.assertEqual(self.room(a_c="void a(void)\n{\n    b();\n}\n", b_c='void b(void)\n{\n    say("a"); /* a() */ // a()\n}\n'), [])

    def test_a_structure_or_a_member_of_that_name_is_no_call(self):
        self.assertEqual(self.room(a_c="void a(void)\n{\n    b();\n}\n", b_c="void b(void)\n{\n    struct a x = {.a = 1};\n    p->a = x.a;\n}\n"), [])

    def test_static_functions_of_one_name_are_not_confused(self):
        self.assertEqual(self.room(a_c="static int take(int x)\n{\n    return x;\n}\nint a(void)\n{\n    return take(b());\n}\n",
                                   b_c="static int take(int x)\n{\n    return x;\n}\nint b(void)\n{\n    return take(1);\n}\n"), [])

    def test_a_table_of_functions_in_parameters(self):
        found = self.room(a_c="int a(int (*by)(int, int), struct x *s)\n{\n    return b(s);\n}\n", b_c="int b(struct x *s)\n{\n    return a(0, s);\n}\n")
        self.assertEqual(found, [["a", "b"]])

    def test_why_one_leads_to_another_is_told(self):
        self.file(f"{ROOM}/b.h", "void b(void);\nvoid c(void);\n")
        self.room(a_c='#include "b.h"\nvoid a(void)\n{\n    b();\n    c();\n}\n', b_c="void b(void)\n{\n}\nvoid c(void)\n{\n}\n")
        self.assertEqual(circles.edges(ROOM)[f"{ROOM}/a"], {f"{ROOM}/b": {"include", "b", "c"}})

    def test_two_circles_are_two_and_the_larger_is_first(self):
        leads = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"c"}, "f": {"a"}}
        self.assertEqual(circles.circles(leads), [["c", "d", "e"], ["a", "b"]])


class Branches(Tree):
    def count(self, text, name="dataplane/apps/bobtail-router/loop.c"):
        self.file(name, text)
        return branches.rows()["split_branches_outside_router"][0]

    def test_forms_of_asking(self):
        for text in ("if (app->two.split != NULL) {", "x = r->split == NULL ? a : b;", "if (r->split) {", "bool one = !r->split;",
                     "if (a && w->router[i].split) {", "if (s->router_threads == 2) {", "if (app->opt.threads > 1) {", "if (bt_router_on_two_threads(r)) {"):
            self.assertEqual(self.count(text), 1, text)

    def test_what_asks_nothing(self):
        for text in ("bt_split_apply(r->split, now);", "if (bt_split_waits(r->split)) {", "// r->split != NULL", 'say("threads == 2");',
                     "struct bt_split *split;", "if (!split(entry, n)) {", "if (r->split->n > 3) {"):
            self.assertEqual(self.count(text), 0, text)

    def test_where_it_counts(self):
        asks = "if (r->split != NULL) {\n"
        self.assertEqual(self.count(asks, "dataplane/src/router/split.c"), 0)
        self.assertEqual(self.count(asks, "dataplane/tests/router/bed.c"), 0)
        self.assertEqual(self.count("if (opt.threads == 2) {\n", "dataplane/apps/bobtail-serve/main.c"), 0)
        self.assertEqual(self.count(asks, "dataplane/sim/router_node.c"), 1)


class Shape(Tree):
    C = "int f(int a, int b, int c)\n{\n    if (a && b) {\n        return c;\n    }\n    return a;\n}\n"
    GO = "package x\n\nfunc g(a, b int, by func(int, int) int) int {\n\tfor a < b {\n\t\ta = by(a, b)\n\t}\n\treturn a\n}\n"

    def test_parameters_and_complexity_of_both_languages(self):
        self.file("a.c", self.C)
        self.file("b.go", self.GO)
        found = {f.place.split()[1]: f[:2] for name in ("a.c", "b.go") for f in shape.functions_of(name)}
        self.assertEqual(found, {"f": (3, 3), "g": (3, 2)})

    def test_how_parameters_are_written(self):
        self.file("a.c", "void none(void)\n{\n}\n\nint two(int (*by)(int, int), /* a, b */ struct x *s)\n{\n    return f(1, 2, 3);\n}\n")
        self.file("b.go", "package x\n\nfunc none() {\n}\n\nfunc (r *T) two(a map[string]int,\n\tb func(int, int) (int, error),\n) (int, int) {\n\treturn f(1, 2, 3)\n}\n"
                  "\nfunc three[K, V any](a K, b V, c struct{ x, y int }) {\n}\n")
        found = {f.place.split()[1]: f.parameters for name in ("a.c", "b.go") for f in shape.functions_of(name) if f.place.split()[1] != "none"}
        self.assertEqual(found, {"two": 2, "three": 3})

    def test_what_was_counted_is_kept_until_the_file_changes(self):
        self.file("a.c", self.C)
        self.file("b.go", self.GO)
        before = shape.functions()
        with unittest.mock.patch.object(shape, "functions_of", lambda name: self.fail(name)):
            self.assertEqual(shape.functions(), before)
        self.file("b.go", self.GO.replace("a < b", "a < b && b < 9"))
        self.assertEqual([f.complexity for f in shape.functions()], [3, 3])

    def test_tests_count_for_parameters_only(self):
        f = shape.Function
        with unittest.mock.patch.object(shape, "functions", lambda: [f(2, 9, "a", False), f(7, 30, "b", True), f(8, 16, "c", False)]):
            self.assertEqual(shape.rows(), {"parameters_max": (8, ["c"]), "parameters_beyond": (2, ["b", "c"]), "complexity_max": (16, ["c"]),
                                            "complexity_beyond": (1, ["c"]), "complexity_max_tests": (30, ["b"])})


class Ceilings(unittest.TestCase):
    def test_worse_than_it_was_is_told_with_its_places(self):
        self.assertEqual(static.worse({"x": (5, ["a.c", "b.c"])}, {"x": 4}), ["x is 5; it was 4: a.c, b.c"])
        self.assertEqual(static.worse({"x": (4, [])}, {"x": 4}), [])

    def test_a_figure_without_a_ceiling_and_one_without_a_figure_are_told(self):
        self.assertEqual(len(static.worse({"x": (1, [])}, {"y": 1})), 2)

    def test_ceilings_are_never_raised(self):
        with tempfile.TemporaryDirectory() as tmp:
            file = pathlib.Path(tmp) / "ceilings.json"
            file.write_text('{"x": 4, "y": 4}')
            with unittest.mock.patch.object(static, "CEILINGS", file), unittest.mock.patch.object(static, "figures", lambda: {"x": (5, []), "y": (3, [])}):
                static.main(["--lower"])
                self.assertEqual(json.loads(file.read_text()), {"x": 4, "y": 3})


class LastRuns(unittest.TestCase):
    def test_of_this_commit_or_missing(self):
        with tempfile.TemporaryDirectory() as tmp:
            state = judge.Passed(pathlib.Path(tmp) / "commit")
            self.assertEqual(judge.last_runs(state), [])
            state.keep("test", {"test_wall_seconds_cold": 1900})
            self.assertEqual(judge.last_runs(state), [])
            state.keep("test", {"test_wall_seconds": 540})
            state.keep("test-steady", {"steady_runs_green": 3})
            self.assertEqual(judge.last_runs(state), [{"name": "test_wall_seconds", "value": 540}, {"name": "steady_runs_green", "value": 3}])
        self.assertEqual(judge.last_runs(judge.Passed(None)), [])


if __name__ == "__main__":
    unittest.main()
