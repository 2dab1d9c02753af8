#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What can be measured of the house by reading it: circles, parameters, branches.

  static.py           every figure with the places that make it
  static.py --check   fail when one is worse than hack/house/ceilings.json (make verify)
  static.py --lower   write ceilings that became lower; they are never raised by a tool
  static.py --measurements FILE   for the report

A ceiling is what the tree had when it was last looked at, so that nothing gets
worse on the way to the goal; the goals are those of target `house`.
"""
import argparse
import json
import pathlib
import sys

import branches
import circles
import shape

CEILINGS = pathlib.Path(__file__).with_name("ceilings.json")
SHOWN = 12


def figures():
    """{name: (value, places)} of all of them."""
    return {**circles.rows(), **branches.rows(), **shape.rows()}


def worse(found, ceilings):
    """What is to be said of each figure above its ceiling, or without one."""
    bad = []
    for name, (value, places) in found.items():
        if name not in ceilings:
            bad.append(f"{name} is {value} and has no ceiling in {CEILINGS.name}")
        elif value > ceilings[name]:
            bad.append(f"{name} is {value}; it was {ceilings[name]}: {listing(places)}")
    return bad + [f"{name} has a ceiling and is not measured" for name in ceilings if name not in found]


def listing(places):
    return ", ".join(places[:SHOWN]) + (f" and {len(places) - SHOWN} more" if len(places) > SHOWN else "")


def main(argv):
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--check", action="store_true")
    ap.add_argument("--lower", action="store_true")
    ap.add_argument("--measurements", metavar="FILE")
    args = ap.parse_args(argv)
    found, ceilings = figures(), json.loads(CEILINGS.read_text())
    if args.measurements:
        pathlib.Path(args.measurements).write_text(json.dumps([{"name": n, "value": v} for n, (v, _) in found.items()]) + "\n")
    if args.lower:
        CEILINGS.write_text(json.dumps({n: min(v, ceilings.get(n, v)) for n, (v, _) in found.items()}, indent=1) + "\n")
        return 0
    if args.check:
        bad = worse(found, ceilings)
        print("\n".join(bad) if bad else "; ".join(f"{n} {v} (at most {ceilings[n]})" for n, (v, _) in found.items()))
        return 1 if bad else 0
    for name, (value, places) in found.items():
        print(f"{name:<30} {value:>4}  {listing(places)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
