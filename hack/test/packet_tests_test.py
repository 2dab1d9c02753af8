#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What packet_tests.py says and how it ends, when drivers pass, fail, break or are left out."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).with_name("packet_tests.py")
DRIVERS = ("sim", "udp", "ring", "memif", "af_packet", "af_xdp")
# Plays test_io_packets: prints and ends as the file of the driver's name says.
PROGRAM = """#!/bin/sh
d=$(dirname "$0")
f=$d/$1; [ "$BT_TEST_HUGEPAGES" = on ] && [ -e "$f.huge" ] && f=$f.huge
cat "$f.says"
exit "$(cat "$f")"
"""
PASSES = "[ RUN      ] arrives\n[       OK ] arrives\n[ RUN      ] arrives_v6\n[       OK ] arrives_v6\n"
FAILS = PASSES.replace("      OK ] arrives_v6", "  FAILED  ] arrives_v6")
SKIPS = "[ RUN      ] arrives\nleft out in one direction: no right to it\n[  SKIPPED ] arrives\n"


class PacketTests(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.build = pathlib.Path(tmp.name)
        self.dir = self.build / "tests/io"
        self.dir.mkdir(parents=True)
        program = self.dir / "test_io_packets"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        for d in DRIVERS:
            self.plays(d, 0, PASSES)

    def plays(self, driver, status, says):
        (self.dir / driver).write_text(f"{status}\n")
        (self.dir / f"{driver}.says").write_text(says)

    def tool(self):
        measured = self.build / "measured.json"
        p = subprocess.run([sys.executable, TOOL, "--build", self.build, "--measurements", measured],
                           capture_output=True, text=True, timeout=60, env={**os.environ, "BT_TEST_HUGEPAGES": ""})
        return p.returncode, p.stdout, {m["name"]: m["value"] for m in json.loads(measured.read_text())}

    def test_every_driver_passes(self):
        code, said, measured = self.tool()
        self.assertEqual(code, 0, said)
        self.assertEqual(measured, {"packet_drivers": 6, "packet_cases_passed": 16, "packet_cases_failed": 0})
        self.assertIn("6 drivers: 16 cases passed, 0 failed, 0 left out", said)

    def test_a_driver_that_is_left_out_is_named_and_is_no_success(self):
        self.plays("af_xdp", 77, "af_xdp: left out: network namespaces need root\n")
        code, said, measured = self.tool()
        self.assertEqual((code, measured["packet_drivers"]), (1, 5))
        self.assertIn("af_xdp: left out: network namespaces need root", said)
        self.assertIn("Not run at all: af_xdp", said)

    def test_hugepages_may_be_missing(self):
        self.plays("ring.huge", 77, "ring: left out: 33 hugepages of 2 MiB cannot be reserved here\n")
        code, said, measured = self.tool()
        self.assertEqual((code, measured["packet_drivers"]), (0, 6), said)
        self.assertIn("33 hugepages of 2 MiB cannot be reserved here", said)

    def test_a_driver_of_which_no_case_ran_did_not_run(self):
        self.plays("udp", 0, SKIPS)
        code, said, _ = self.tool()
        self.assertEqual(code, 1)
        self.assertIn("udp: arrives: no right to it", said)
        self.assertIn("Not run at all: udp", said)

    def test_a_skipped_case_says_why_and_is_no_failure(self):
        self.plays("udp", 0, PASSES + SKIPS.replace("arrives", "forwards"))
        code, said, _ = self.tool()
        self.assertEqual(code, 0, said)
        self.assertIn("udp: forwards: no right to it", said)
        self.assertIn("1 left out", said)

    def test_a_failed_case_fails(self):
        self.plays("memif", 1, FAILS)
        code, said, measured = self.tool()
        self.assertEqual((code, measured["packet_cases_failed"]), (1, 2), said)  # in both kinds of memory
        self.assertIn("ok FAIL", said)

    def test_a_program_that_breaks_fails(self):
        self.plays("sim", 139, PASSES)
        code, said, _ = self.tool()
        self.assertEqual(code, 1)
        self.assertIn("sim: ended with status 139", said)

    def test_no_driver_at_all(self):
        for d in DRIVERS:
            self.plays(d, 77, f"{d}: left out: nothing works\n")
        self.assertEqual(self.tool()[0], 1)


if __name__ == "__main__":
    unittest.main()
