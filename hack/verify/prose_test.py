#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What prose.py counts as a sentence, a word, an anchor; and that a page may not get worse. Run: hack/verify/prose_test.py"""
import pathlib
import tempfile
import unittest

import prose


def lengths(text):
    return [n for _, n, _ in prose.sentences(text)]


class Sentences(unittest.TestCase):
    def test_paragraphs_end_sentences_and_line_breaks_do_not(self):
        self.assertEqual(lengths("One two\nthree. Four five\n\nsix seven\n"), [3, 2, 2])

    def test_neither_semicolon_nor_colon_nor_dash_ends_one(self):
        self.assertEqual(lengths("one; two: three — four, five\n"), [5])

    def test_headings_tables_code_comments_and_pictures_are_none(self):
        self.assertEqual(lengths("# A head. Line\n\n| a. B | c |\n|---|---|\n\n```sh ci\nrun this. Now\n```\n\n<!-- not. This -->\n\n![a picture. Of](x.svg)\n\n    indented code\n    more of it\n"), [])

    def test_a_tilde_fence_may_hold_a_fence(self):
        self.assertEqual(lengths("~~~~\n```\na b c\n```\n~~~~\nafter it\n"), [2])

    def test_items_are_apart_and_go_on_over_lines(self):
        self.assertEqual(lengths("Three words here:\n- one two\n  three\n- four\n1. five six\n"), [3, 3, 1, 2])

    def test_quotations_are_read(self):
        self.assertEqual(lengths("> one two.\n> Three\n"), [2, 1])

    def test_code_is_one_word_and_a_link_its_text(self):
        self.assertEqual(lengths("Run `kubectl get slo -o wide` and [read the page](x.md#a) **now**.\n"), [7])

    def test_a_sentence_may_begin_with_code_or_a_figure_and_code_has_no_end(self):
        self.assertEqual(lengths("It ends. `a. B` begins. 12 more. (Another one.) Last\n"), [2, 2, 2, 2, 1])

    def test_abbreviations_and_decimals_do_not_end_one(self):
        self.assertEqual(lengths("Some, e.g. Redis, take 1.5 ms vs. NGINX with 0.2.0 in Fig. 3\n"), [13])

    def test_dashes_and_arrows_are_no_words(self):
        self.assertEqual(lengths("a → b – c = 3 & well-known\n"), [5])

    def test_the_line_is_that_of_the_paragraph(self):
        self.assertEqual([(line, n) for line, n, _ in prose.sentences("# x\n\n```\ncode\n```\none two\nthree\n")], [(6, 3)])


class Anchors(unittest.TestCase):
    def test_slugs(self):
        for heading, anchor in {"In a pod": "in-a-pod", "`spec.router` & more": "specrouter--more", "A [link](x.md), *so*": "a-link-so",
                                "bobtail_slo_met": "bobtail_slo_met", "What — and why?": "what--and-why"}.items():
            self.assertEqual(prose.slug(heading), anchor)

    def broken(self, **pages):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in pages.items():
                pathlib.Path(folder, name + ".md").write_text(text)
            return [(line, what.split(", ")[1]) for line, what in prose.broken(pathlib.Path(folder, "page.md"))]

    def test_what_is_there(self):
        self.assertEqual(self.broken(page="# Top\n[a](#top) [b](other.md#a-part) [c](other.md#named) [d](https://x/#y)\n", other="## A part\n<a id=\"named\"></a>\n"), [])

    def test_what_is_not(self):
        self.assertEqual(self.broken(page="[a](#top)\n[b](other.md#gone)\n[c](lost.md#x)\n<a href=\"none.md\">x</a>\n", other="# Other\n```\n# gone\n```\n"),
                         [(1, "which has no such heading"), (2, "which has no such heading"), (3, "which is not there"), (4, "which is not there")])

    def test_code_has_no_links(self):
        self.assertEqual(self.broken(page="`[a](#top)`\n```\n[b](gone.md)\n```\n"), [])


class Dated(unittest.TestCase):
    def found(self, text):
        return [line for line, _ in prose.dated(text)]

    def test_a_day_or_a_commit_belongs_to_the_lab(self):
        self.assertEqual(self.found("On 2026-11-25 it held.\n\nIt printed (commit 3d0bb20):\n\n| a | 2026-11-25 |\n"), [1, 3, 5])
        self.assertEqual(self.found("On the machine of that day,\n26 November 2026, other programs ran.\n\nOn May 3 it did not.\n\nIt is open since January 2025. It may hold 3 Mays.\n"), [2, 4])

    def test_what_a_program_prints_or_takes_may_have_one(self):
        self.assertEqual(self.found("`orders/2026-11-26`\n```\n2026-11-24T00:05:31Z load info\n```\n[lab](../lab/2026-11-26.md) a commit of yours\n"), [])


class NoWorse(unittest.TestCase):
    LONG = {"over": 1, "words": 200, "sentences": 10}  # 20 words a sentence
    GOOD = {"over": 0, "words": 160, "sentences": 10}

    def test_a_new_page_is_held_to_the_goals(self):
        self.assertEqual(prose.worse({"a.md": self.GOOD}, {}), [])
        self.assertEqual(len(prose.worse({"a.md": self.LONG}, {})), 2)

    def test_a_listed_page_may_stay_and_not_get_worse(self):
        self.assertEqual(prose.worse({"a.md": self.LONG}, {"a.md": {"over": 1, "mean": 20}}), [])
        self.assertEqual(len(prose.worse({"a.md": self.LONG}, {"a.md": {"over": 0, "mean": 20}})), 1)
        self.assertEqual(len(prose.worse({"a.md": self.LONG}, {"a.md": {"over": 1, "mean": 19.5}})), 1)

    def test_a_page_that_is_mended_leaves_the_list(self):
        self.assertEqual(prose.worse({"a.md": self.GOOD}, {"a.md": {"over": 1, "mean": 20}}), ["a.md: is mended; take it out of hack/verify/prose-owing.json"])

    def test_pages_of_the_tree_are_judged(self):
        names = {prose.name(p) for p in prose.judged()}
        self.assertIn("README.md", names)
        self.assertIn("docs/guides/operations.md", names)
        self.assertFalse([n for n in names if n.startswith(("docs/lab/", "docs/decisions/")) or n == "docs/reference/api.md"])


if __name__ == "__main__":
    unittest.main()
