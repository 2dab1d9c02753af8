# SPDX-License-Identifier: Apache-2.0
"""Parameters and branches of every function, C and Go (lizard's count).

parameters_max: of any function, tests too. complexity_max: of any function but
those of tests, whose branches are what they assert; theirs is
complexity_max_tests. How many functions are beyond what the house allows stands
beside them, so that the largest one does not hide others.
"""
import concurrent.futures
import os
import re
from typing import NamedTuple

import lizard

import sources

PARAMETERS, COMPLEXITY = 6, 15  # what the house allows


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


def functions():
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        return [f for found in pool.map(functions_of, sources.listed("*.c", "*.h", "*.go"), chunksize=16) for f in found]


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
