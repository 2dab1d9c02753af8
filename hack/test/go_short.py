#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The short run of the Go tests: under the race detector where goroutines are started (goroutines.py), elsewhere without.

  go_short.py build PATTERN...              link the tests into build/go-tests; those that are current stay
  go_short.py run [-FLAG[=VALUE]...] PATTERN...   the same, then run them; a flag is one of the test program's (-short, -run=X)

`go test` links each program of tests again each time, which is half of the processor time of a short run.
"""
import collections
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import threading
import time
from typing import NamedTuple

import goroutines

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = "build/go-tests"
TIMEOUT_MINUTES, GRACE_SECONDS = 10, 60  # of a program of tests, as `go test` has it; the program ends itself by the first
TOLD = threading.Lock()  # what one program said stays together


class Way(NamedTuple):
    name: str
    cgo: str  # the race detector is C
    flags: tuple


# hack/verify/all vets them; linking is quicker without what only a debugger reads.
WAYS = (Way("race", "1", ("-race",)), Way("plain", "0", ()))


class Program(NamedTuple):
    package: str  # its import path
    folder: str  # where its sources are, and where it runs
    binary: pathlib.Path


def groups(paths):
    """Lists of import paths in each of which no two end alike: `go test -c` names a program by that."""
    nth, found = collections.Counter(), {}
    for path in paths:
        base = path.rsplit("/", 1)[-1]
        found.setdefault(nth[base], []).append(path)
        nth[base] += 1
    return list(found.values())


def programs(found, paths, folder):
    """The Program of each import path, in the order of the paths."""
    place = {path: folder / str(i) / f"{path.rsplit('/', 1)[-1]}.test" for i, group in enumerate(groups(sorted(paths))) for path in group}
    return [Program(path, found[path]["Dir"], place[path]) for path in paths]


def link(way, made, root):
    """Whether all of these programs could be linked. Go links none whose sources and tools are what they were."""
    good = True
    for folder in sorted({program.binary.parent for program in made}):
        folder.mkdir(parents=True, exist_ok=True)
        here = [program for program in made if program.binary.parent == folder]
        code = subprocess.run(["go", "test", "-c", "-trimpath", "-vet=off", "-ldflags=-w", *way.flags, "-o", f"{folder}/", *(p.package for p in here)],
                              cwd=root, env={**os.environ, "CGO_ENABLED": way.cgo}).returncode
        good = good and code == 0
    return good


def play(program, flags):
    """Whether the tests of a program pass. It is told once it has ended."""
    began = time.monotonic()
    words = [program.binary, "-test.v=true", "-test.count=1", "-test.paniconexit0", f"-test.timeout={TIMEOUT_MINUTES}m", *flags]
    try:
        # A test that builds a program builds what ships, which has no C.
        done = subprocess.run(words, cwd=program.folder, env={**os.environ, "PWD": program.folder, "CGO_ENABLED": "0"}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60 * TIMEOUT_MINUTES + GRACE_SECONDS)
        code, said = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code, said = 1, (late.stdout or b"") + b"\nFAIL: did not end\n"
    with TOLD:
        sys.stdout.buffer.write(said)
        print(f"{'FAIL' if code else 'ok  '}\t{program.package}\t{time.monotonic() - began:.3f}s", flush=True)
    return code == 0


def play_all(made, flags):
    """{way: programs}: whether all pass. Many wait for an API server or for programs: more at a time than there are processors."""
    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 1)
    at_once = {"race": 2 * jobs - 1, "plain": jobs}
    with concurrent.futures.ThreadPoolExecutor(at_once["race"]) as race, concurrent.futures.ThreadPoolExecutor(at_once["plain"]) as plain:
        pools = {"race": race, "plain": plain}
        waiting = [pools[way].submit(play, program, flags) for way, some in made.items() for program in some]
        return all([one.result() for one in waiting])


def selected(patterns, root):
    """{way: programs, those that take longest first} of the packages that have tests."""
    found = goroutines.packages(patterns, root)
    module = subprocess.run(["go", "list", "-m"], cwd=root, check=True, capture_output=True, text=True).stdout.split()[0]
    ways = {path: dict(zip(("race", "plain"), goroutines.ways(goroutines.sources(package)))) for path, package in found.items()}
    return {way.name: programs(found, goroutines.longest_first([p for p in found if ways[p][way.name]], module), root / KEPT / way.name) for way in WAYS}


def main(argv, root=ROOT):
    if len(argv) < 3 or argv[1] not in ("build", "run"):
        raise SystemExit(__doc__)
    flags = [f"-test.{word.lstrip('-')}" for word in argv[2:] if word.startswith("-")]
    made = selected([word for word in argv[2:] if not word.startswith("-")], root)
    linked = all([link(way, made[way.name], root) for way in WAYS])
    if argv[1] == "build" or not linked:
        return 0 if linked else 1
    return 0 if play_all(made, flags) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
