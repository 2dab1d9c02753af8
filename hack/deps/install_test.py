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

LWIP = ROOT / "hack/deps/lwip"
LISTS = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)"
# Answers call number n with line n of the file "answers": an error, or "ok"; writes down what it was asked.
APT = """#!/bin/bash
echo "$*" >>"$FAKE/asked"
answer=$(sed -n "$(wc -l <"$FAKE/asked")p" "$FAKE/answers")
[ "$answer" = ok ] && exit 0
echo "$answer" >&2
exit 100
"""


def pinned(name):
    lines = (ROOT / "hack/deps/versions.env").read_text().splitlines()
    return next(line.split("=", 1)[1] for line in lines if line.startswith(name + "="))


class FakeApt(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = pathlib.Path(temporary.name)
        self.program("apt-get", APT)
        self.program("dpkg-query", "#!/bin/sh\nexit 1\n")  # nothing is installed
        self.program("sudo", '#!/bin/bash\nshift\n"$@"\n')
        self.program("sleep", "#!/bin/sh\n")
        self.program("python3", "#!/bin/sh\n")  # pip, which has packages of its own to look after
        self.env = {**os.environ, "PATH": f"{self.dir}:{os.environ['PATH']}", "FAKE": str(self.dir), "TMPDIR": str(self.dir),
                    "BOBTAIL_CACHE": str(self.dir / "cache"), "SYSTEMD_UNITS": str(self.dir / "units")}
        self.lwip = pathlib.Path(subprocess.run([LWIP, "--print"], env=self.env, capture_output=True, text=True, check=True).stdout.strip())
        self.lwip.mkdir(parents=True)
        (self.lwip / "unpacked").write_text(pinned("LWIP_SHA256") + "\n")

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

    def test_what_takes_long_tells_what_it_does(self):  # K-40
        self.program("apt-get", """#!/bin/bash
case "$*" in *update*)
  echo reading lists
  until grep -q 'apt-get update . s: reading lists' "$FAKE/said"; do read -rt 0.05 -u 9; done 9<> <(:) ;;
esac
""")
        self.env["TELL_SECONDS"] = "0.1"
        with open(self.dir / "said", "w", encoding="utf-8") as said:
            p = subprocess.run([ROOT / "hack/deps/install", "--only=dev"], env=self.env, stdout=said, stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        self.assertIn("reading lists", (self.dir / "cache/log/apt.log").read_text())

    def test_a_service_of_a_new_package_does_not_start(self):
        self.answers("ok", "ok")
        self.assertEqual(self.run_install().returncode, 0)
        self.assertEqual(os.readlink(self.dir / "units/prometheus.service"), "/dev/null")

    def test_a_service_that_was_there_is_left_alone(self):
        self.program("dpkg-query", '#!/bin/sh\n[ "${*##* }" = prometheus ] && echo installed\n')
        self.answers("ok", "ok")
        self.assertEqual(self.run_install().returncode, 0)
        self.assertFalse((self.dir / "units").exists())

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


class Lwip(FakeApt):
    def fetch(self, archive):
        """apt-get source leaves what is given as the archive in the folder it runs in."""
        (self.lwip / "unpacked").unlink()
        (self.dir / "archive").write_bytes(archive)
        name = "lwip_" + pinned("LWIP_VERSION").rsplit("-", 1)[0] + ".orig.tar.xz"
        self.program("apt-get", f'''#!/bin/bash
echo "$*" >>"$FAKE/asked"
case "$*" in *" source "*) cp "$FAKE/archive" {name} ;; esac
''')
        return subprocess.run([LWIP], env=self.env, capture_output=True, text=True, timeout=120)

    def test_lists_of_the_machine_are_left_alone(self):
        self.fetch(b"anything")
        asked = (self.dir / "asked").read_text().splitlines()
        self.assertEqual(len(asked), 2)
        for line in asked:
            for of in ("Dir::Etc::SourceParts=", "Dir::State::Lists=", "Dir::Cache="):
                self.assertRegex(line, f"{of}(?!/etc|/var)")
            self.assertIn("Dir::Etc::SourceList=/dev/null", line)
        self.assertIn(f"lwip={pinned('LWIP_VERSION')}", asked[1])

    def test_another_archive_than_the_pinned_one_is_refused(self):
        p = self.fetch(b"not lwIP")
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("another sha256", p.stderr)
        self.assertFalse((self.lwip / "unpacked").exists())

    def test_what_is_there_is_not_fetched_again(self):
        p = subprocess.run([LWIP], env=self.env, capture_output=True, text=True, timeout=120)
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertFalse((self.dir / "asked").exists())


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
