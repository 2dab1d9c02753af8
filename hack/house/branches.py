# SPDX-License-Identifier: Apache-2.0
"""Places outside the router that choose by whether a router runs on one thread or on two: the router's own business.

Counted are comparisons and truth values of what says so (a pointer named split, a number of router threads, a predicate
of that name) in code of the dataplane that is neither the router's nor a test's.
"""
import re

import sources

FORM = re.compile(
    r"\bsplit\s*[!=]=\s*NULL"  # a pointer that is there on two threads only
    r"|(?:!\s*|\b(?:if|while)\s*\(\s*|&&\s*|\|\|\s*)\(?(?:\w+(?:\.|->|\[[^\]]*\]\.))+split\b(?!\s*[!=]=)(?!\s*[\[(.])(?!->)"  # the same as a truth value
    r"|\b(?:router_)?threads(?:\(\w*\))?\s*(?:[!=]=|[<>]=?)\s*[012]\b"
    r"|\b\w*(?:is_split|on_two_threads|two_threads)\s*\(")
FOLDERS = ("dataplane/apps/*.[ch]", "dataplane/sim/*.[ch]", "dataplane/src/*.[ch]", "dataplane/bench/*.[ch]")
OWN = "dataplane/src/router/"
# Programs without a router have threads of their own.
OTHERS = ("dataplane/apps/bobtail-load/", "dataplane/apps/bobtail-serve/", "dataplane/apps/bobtail-crab-lb/")


def found():
    """file:line of each."""
    places = []
    for name in sources.listed(*FOLDERS):
        if name.startswith((OWN, *OTHERS)):
            continue
        text = sources.bare((sources.ROOT / name).read_text(errors="replace"))
        places += [f"{name}:{text[:m.start()].count(chr(10)) + 1}" for m in FORM.finditer(text)]
    return places


def rows():
    places = found()
    return {"split_branches_outside_router": (len(places), places)}
