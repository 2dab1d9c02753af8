#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first tutorial as far as it goes without a cluster: its program compiles and answers, and its commands are few. Run: hack/docs/tutorial_test.py"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "hack/verify"))
import docs  # noqa: E402

PAGE = ROOT / "docs/start/your-own-service.md"


def commands():
    """The lines of the tutorial's shell blocks that a reader with a cluster types."""
    return [line for _, lang, tags, body in docs.blocks(PAGE) if lang == "sh" and "first-hour" in tags for line in body.splitlines() if line.strip()]


class Commands(unittest.TestCase):
    def test_at_most_twelve_and_each_one_command(self):
        """With the one that switches the alerts on, for clusters that have the Prometheus operator."""
        self.assertLessEqual(len(commands()) + 1, 12)
        for line in commands():
            self.assertIsNone(re.search(r";|&&|\|\||(^|\s)(for|while|if)\s|hack/|e2e/", line), line)


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.at = pathlib.Path(self.folder.name)
        docs.write_files(PAGE, self.at)
        self.at /= "build/shop"
        self.port = 20000 + os.getpid() % 12000  # below those that the kernel gives away, and not what others listen on
        program = self.at / "main.go"
        text = program.read_text()
        self.assertEqual(text.count("FirstPort: 8000"), 1)
        program.write_text(text.replace("FirstPort: 8000", f"FirstPort: {self.port}"))

    def go(self, *arguments):
        done = subprocess.run(["go", "-C", self.at, *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_it_compiles_as_the_page_says_and_answers(self):
        self.assertEqual(subprocess.run(["gofmt", "-l", self.at], capture_output=True, text=True).stdout, "")
        for line in commands():
            if line.startswith(("go -C build/shop", "CGO_ENABLED=0 go -C build/shop")):
                words = line.partition("go -C build/shop ")[2].split()
                self.go(*[w.replace("=../..", f"={ROOT}") for w in words])
        env = {"BOBTAIL_WORKERS": "2", "POD_IP": "127.0.0.7", "BOBTAIL_CTL": str(self.at / "ctl.sock")}
        with subprocess.Popen([self.at / "shop"], env=env) as server:
            try:
                self.assertEqual(ask(f"127.0.0.7:{self.port}", "hello"), "35")
            finally:
                server.terminate()
                self.assertEqual(server.wait(30), 0)


class ProgramInC(unittest.TestCase):
    """The same of the page about C, with the library of this tree."""

    def test_it_compiles_as_the_page_says_and_answers(self):
        page = ROOT / "docs/start/your-own-service-in-c.md"
        compile_it = next(line for _, lang, tags, body in docs.blocks(page) if lang == "sh" and "first-hour" in tags for line in body.splitlines() if line.startswith("gcc "))
        library = ROOT / "build/dataplane/src/api/libbobtail.a"
        if not library.is_file():
            self.skipTest("no libbobtail: hack/dataplane build release src/api/libbobtail.a")
        with tempfile.TemporaryDirectory() as folder:
            at = pathlib.Path(folder)
            docs.write_files(page, at)
            words = [w.replace("build/cshop", str(at / "build/cshop")) for w in compile_it.split()]
            done = subprocess.run([words[0], "-Wall", "-Wextra", "-Werror", *words[1:]], cwd=ROOT, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            port = 20000 + os.getpid() % 12000
            env = {"BOBTAIL_WORKERS": "2", "BOBTAIL_PORT": str(port), "POD_IP": "127.0.0.8", "BOBTAIL_CTL": str(at / "ctl.sock")}
            with subprocess.Popen([at / "build/cshop/cshop"], env=env) as server:
                try:
                    self.assertEqual(ask(f"127.0.0.8:{port}", "hello"), "35")
                finally:
                    server.terminate()
                    self.assertEqual(server.wait(60), 0)


def ask(target, payload):
    """The reply of the example's client, which waits for it; the server may be still starting."""
    for _ in range(20):
        done = subprocess.run(["go", "run", "./clients/go/r2p2/example/minimal", "call", f"--target={target}", "--timeout=5s", payload], cwd=ROOT, capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip()
    raise AssertionError(done.stderr)


if __name__ == "__main__":
    unittest.main()
