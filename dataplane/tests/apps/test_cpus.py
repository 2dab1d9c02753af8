# SPDX-License-Identifier: Apache-2.0
"""--cpus: the kernel's own list of where each thread may run is read back from the running programs."""
import os
import subprocess
import unittest

from agent_bed import AgentBed
from bed import Bed, ip, main, program, wait_for

ALL = sorted(os.sched_getaffinity(0))
PROGRAMS = {"bobtail-router": ["--address=" + ip(1)], "bobtail-serve": ["--address=" + ip(1)],
            "bobtail-load": ["--target=" + ip(1)]}


def threads(pid):
    """{thread: the CPUs it may run on}, the program's first thread first."""
    found = {}
    for tid in sorted(map(int, os.listdir("/proc/%d/task" % pid))):
        try:
            found[tid] = sorted(os.sched_getaffinity(tid))
        except ProcessLookupError:
            pass  # it has ended
    return found


def pinned(pid):
    """The CPU of the first thread, and those of the others that are pinned to one, sorted."""
    found = threads(pid)
    first = found.pop(pid)
    return first, sorted(c for c in found.values() if len(c) == 1)


class Refused(Bed):
    def refused(self, says, name, *options, prefix=()):
        p = subprocess.run([*prefix, program(name), *options], capture_output=True, text=True, timeout=20)
        self.assertEqual(p.returncode, 2, (options, p.stderr))
        self.assertIn(says, p.stderr)

    def test_what_is_no_list_of_cpus_is_named_with_its_value(self):
        for name, needed in PROGRAMS.items():
            for value in ("", "x", "%d,x" % ALL[0], "%d," % ALL[0], ",%d" % ALL[0], "%d 1" % ALL[0], "-1", "3-", "3-2", "0x1"):
                self.refused('--cpus: must be numbers of CPUs, such as 2,3 or 4-7; got "%s"' % value, name, *needed,
                             "--cpus=" + value)

    def test_a_cpu_that_is_not_there_or_not_allowed_is_named(self):
        for name, needed in PROGRAMS.items():
            for cpu in (max(ALL) + 1000, 123456):
                self.refused("--cpus: CPU %d is not one this process may run on" % cpu, name, *needed, "--cpus=%d" % cpu)
        if len(ALL) > 1:
            self.refused('which are %d; got "%d"' % (ALL[0], ALL[1]), "bobtail-router", "--address=" + ip(1),
                         "--cpus=%d" % ALL[1], prefix=("taskset", "-c", str(ALL[0])))

    def test_each_thread_needs_one_of_its_own(self):
        one = "--cpus=%d" % ALL[0]
        self.refused('a CPU for each of the 2 threads; got "%d"' % ALL[0], "bobtail-router", "--address=" + ip(1), "--threads=2",
                     one)
        self.refused("a CPU for each of the 3 threads", "bobtail-serve", "--address=" + ip(1), "--workers=2", "--occupy=spin", one)
        self.refused("names CPU %d twice" % ALL[0], "bobtail-router", "--address=" + ip(1), "%s,%d" % (one, ALL[0]))


@unittest.skipUnless(len(ALL) > 1, "one CPU only")
class Pinned(AgentBed):
    def assert_pinned(self, name, cpus):
        """The threads that carry packets are where they were told to be, the others are left alone."""
        pid = self.processes[name].pid
        for i, c in enumerate(cpus):  # told when it is done; the control socket may answer before
            wait_for("thread %d stays on CPU %d" % (i, c), lambda line="thread %d stays on CPU %d" % (i, c): line in self.log(name))
        first, others = pinned(pid)
        self.assertEqual(first, [cpus[0]])
        self.assertEqual(others, sorted([c] for c in cpus[1:]))
        self.assertIn(ALL, threads(pid).values(), "the control thread may run anywhere")

    def log(self, name):
        with open(self.path(name + ".log")) as f:
            return f.read()

    def test_without_the_option_nobody_is(self):
        self.start_router(1)
        self.ctl("router-1")
        self.assertEqual(set(map(tuple, threads(self.processes["router-1"].pid).values())), {tuple(ALL)})

    def test_one_thread(self):
        for name, start in (("router-1", self.start_router), ("server-1", self.start_server)):
            start(1, "--cpus=%d" % ALL[-1])
            self.ctl(name)
            wait_for("it started", lambda: pinned(self.processes[name].pid)[0] == [ALL[-1]])
            self.assert_pinned(name, ALL[-1:])
            self.terminate(name)

    def test_each_thread_of_two_has_its_own_in_the_order_given(self):
        for cpus in (ALL[:2], ALL[1::-1]):
            name = "router-%d" % cpus[0]
            self.start(name, [program("bobtail-router"), "--address=" + ip(1), "--threads=2", "--ctl=" + self.path(name + ".sock"),
                              "--cpus=%d,%d" % tuple(cpus)])
            self.ctl(name)
            wait_for("it started", lambda: pinned(self.processes[name].pid) == ([cpus[0]], [[cpus[1]]]))
            self.assert_pinned(name, cpus)
            self.terminate(name)

    def test_spinning_workers_follow_the_thread_that_has_the_sockets(self):
        self.start_server(1, "--occupy=spin", "--cpus=%d,%d" % (ALL[1], ALL[0]), workers=1)
        self.ctl("server-1")
        wait_for("it started", lambda: pinned(self.processes["server-1"].pid) == ([ALL[1]], [[ALL[0]]]))
        self.assert_pinned("server-1", ALL[1::-1])

    def test_the_generator(self):
        self.start_server(1)
        self.ctl("server-1")
        p = self.start_lasting_load([1], 50, "--cpus=%d" % ALL[-1])
        self.ctl("load")
        wait_for("it started", lambda: pinned(p.pid)[0] == [ALL[-1]])
        self.end_load()

    def test_the_agents_threads(self):
        self.serve()
        where = self.start_agent("--cpus=%d" % ALL[-1])
        a = self.agent(where)
        target = ip(2) + ":8000"
        self.refused("InvalidRequest", "threads", a.ask, "configure", protocol="r2p2", targets=[target], threads=2, connections=2)
        a.ask("configure", protocol="r2p2", targets=[target], threads=1, connections=2)
        self.assertEqual(pinned(self.processes["agent"].pid), (ALL, [ALL[-1:]]))


if __name__ == "__main__":
    main()
