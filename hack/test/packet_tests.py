#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The packet suite over every driver as one table: make packet-tests.

  packet_tests.py --build build/dataplane [--measurements FILE]

Runs build/…/tests/io/test_io_packets for every driver, DPDK's memory transports in ordinary memory and in
hugepages, and prints which case passed with which driver. A driver that cannot run here (no root) is left out with its
reason, and so is a case that a driver cannot run. Exit 0 when nothing failed and every driver ran, in ordinary memory at
least: hugepages are the machine's to give.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

DRIVERS = [("sim", {}), ("udp", {}), ("ring", {}), ("ring huge", {"BT_TEST_HUGEPAGES": "on"}), ("memif", {}),
           ("memif huge", {"BT_TEST_HUGEPAGES": "on"}), ("af_packet", {}), ("af_xdp", {})]
SKIPPED = 77
RESULT = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\w+)$", re.M)
REASON = re.compile(r"^left out(?: in one direction)?: (.*)$", re.M)
TIMEOUT = 300


def reasons(text):
    """{case: why} of the cases that were skipped."""
    why = {}
    for part in text.split("[ RUN      ] ")[1:]:
        case = part.split("\n", 1)[0]
        told = REASON.findall(part)
        if f"[  SKIPPED ] {case}" in part:
            why[case] = told[0] if told else "it does not say why"
    return why


def run(program, driver, extra):
    """{case: OK|FAILED|SKIPPED} or None, what to say of what is missing there, and whether the program broke."""
    try:
        p = subprocess.run([program, driver.split()[0]], env={**os.environ, **extra}, capture_output=True, text=True,
                           timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return {}, [f"{driver}: did not end within {TIMEOUT} s"], True
    text = p.stdout + "\n" + p.stderr
    if p.returncode == SKIPPED:
        return None, [text.strip().splitlines()[-1]], False
    cases = {}
    for result, case in RESULT.findall(text):
        if cases.get(case) != "FAILED":
            cases[case] = result
    said = [f"{driver}: {case}: {why}" for case, why in reasons(p.stdout).items()]
    if p.returncode != 0:
        sys.stderr.write(f"--- {driver}\n{text[-4000:]}\n")
        if "FAILED" not in cases.values():
            return cases, [*said, f"{driver}: ended with status {p.returncode}"], True
    return cases, said, False


def table(results):
    """Rows are cases, columns drivers; an IPv6 twin stands in its case's row."""
    names = [d for d, _ in DRIVERS if results.get(d)]
    cases = list(dict.fromkeys(c.removesuffix("_v6") for d in names for c in results[d]))
    width = max((len(c) for c in cases), default=0)
    mark = {"OK": "ok", "FAILED": "FAIL", "SKIPPED": "-", None: ""}
    lines = [" " * width + "".join(f"  {d:>11}" for d in names)]
    for case in cases:
        cells = []
        for d in names:
            both = [mark[results[d].get(case)], mark[results[d].get(case + "_v6")]]
            cells.append(" ".join(b for b in both if b))
        lines.append(f"{case:<{width}}" + "".join(f"  {c:>11}" for c in cells))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/dataplane")
    parser.add_argument("--measurements")
    args = parser.parse_args()
    program = str(pathlib.Path(args.build) / "tests/io/test_io_packets")
    results, broken, said = {}, 0, []
    for driver, extra in DRIVERS:
        cases, notes, broke = run(program, driver, extra)
        said += notes
        broken += broke
        if cases is not None:
            results[driver] = cases
    print(table(results))
    print("Two marks: IPv4 and IPv6; - was left out for that driver.")
    print("\n".join(said))
    count = lambda what: sum(v == what for c in results.values() for v in c.values())
    kinds = list(dict.fromkeys(d.split()[0] for d, _ in DRIVERS))
    ran = {d.split()[0] for d in results if "OK" in results[d].values()}
    missing = [k for k in kinds if k not in ran]
    failed = count("FAILED") + broken
    print(f"{len(ran)} drivers: {count('OK')} cases passed, {failed} failed, {count('SKIPPED')} left out")
    if missing:
        print(f"Not run at all: {', '.join(missing)}")
    if args.measurements:
        pathlib.Path(args.measurements).write_text(json.dumps(
            [{"name": "packet_drivers", "value": len(ran)}, {"name": "packet_cases_passed", "value": count("OK")},
             {"name": "packet_cases_failed", "value": failed}], indent=1) + "\n")
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
