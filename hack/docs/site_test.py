#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What hack/docs/site finds broken in a built site is broken, and nothing else. Run: hack/docs/site_test.py"""
import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("site_of_docs", str(pathlib.Path(__file__).with_name("site")))
site = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(site)


class Faults(unittest.TestCase):
    def faults(self, **pages):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in pages.items():
                pathlib.Path(folder, name + ".html").write_text(text)
            pathlib.Path(folder, "x.svg").write_text("")
            return site.faults(pathlib.Path(folder).resolve())

    def test_what_is_there(self):
        self.assertEqual(self.faults(a='<h2 id="up">u</h2><a href="#up"></a><a href="b.html#caf%C3%A9"></a><img src="x.svg"><a href="https://x/y"></a><a href="."></a>',
                                     b='<h1 id="café">', index=""), [])

    def test_what_is_not(self):
        self.assertEqual(self.faults(a='<a href="#up"></a><a href="gone.html"></a><img src="y.svg"><a href="b.html#part"></a>', b=""),
                         ["a.html: #up has no such place", "a.html: gone.html is not there", "a.html: y.svg is not there", "a.html: b.html#part has no such place"])

    def test_nothing_is_loaded_from_elsewhere(self):
        self.assertEqual(self.faults(a='<script src="https://x/y.js"></script><a href="https://x/"></a>'), ["a.html: https://x/y.js is loaded from elsewhere"])

    def test_the_page_of_a_server_for_what_is_lost_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "404.html").write_text('<a href="/gone.html"></a>')
            self.assertEqual(site.faults(pathlib.Path(folder).resolve()), [])


if __name__ == "__main__":
    unittest.main()
