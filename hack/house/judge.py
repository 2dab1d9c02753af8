#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judge the house by its goals: what is read from the sources, what a change of each kind touches, and the last whole
runs of `make test` and `make test-steady` on this commit. Without such a run its figure is missing, and that fails.

What a change touches is measured by hack/house/places --measurements=FILE, where that is there.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "hack/test"))
from passed import Passed  # noqa: E402

PLACES = ROOT / "hack/house/places"
# Figures that a Go test counts and logs: what it logs them as, where it is, its name.
COUNTED = (("exchanges_per_slo_read", "./operator/internal/sidecar", "TestAWindowAndItsPartsAreOneExchange"),)


def last_runs(state):
    """Figures that whole runs on this commit left."""
    return [{"name": name, "value": value} for run, name in (("test", "test_wall_seconds"), ("test-steady", "steady_runs_green"))
            for value in [state.kept(run).get(name)] if value is not None]


def measured_by(command, folder, name):
    """(what a tool measured, whether it came to an end)"""
    file = pathlib.Path(folder) / name
    code = subprocess.run([*command, f"--measurements={file}"], cwd=ROOT).returncode
    return json.loads(file.read_text()) if file.exists() else [], code == 0


def logged(name, output):
    """The figure that a test logged, as a row in a list; none where it logged none."""
    found = re.search(rf"\b{name} (\d+)$", output, re.M)
    return [{"name": name, "value": int(found.group(1))}] if found else []


def counted_by_tests():
    """(figures that tests count, whether those tests passed)"""
    rows, good = [], True
    for name, package, test in COUNTED:
        run = subprocess.run(["go", "test", "-count=1", "-v", f"-run=^{test}$", package], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        rows, good = rows + logged(name, run.stdout), good and run.returncode == 0
    return rows, good


def main():
    state = Passed.of(ROOT)
    if state.folder is None:
        print("house: the tree differs from its commit (git status): no run of the tests is of it", file=sys.stderr)
    rows, good = last_runs(state), True
    with tempfile.TemporaryDirectory() as folder:
        for tool in [ROOT / "hack/house/static.py", *([PLACES] if os.access(PLACES, os.X_OK) else [])]:
            more, ended = measured_by([tool], folder, tool.stem)
            rows, good = rows + more, good and ended
    more, passed_all = counted_by_tests()
    rows, good = rows + more, good and passed_all
    flat = ROOT / "build/measurements/house.json"
    flat.parent.mkdir(parents=True, exist_ok=True)
    flat.write_text(json.dumps(rows) + "\n")
    code = subprocess.run([sys.executable, ROOT / "measure/report/report.py", "house", "--measurements", flat]).returncode
    return code if good else 1


if __name__ == "__main__":
    sys.exit(main())
