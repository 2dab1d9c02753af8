# SPDX-License-Identifier: Apache-2.0
"""Parameters and branches of every function, C and Go (lizard's count).

parameters_max: of any function, tests too. complexity_max: of any function but
those of tests, whose branches are what they assert; theirs is
complexity_max_tests. How many functions are beyond what the house allows stands
beside them, so that the largest one does not hide others.
"""
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import re
from typing import NamedTuple

import lizard

import sources

PARAMETERS, COMPLEXITY = 6, 15  # what the house allows
KEPT = "build/house/functions.json"
COUNTS = b"".join(pathlib.Path(f).read_bytes() for f in (__file__, sources.__file__)) + lizard.version.encode()


class Function(NamedTuple):
    parameters: int
    complexity: int
    place: str  # file:line: name
    test: bool


def parameters(code, f):
    """How many parameters a function has: lizard also counts those of functions that are parameters."""
    begin = sum(len(line) + 1 for line in code.split("\n")[: f.start_line - 1])
    name = re.compile(r"\b" + re.escape(f.name.rpartition("::")[2]) + r"\s*(?:\[[^\]]*\]\s*)?\(").search(code, begin)
    if name is None:
        return f.parameter_count
    depth, commas, at = 1, 0, name.end()
    while depth > 0 and at < len(code):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        commas += code[at] == "," and depth == 1
        at += 1
    inside = code[name.end(): at - 1].strip()
    return 0 if inside in ("", "void") else commas + (not inside.endswith(","))


def functions_of(name):
    path = sources.ROOT / name
    code = sources.bare(path.read_text(errors="replace"))
    return [Function(parameters(code, f), f.cyclomatic_complexity, f"{name}:{f.start_line}: {f.name}", sources.is_test(name))
            for f in lizard.analyze_file(str(path)).function_list]


def digest(name):
    """Of a file, and of what counts it: what was found of it holds as long as that is the same."""
    return hashlib.sha256(COUNTS + name.encode() + b"\0" + (sources.ROOT / name).read_bytes()).hexdigest()


def functions():
    """Those of all files. Counting takes a quarter of a minute; what was found of a file is kept until it changes."""
    names, kept = {name: digest(name) for name in sources.listed("*.c", "*.h", "*.go")}, {}
    with contextlib.suppress(OSError, ValueError):
        kept = json.loads((sources.ROOT / KEPT).read_text())
    missing = [name for name, key in names.items() if key not in kept]
    if missing:
        with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
            kept.update(zip((names[name] for name in missing), pool.map(functions_of, missing, chunksize=16), strict=True))
        keep({key: kept[key] for key in names.values()})
    return [Function(*f) for key in names.values() for f in kept[key]]


def keep(found):
    """Written whole or not at all: two may count at once."""
    path = sources.ROOT / KEPT
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(found))
    beside.replace(path)


def most(found, key):
    """(largest value, the places that have it)"""
    value = max((key(f) for f in found), default=0)
    return value, [f.place for f in found if key(f) == value]


def beyond(found, key, limit):
    """(how many functions are beyond the limit, their places)"""
    places = [f.place for f in found if key(f) > limit]
    return len(places), places


def rows():
    found = functions()
    ours = [f for f in found if not f.test]
    return {"parameters_max": most(found, lambda f: f.parameters),
            "parameters_beyond": beyond(found, lambda f: f.parameters, PARAMETERS),
            "complexity_max": most(ours, lambda f: f.complexity),
            "complexity_beyond": beyond(ours, lambda f: f.complexity, COMPLEXITY),
            "complexity_max_tests": most([f for f in found if f.test], lambda f: f.complexity)}
