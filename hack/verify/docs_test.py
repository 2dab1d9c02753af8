#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What docs.py finds wrong is wrong, and nothing else. Run: hack/verify/docs_test.py"""
import pathlib
import tempfile
import unittest

import docs


class Links(unittest.TestCase):
    def broken(self, text):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            page.write_text(text)
            pathlib.Path(folder, "there.md").write_text("")
            return [line.partition("page.md:")[2] for line in docs.broken_links(page)]

    def test_what_is_there(self):
        self.assertEqual(self.broken("[a](there.md) [b](there.md#part) ![c](there.md \"title\") [d](#here) [e](https://x/y.md)\n\n[f]: there.md\n"), [])

    def test_what_is_not(self):
        self.assertEqual(self.broken("\n[a](gone.md#part)\n\n[b]: lost.md\n"), ["2: a link to gone.md, which is not there", "4: a link to lost.md, which is not there"])

    def test_code_has_no_links(self):
        self.assertEqual(self.broken("`a[i](gone)`\n```c\nt[i](gone);\n```\n"), [])

    def test_the_line_behind_code_keeps_its_number(self):
        self.assertEqual(self.broken("```c\na\nb\n```\n[a](gone.md)\n"), ["5: a link to gone.md, which is not there"])


class Rules(unittest.TestCase):
    def test_a_page_that_names_a_rule_says_where_rules_stand(self):
        self.assertEqual(docs.unexplained("A credit (R-63) goes back.\n\nSo it does (R-64).\n", "RM"), "R-63")
        self.assertIsNone(docs.unexplained("A credit ([R-63](../reference/protocol.md)) goes back (R-64).\n", "RM"))

    def test_what_no_rule_is_called_is_none(self):
        self.assertIsNone(docs.unexplained("UTF-8, X-1, `R-1` and\n```\nR-2\n```\n", "RM"))


class Files(unittest.TestCase):
    def test_files_of_a_page_are_written_where_it_says(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            page.write_text("```go file=a/b/main.go\npackage main\n```\n```sh ci\ntrue\n```\n```yaml\nx: 1\n```\n")
            self.assertEqual(docs.files(page), {"a/b/main.go": "package main\n"})
            docs.write_files(page, pathlib.Path(folder))
            self.assertEqual(pathlib.Path(folder, "a/b/main.go").read_text(), "package main\n")

    def test_the_tutorial_that_makes_the_service_comes_first(self):
        self.assertEqual(docs.in_order("first-hour")[0].name, "your-own-service.md")
        self.assertEqual(sorted(docs.in_order("first-hour")), sorted(docs.in_order("ci")))


class Decisions(unittest.TestCase):
    def misnumbered(self, **titles):
        with tempfile.TemporaryDirectory() as folder:
            for name, title in titles.items():
                pathlib.Path(folder, name[1:].replace("_", "-") + ".md").write_text(title)
            return docs.misnumbered(pathlib.Path(folder))

    def test_one_behind_the_other(self):
        self.assertEqual(self.misnumbered(n0001_a="# 0001: a", n0002_b="# 0002 · b"), [])

    def test_gap_twice_and_another_title(self):
        self.assertEqual(self.misnumbered(n0001_a="# 0001: a", n0003_b="# 0003: b"), ["0003-b.md: decisions are numbered without gaps: this is 0002"])
        self.assertEqual(self.misnumbered(n0001_a="# 0001: a", n0001_b="# 0001: b"), ["0001-b.md: decisions are numbered without gaps: this is 0002"])
        self.assertEqual(self.misnumbered(n0001_a="# 0002: a"), ["0001-a.md: its title begins with # 0001"])


class Rules(unittest.TestCase):
    PAGE = "| R-1 | x |\n| Z-20a | y |\n|Z-21†|z|\n text R-9\n"

    def test_letters_come_from_the_page(self):
        stated = docs.stated_rules(self.PAGE)
        self.assertEqual(stated, {("R", "1"), ("Z", "20a"), ("Z", "21")})

    def test_a_page_without_rules_judges_nothing(self):
        with self.assertRaises(SystemExit):
            docs.stated_rules("no table")

    def test_citations(self):
        self.assertEqual(docs.citations("/* Z-20a, R-7, K-3 */ static void z21_holds(void) { m->r2_len; }", "RZ"), [("Z", "20a"), ("R", "7"), ("z", "21")])
        self.assertEqual(docs.citations("func r7_x() // R-7", "RZ", names=False), [("R", "7")])


if __name__ == "__main__":
    unittest.main()
