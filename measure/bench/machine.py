# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks know of the machine: processor time, processes of their own, and their weight.

Processor time comes from /proc/stat for the whole machine (interrupts and the kernel's
network path are in it, wherever they ran) and from /proc/<pid>/task/*/schedstat for the
benchmark's own processes. The difference is what others used: the noise of a run.
"""
import contextlib
import os
import pathlib
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "dataplane"
TICK = os.sysconf("SC_CLK_TCK")
CPUS = os.cpu_count() or 1


class Failed(Exception):
    """A benchmark could not be carried out; the text says why and what to do."""


def app(name):
    return str(BUILD / "apps" / name / name)


def bench(name):
    return str(BUILD / "bench" / name)


def load_average():
    return os.getloadavg()[0]


def idle_seconds():
    """Seconds the processors were idle or waiting for disks since boot, summed over all of them."""
    fields = [int(v) for v in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (fields[3] + fields[4]) / TICK


def own_seconds(pids):
    """Processor seconds of the given processes' threads so far; 0 for one that has ended."""
    total = 0
    for pid in pids:
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                total += int(pathlib.Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total / 1e9


class Window:
    """Processor seconds between two moments: of the whole machine (busy) and of some processes (own)."""

    def __init__(self, pids):
        self.pids = list(pids)
        self.at, self.idle, self.own = time.monotonic(), idle_seconds(), own_seconds(self.pids)

    def close(self):
        own = own_seconds(self.pids) - self.own
        wall = time.monotonic() - self.at
        busy = wall * CPUS - (idle_seconds() - self.idle)
        # Interrupts and the idle loop's own work belong to the run too, so a little of "others" is ours.
        return {"wall": wall, "busy": busy, "own": own, "others": max(0.0, busy - own) / (wall * CPUS)}


def weigh_more():
    """In a child before exec: a session of its own whose autogroup goes first. Harmless where that is not allowed."""
    os.setsid()
    try:
        pathlib.Path("/proc/self/autogroup").write_text("-19")
    except OSError:
        pass


class Processes:
    """Programs started for one benchmark, ended by pid when it is over."""

    def __init__(self, log_dir):
        self.log_dir = pathlib.Path(log_dir)
        self.log_dir.mkdir(parents=True, exist_ok=True)
        self.running = {}

    def __enter__(self):
        return self

    def start(self, name, argv, env=None, cpus=None, **kwargs):
        log = open(self.log_dir / f"{name}.log", "w")
        argv = (["taskset", "-c", cpus] if cpus else []) + [str(a) for a in argv]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=kwargs.pop("stdout", log), stderr=log,
                                   preexec_fn=weigh_more, env={**os.environ, **(env or {})}, text=True, **kwargs)
        self.running[name] = process
        return process

    def run(self, name, argv, timeout, env=None, cpus=None):
        """Runs a program to its end and returns its standard output."""
        process = self.start(name, argv, env=env, cpus=cpus, stdout=subprocess.PIPE)
        return self.finish(name, process, timeout)

    def finish(self, name, process, timeout):
        try:
            out, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"{name} did not end within {timeout:.0f} s; see {self.log_dir / name}.log")
        if process.returncode != 0:
            tail = (self.log_dir / f"{name}.log").read_text()[-800:]
            raise Failed(f"{name} exited with {process.returncode}: {tail}")
        del self.running[name]
        return out

    def check(self):
        for name, process in self.running.items():
            if process.poll() is not None:
                tail = (self.log_dir / f"{name}.log").read_text()[-800:]
                raise Failed(f"{name} ended early with {process.returncode}: {tail}")

    def stop(self, name):
        process = self.running.pop(name)
        # Twice at once asks the dataplane programs not to drain.
        for sig, patience in ((signal.SIGTERM, 0.2), (signal.SIGTERM, 5), (signal.SIGKILL, 5)):
            if process.poll() is None:
                process.send_signal(sig)
                try:
                    process.wait(patience)
                except subprocess.TimeoutExpired:
                    pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it started: its group is its own (weigh_more)

    def __exit__(self, *exc):
        for name in list(self.running):
            self.stop(name)
