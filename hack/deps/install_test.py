#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How hack/deps/install and the benchmarks' downloads get along with other users of apt. apt-get here is a
program of this test that answers as told; nothing is installed."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "measure/bench"))
import machine  # pylint: disable=wrong-import-position
import packages  # pylint: disable=wrong-import-position

LISTS = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)"
# Answers call number n with line n of the file "answers": an error, or "ok"; writes down what it was asked.
APT = """#!/bin/bash
echo "$*" >>"$FAKE/asked"
answer=$(sed -n "$(wc -l <"$FAKE/asked")p" "$FAKE/answers")
[ "$answer" = ok ] && exit 0
echo "$answer" >&2
exit 100
"""


class FakeApt(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = pathlib.Path(temporary.name)
        self.program("apt-get", APT)
        self.program("dpkg-query", "#!/bin/sh\nexit 1\n")  # nothing is installed
        self.program("sudo", '#!/bin/bash\nshift\n"$@"\n')
        self.program("sleep", "#!/bin/sh\n")
        self.env = {**os.environ, "PATH": f"{self.dir}:{os.environ['PATH']}", "FAKE": str(self.dir), "TMPDIR": str(self.dir),
                    "BOBTAIL_CACHE": str(self.dir / "cache")}

    def program(self, name, text):
        path = self.dir / name
        path.write_text(text)
        path.chmod(0o755)

    def answers(self, *lines):
        (self.dir / "answers").write_text("".join(line + "\n" for line in lines))

    def asked(self):
        words = [line.split() for line in (self.dir / "asked").read_text().splitlines()]
        return [next(w for w in line if w in ("update", "install", "download")) for line in words]


class Install(FakeApt):
    def run_install(self):
        return subprocess.run([ROOT / "hack/deps/install", "--only=dev"], env=self.env, capture_output=True, text=True, timeout=120)

    def test_a_held_lock_is_waited_for(self):
        self.answers(LISTS, LISTS, "ok", LISTS, "ok")
        p = self.run_install()
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertEqual(self.asked(), ["update"] * 3 + ["install"] * 2)
        self.assertIn("held by process 4711", p.stdout)
        for line in (self.dir / "asked").read_text().splitlines():
            self.assertIn("DPkg::Lock::Timeout=300", line)

    def test_patience_ends(self):
        self.answers("ok", LISTS)
        self.env["APT_PATIENCE"] = "0"
        p = self.run_install()
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("apt.log", p.stderr)
        self.assertIn(LISTS, (self.dir / "cache/log/apt.log").read_text())

    def test_other_errors_are_not_waited_for(self):
        self.answers("E: Failed to fetch", "E: Unable to locate package meson")
        p = self.run_install()
        self.assertNotEqual(p.returncode, 0)
        self.assertEqual(self.asked(), ["update", "install"])


class Download(FakeApt):
    def download(self, root=True):
        with mock.patch.dict(os.environ, self.env), mock.patch("time.sleep"), \
                mock.patch("os.geteuid", lambda: 0 if root else 1000):
            packages.download(["redis-server"], self.dir)

    def test_missing_lists_are_fetched_once(self):
        self.answers("E: Unable to locate package redis-server", LISTS, "ok", "ok")
        self.download()
        self.assertEqual(self.asked(), ["download", "update", "update", "download"])

    def test_who_may_not_fetch_them_is_told_to(self):
        self.answers("E: Unable to locate package redis-server")
        with self.assertRaisesRegex(machine.Failed, "Unable to locate package redis-server; run apt-get update as root"):
            self.download(root=False)
        self.assertEqual(self.asked(), ["download"])

    def test_what_is_nowhere_fails_with_both_reasons(self):
        self.answers("E: first", "E: no network", "E: still nothing")
        with self.assertRaisesRegex(machine.Failed, "(?s)still nothing.*no network"):
            self.download()


if __name__ == "__main__":
    unittest.main()
