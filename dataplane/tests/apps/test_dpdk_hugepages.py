# SPDX-License-Identifier: Apache-2.0
"""K-7: --dpdk-hugepages=auto takes what the process gets, not what the machine has free. A cgroup that grants none or
fewer, and pages that somebody else has reserved, mean ordinary memory and a line that says why; `on` fails and says how
many were granted. Needs root, the hugetlb controller of cgroup v2 and 96 MiB that can be reserved; skipped by name
without."""
import ctypes
import glob
import mmap
import os
import struct
import subprocess
import unittest

from bed import Bed, main, program, wait_for

SWITCH = os.environ.get("BOBTAIL_MEMIF_SWITCH", "")
PAGES = "/proc/sys/vm/nr_hugepages"
NEED = 48  # pages of 2 MiB, a little more than 4096 buffers take
MAP_HUGETLB = 0x40000


def read(path):
    with open(path) as f:
        return f.read().strip()


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def hugetlb_root():
    """The cgroup v2 hierarchy, if it can limit hugepages."""
    for root in ["/sys/fs/cgroup", *glob.glob("/sys/fs/cgroup/unified")]:
        try:
            if "hugetlb" in read(root + "/cgroup.controllers").split():
                return root
        except OSError:
            pass
    return None


def refuse_memory_policies():
    """The calling process gets what container runtimes' seccomp filter says to mbind, set_mempolicy and get_mempolicy: EPERM."""
    load, jump_if, answer = 0x20, 0x15, 0x06
    code = [(load, 0, 0, 0), (jump_if, 3, 0, 237), (jump_if, 2, 0, 238), (jump_if, 1, 0, 239), (answer, 0, 0, 0x7fff0000), (answer, 0, 0, 0x00050001)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    filter_ = ctypes.create_string_buffer(struct.pack("HL", len(code), ctypes.addressof(text)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, filter_, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


@unittest.skipUnless(os.path.exists(SWITCH), "this build has no DPDK")
@unittest.skipUnless(os.getuid() == 0, "needs root")
class Hugepages(Bed):
    def setUp(self):
        super().setUp()
        before = int(read(PAGES))
        self.addCleanup(write, PAGES, str(before))
        write(PAGES, str(before + NEED))
        if int(read(PAGES)) < before + NEED:
            self.skipTest("%d hugepages of 2 MiB cannot be reserved here" % NEED)

    def begin(self, mode, cgroup=None, confine=lambda: None):
        """What the program says of its memory when it is started there."""
        name = "server-" + mode
        def enter():
            if cgroup:
                write(cgroup + "/cgroup.procs", str(os.getpid()))
            confine()
        log = open(self.path(name + ".log"), "w")
        p = subprocess.Popen([program("bobtail-serve"), "--driver=dpdk", "--address=10.98.0.3", "--dpdk-port=net_ring0",
                              "--dpdk-buffers=4096", "--dpdk-hugepages=" + mode, "--ctl=" + self.path(name + ".sock")],
                             stdout=log, stderr=subprocess.STDOUT, preexec_fn=enter)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        said = lambda: read(self.path(name + ".log"))
        wait_for("it has started or ended", lambda: os.path.exists(self.path(name + ".sock")) or p.poll() is not None)
        running = p.poll() is None
        p.kill()
        p.wait()
        log.close()
        return running, said()

    def limited(self, most):
        root = hugetlb_root()
        if root is None:
            self.skipTest("no hugetlb controller of cgroup v2 here")
        here = "%s/bobtail-k7-%d" % (root, os.getpid())
        if "hugetlb" not in read(root + "/cgroup.subtree_control").split():
            write(root + "/cgroup.subtree_control", "+hugetlb")
            self.addCleanup(write, root + "/cgroup.subtree_control", "-hugetlb")
        os.mkdir(here)
        self.addCleanup(os.rmdir, here)
        write(here + "/hugetlb.2MB.max", str(most))
        return here

    def test_pages_that_are_granted_are_taken(self):
        running, said = self.begin("auto")
        self.assertTrue(running, said)
        self.assertIn("MiB of hugepages\n", said)

    def test_pages_are_taken_where_memory_policies_are_refused(self):
        """As in a container without SYS_NICE."""
        running, said = self.begin("on", confine=refuse_memory_policies)
        self.assertTrue(running, said)
        self.assertIn("MiB of hugepages, on the NUMA nodes that the kernel chooses\n", said)

    def test_cgroup_grants_none(self):
        running, said = self.begin("auto", self.limited(0))
        self.assertTrue(running, said)
        self.assertRegex(said, r"MiB of ordinary memory \(\d+ MiB of hugepages are free, and 0 MiB of the \d+ wanted are granted")

    def test_cgroup_grants_fewer(self):
        running, said = self.begin("auto", self.limited(8 << 20))
        self.assertTrue(running, said)
        self.assertRegex(said, r"MiB of ordinary memory \(\d+ MiB of hugepages are free, and 8 MiB of the \d+ wanted are granted")

    def test_on_says_what_was_granted(self):
        running, said = self.begin("on", self.limited(8 << 20))
        self.assertFalse(running, said)
        self.assertRegex(said, r"MiB of hugepages are wanted, \d+ MiB are free and 8 MiB granted to this process")

    def test_only_reservations(self):
        """What somebody else has reserved and not touched yet is free, and nobody else's."""
        free = int(read("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"))
        mine = mmap.mmap(-1, free * 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_HUGETLB)
        self.addCleanup(mine.close)
        running, said = self.begin("auto")
        self.assertTrue(running, said)
        self.assertRegex(said, r"MiB of ordinary memory \(\d+ MiB of hugepages are free, and 0 MiB of the \d+ wanted are granted")


if __name__ == "__main__":
    main()
