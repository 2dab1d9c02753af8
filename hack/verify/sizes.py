#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small functions, one idea a file: hold the limits the house set itself.

C: functions of at most 60 lines. Go: functions of at most 60 lines (aim 50), files
of at most 600 (aim 500). Generated files and tables of test data do not count.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIP = re.compile(r"zz_generated|testdata/|/vectors/")
LIMIT = {".c": (60, 900), ".h": (60, 600), ".go": (60, 600)}
C_START = re.compile(r"^[A-Za-z_].*\)\s*\{$")


def functions(lines, suffix):
    """(first line number, length) of each top-level function body."""
    start = None
    for i, line in enumerate(lines, 1):
        if start is None:
            if suffix == ".go" and line.startswith("func "):
                start = i
            elif suffix != ".go" and (C_START.match(line) or line == "{"):
                start = i
        if start is not None and (line == "}" or (suffix == ".go" and i == start and line.endswith("}"))):
            yield start, i - start + 1
            start = None


def main():
    files = subprocess.run(["git", "ls-files", "*.c", "*.h", "*.go"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    bad = []
    for name in files:
        path = ROOT / name
        if SKIP.search(name) or not path.exists():
            continue
        lines = path.read_text(errors="replace").splitlines()
        longest, most = LIMIT[path.suffix]
        if len(lines) > most:
            bad.append(f"{name}: {len(lines)} lines; a file holds one idea in at most {most}")
        for first, length in functions(lines, path.suffix):
            if length > longest:
                bad.append(f"{name}:{first}: function of {length} lines; at most {longest}")
    print("\n".join(bad) if bad else f"sizes: {len(files)} files within the limits")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
