# SPDX-License-Identifier: Apache-2.0
"""Runs a test beside a mutant: within limits that the unchanged code's own run gives, and twice before it is believed."""
import importlib.machinery
import importlib.util
import pathlib
import re
import signal
import sys
import threading
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")
# What a test may take, in terms of what it takes of the unchanged code: a mutant that is not noticed must not pass for one
# that hangs. And where that is not known yet.
LEAST_PROCESSOR_SECONDS, LEAST_SECONDS, TIMES = 10, 90, 8
FIRST_PROCESSOR_SECONDS, FIRST_SECONDS = 200, 900
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
    code, out = _run(words, seconds, processor_seconds)
    return code, COLOUR.sub("", out)


class Tests:
    """Runs tests, one of each turn at a time."""

    def __init__(self, kept):
        self.kept = kept  # {test: seconds that it takes of the unchanged code}
        self.lock, self.locks = threading.Lock(), {}

    def alone(self, turn):
        with self.lock:
            return self.locks.setdefault(turn, threading.Lock())

    def fails(self, test):
        """What a test says against a mutant, or None. It must say it twice: on a busy machine once is no proof."""
        took = self.kept.get(test.name)
        seconds = FIRST_SECONDS if took is None else round(LEAST_SECONDS + TIMES * took)
        processor_seconds = FIRST_PROCESSOR_SECONDS if took is None else round(LEAST_PROCESSOR_SECONDS + TIMES * took)
        for _ in range(2):
            with self.alone(test.turn):
                code, out = run(test.command, seconds, processor_seconds, test.folder, test.env)
            if code is None or code == -signal.SIGXCPU or (code != 0 and "SIGXCPU" in out): # Go's runtime names it
                return f"{test.name}: never ends"
            if code in (0, SKIPPED):
                return None
        return f"{test.name}: {last_words(out) or f'exit code {code}'}"

    def passes(self, test):
        """Shows that a test passes on the unchanged code, and keeps how long that takes."""
        for _ in range(TRIES):
            with self.alone(test.turn):
                begun = time.monotonic()
                code, out = run(test.command, 2 * FIRST_SECONDS, folder=test.folder, env=test.env)
            if code == 0:
                self.kept[test.name] = round(time.monotonic() - begun, 2)
                return
        raise SystemExit(f"mutate: {test.name} does not pass on the unchanged code, so nothing can be judged:\n{out[-3000:]}")


def last_words(out):
    """The line that says what went wrong, as far as it can be told."""
    lines = [line.strip() for line in out.splitlines() if line.strip()]
    for mark in ("ERROR: AddressSanitizer", "runtime error:", "panic:", "--- FAIL", "[  FAILED  ]", "error:", "FAIL"):
        for line in lines:
            if mark in line:
                return line[:160]
    return lines[-1][:160] if lines else ""
