# SPDX-License-Identifier: Apache-2.0
"""Runs a test beside a mutant: within limits that the unchanged code's own run gives, and twice before it is believed."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import threading
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
# What a test may take, in terms of what it takes of the unchanged code: a mutant that is not noticed must not pass for one that hangs.
LEAST_PROCESSOR_SECONDS, LEAST_SECONDS, TIMES = 30, 90, 8
TRIES = 3 # of the unchanged code, on a machine that may be busy


def simulator_list():
    """measure/sim/mutate: its way to run a program within limits and to end all that it started."""
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("sim_mutate", str(ROOT / "measure/sim/mutate"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


_run = simulator_list().run


class Test(NamedTuple):
    name: str
    command: tuple
    folder: str
    env: tuple  # of (name, value)
    turn: str  # tests of one turn run one after the other: two of one kind would use the same addresses and files


def run(command, seconds, processor_seconds=None, folder=ROOT, env=()):
    """(exit code, output) of a command; code None when it took longer than it may."""
    words = ["env", "-C", str(folder), *(f"{k}={v}" for k, v in env), *map(str, command)]
    return _run(words, seconds, processor_seconds)


class Tests:
    """Runs tests, one of each turn at a time."""

    def __init__(self, kept):
        self.kept = kept  # {test: seconds of the unchanged code, None where it does not run}
        self.lock, self.locks = threading.Lock(), {}

    def alone(self, turn):
        with self.lock:
            return self.locks.setdefault(turn, threading.Lock())

    def unchanged(self, test, most=1800):
        """Seconds that the unchanged code takes; None when the test does not run on this machine."""
        if test.name in self.kept:
            return self.kept[test.name]
        for _ in range(TRIES):
            with self.alone(test.turn):
                begun = time.monotonic()
                code, out = run(test.command, most, folder=test.folder, env=test.env)
            if code in (0, SKIPPED):
                self.kept[test.name] = None if code == SKIPPED else round(time.monotonic() - begun, 2)
                return self.kept[test.name]
        raise SystemExit(f"mutate: {test.name} does not pass on the unchanged code, so nothing can be judged:\n{out[-3000:]}")

    def notices(self, test):
        """What the test says against the mutant, or None. A failure counts when it fails again: a busy machine is no proof."""
        took = self.kept[test.name]
        if took is None:
            return None
        said = None
        for _ in range(2):
            with self.alone(test.turn):
                code, out = run(test.command, round(LEAST_SECONDS + TIMES * took), round(LEAST_PROCESSOR_SECONDS + TIMES * took),
                                test.folder, test.env)
            if code is None:
                return f"{test.name}: never ends"
            if code in (0, SKIPPED):
                return None
            said = f"{test.name}: {last_words(out) or f'exit code {code}'}"
        return said


def last_words(out):
    """The line that says what went wrong, as far as it can be told."""
    lines = [line.strip() for line in out.splitlines() if line.strip()]
    for mark in ("ERROR: AddressSanitizer", "runtime error:", "panic:", "--- FAIL", "[  FAILED  ]", "error:", "FAIL"):
        for line in lines:
            if mark in line:
                return line[:160]
    return lines[-1][:160] if lines else ""
