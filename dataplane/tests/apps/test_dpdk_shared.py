# SPDX-License-Identifier: Apache-2.0
"""bobtail-router linked with DPDK's shared libraries (dpdk_link=shared): it really is, it loads its drivers from DPDK's
folder at start, and it forwards over one of them, between a client and a server as this build links them."""
import os
import re
import subprocess
import unittest

from bed import main, program
from test_dpdk import MemifBed

LINK = os.environ["BOBTAIL_DPDK_LINK"]
ROUTER = os.environ["BOBTAIL_ROUTER_SHARED"]
PACKETS = os.environ["BOBTAIL_PACKETS_SHARED"]


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def needed(path):
    """DPDK's libraries that this program names as needed: {"eal", "ethdev", …}."""
    found = (re.search(r"\(NEEDED\).*\[librte_(\w+)\.so", line) for line in lines("readelf", "-dW", path))
    return {m.group(1) for m in found if m}


def inside(path):
    """Functions of DPDK that lie in the program itself. Those of its headers are local and do not count, nor do its
    tables, of which a linker puts a copy into each program that reads them."""
    symbols = (line.split() for line in lines("nm", "--defined-only", "--extern-only", path))
    return [s[-1] for s in symbols if s[-2] in "TW" and s[-1].startswith("rte_")]


def mapped(pid):
    """DPDK's libraries in a running process: {"eal": the file it came from, …}."""
    with open("/proc/%d/maps" % pid) as f:
        found = (re.search(r"(/\S*/librte_(\w+)\.so\S*)$", line) for line in f.read().splitlines())
        return {m.group(2): m.group(1) for m in found if m}


class Linked(unittest.TestCase):
    def test_dpdk_is_outside_the_program(self):
        for path in (ROUTER, PACKETS):
            self.assertLessEqual({"eal", "ethdev", "mbuf", "mempool", "ring"}, needed(path), path)
            self.assertEqual(inside(path), [], path)
        # What is called by name. All other drivers are loaded: a program that needs one would not start without it.
        self.assertEqual({n for n in needed(PACKETS) if n.startswith("net_")}, {"net_ring"})
        self.assertEqual({n for n in needed(ROUTER) if n.startswith("net_")}, set())

    @unittest.skipUnless(LINK == "static", "this build links every program with shared libraries")
    def test_a_static_program_looks_different(self):
        """What the test above looks at can tell."""
        self.assertEqual(needed(program("bobtail-router")), set())
        self.assertIn("rte_eal_init", inside(program("bobtail-router")))

    def test_the_program_starts(self):
        self.assertEqual(lines(ROUTER, "--version"), lines(program("bobtail-router"), "--version"))


class Forwards(MemifBed):
    ROUTER = ROUTER

    def test_every_request_is_answered(self):
        self.start_service("--service-time=fixed:200us")
        libraries = mapped(self.processes["router"].pid)
        self.assertIn("eal", libraries)
        self.assertRegex(libraries.get("net_memif", "no memif driver was loaded"),
                         r"/dpdk/pmds-[\d.]+/librte_net_memif\.so")
        if LINK == "static":
            self.assertEqual(mapped(self.processes["server"].pid), {})
        self.answered(self.load_over_memif, "--verify", "--connections=4", seconds=0.5)
        self.assert_credits_return("router")
        self.assertEqual(self.ctl("router").counter("io_tx_dropped_total", reason="no_buffer"), 0)
        self.terminate("server")
        self.terminate("router")


if __name__ == "__main__":
    main()
