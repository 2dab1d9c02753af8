# SPDX-License-Identifier: Apache-2.0
"""What else the machine does: was it quiet, how busy was it, and how to make it busy."""
import contextlib
import os
import subprocess
import sys
import time

QUIET_SHARE, LOOK_SECONDS = 10, 1.0  # percent of all processors that others may take
# A process that computes and nothing else, until it is ended or its parent is gone.
SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(100000): pass\n"


def busy_seconds():
    """Processor seconds that the machine was not idle since it started, of all processors; None where /proc does not tell.

    Time that the host gave to other machines counts: it is not ours either.
    """
    try:
        with open("/proc/stat") as f:
            user, nice, system, _idle, _wait, irq, softirq, steal, *_ = map(int, f.readline().split()[1:])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def busy_share(before, took):
    """How busy all processors were since `before`, in percent: what a stage that waits leaves to others."""
    now = busy_seconds()
    return round(100 * (now - before) / (took * os.cpu_count())) if before is not None and now is not None and took else None


def quiet():
    """Whether nothing else is at work now; looked at for a second. Unknown counts as not quiet."""
    before, began = busy_seconds(), time.monotonic()
    time.sleep(LOOK_SECONDS)
    share = busy_share(before, time.monotonic() - began)
    return share is not None and share <= QUIET_SHARE


@contextlib.contextmanager
def spinners(number):
    """That many busy processes beside what is done meanwhile, in sessions of their own, as another user's work would be."""
    running = [subprocess.Popen([sys.executable, "-c", SPIN], stdin=subprocess.DEVNULL, start_new_session=True) for _ in range(number)]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()
