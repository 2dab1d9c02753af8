# SPDX-License-Identifier: Apache-2.0
"""How long the machine kept programs waiting for a processor, and what follows from it.

UDP promises no delivery, and R2P2 gives a message of several packets up when its peer is silent for four RTOs (R-20).
A program that waits longer than that for a processor is such a peer: its requests are lost rightly. So a load that has
to be answered entirely is offered again after losses, but only if the programs measurably waited for so long; the
test's output says so. On a machine that gave them what they asked for, the first loss fails the test.
"""
import os
import subprocess
import tempfile
import time

GIVES_UP = 0.4  # s; four RTOs of a Kernel device
PATIENCE = 150.0  # s; then the last round is judged as it is


def waited(pid):
    """Seconds that threads of the process stood in run queues so far; 0 if it is gone."""
    total = 0
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
                total += int(f.read().split()[1])
    except OSError:
        pass
    return total / 1e9


class Finished:
    """A program that was run to its end: returncode, stdout, stderr, and the seconds it waited for a processor."""

    def __init__(self, command, timeout):
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            p = subprocess.Popen(command, stdout=out, stderr=err)
            self.waited = 0.0
            try:
                self.waited = self.watch(p, time.monotonic() + timeout)
            finally:
                if p.poll() is None:
                    p.kill()
                    p.wait()
            self.returncode = p.returncode
            out.seek(0)
            err.seek(0)
            self.stdout, self.stderr = out.read(), err.read()

    @staticmethod
    def watch(p, deadline):
        """Until the program has ended; what it waited is read while its entry in /proc still stands."""
        while os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > deadline:
                raise AssertionError("%s does not end" % " ".join(p.args))
            time.sleep(0.02)
        return waited(p.pid)


def complete(result):
    """True if every request of a load was answered."""
    return result["completed"] == result["offered"] > 0
