#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The packet suite over every driver as one table: make packet-tests.

  packet_tests.py --build build/dataplane [--measurements FILE]

Runs build/…/tests/io/test_io_packets for every driver, DPDK's memory transports in ordinary memory and in
hugepages, and prints which case passed with which driver. A driver that cannot run here (no root, no hugepages) is
left out with its reason. Exit 0 when nothing failed and a driver of each kind ran.
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
TIMEOUT = 300


def run(program, driver, extra):
    """{case: OK|FAILED|SKIPPED}, and the reason when the driver was left out as a whole."""
    try:
        p = subprocess.run([program, driver.split()[0]], env={**os.environ, **extra}, capture_output=True, text=True,
                           timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return {}, f"did not end within {TIMEOUT} s"
    text = p.stdout + "\n" + p.stderr
    if p.returncode == SKIPPED:
        return None, text.strip().splitlines()[-1]
    cases = {}
    for result, case in RESULT.findall(text):
        if cases.get(case) != "FAILED":
            cases[case] = result
    if p.returncode != 0:
        sys.stderr.write(f"--- {driver}\n{text[-4000:]}\n")
        if "FAILED" not in cases.values():
            return cases, f"ended with status {p.returncode}"
    return cases, None


def table(results):
    """Rows are cases, columns drivers; an IPv6 twin stands in its case's row."""
    names = [d for d, _ in DRIVERS if results.get(d)]
    cases = list(dict.fromkeys(c.removesuffix("_v6") for d in names for c in results[d]))
    width = max(len(c) for c in cases)
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
    results, broken, left_out = {}, 0, []
    for driver, extra in DRIVERS:
        cases, why = run(program, driver, extra)
        if cases is None:
            left_out.append(f"{driver}: {why}")
            continue
        results[driver] = cases
        broken += why is not None
        if why is not None:
            left_out.append(f"{driver}: {why}")
    print(table(results))
    print("Two marks: IPv4 and IPv6; - was left out for that driver.")
    print("\n".join(left_out))
    count = lambda what: sum(v == what for c in results.values() for v in c.values())
    kinds = len({d.split()[0] for d in results if "OK" in results[d].values()})
    failed = count("FAILED") + broken
    print(f"{kinds} drivers: {count('OK')} cases passed, {failed} failed, {count('SKIPPED')} left out")
    if args.measurements:
        pathlib.Path(args.measurements).write_text(json.dumps(
            [{"name": "packet_drivers", "value": kinds}, {"name": "packet_cases_passed", "value": count("OK")},
             {"name": "packet_cases_failed", "value": failed}], indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
