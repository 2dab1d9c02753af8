#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which cases from the field have a test that cites them and was seen to fail without its mend.

  cases.py [--measurements FILE]   a table, and cases_open
  cases.py --prove CASE...         take the mend of each case back in a copy of the tree and see its test fail;
                                   writes the day into table.json. Without CASE: those that were not seen yet

table.json has a row a case: what it is about, the tests that cite it as FILE:NAME, `undo` (file, what stands there,
what takes its place), the command of the test, what has to be built for it, if anything, and when it was `seen` to fail. A case is open when it has no row,
a test is not there or its file does not cite it, or when it was not seen to fail.
"""
import argparse
import contextlib
import datetime
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_name("table.json")
LAST = 40


def trouble(case, row, root=ROOT):
    """Why a case is open; None: it is not."""
    if row is None or not row.get("tests"):
        return "no test"
    for test in row["tests"]:
        name, _, function = test.partition(":")
        path = root / name
        if not path.is_file():
            return f"{name} is not there"
        text = path.read_text(errors="replace")
        if not re.search(rf"\b{case}\b(?!\d)", text) or (function and function not in text):
            return f"{name} does not cite {case}, or has no {function}"
    undo = row.get("undo")
    if not undo or not row.get("seen"):
        return "not seen to fail"
    if undo["from"] not in (root / undo["file"]).read_text(errors="replace"):
        return f"{undo['file']} has changed since the test was seen to fail"
    return None


def judged(rows):
    return [(f"K-{n}", rows.get(f"K-{n}"), trouble(f"K-{n}", rows.get(f"K-{n}"))) for n in range(1, LAST + 1)]


def build_and_test(row, copy):
    """The test's exit status and words; None instead of the status: what there is cannot be built."""
    for command in filter(None, (row.get("build"), row["command"])):
        ran = subprocess.run(command, shell=True, executable="/bin/bash", cwd=copy, capture_output=True, text=True)
        said = ran.stdout[-800:] + ran.stderr[-800:]
        if command is not row["command"] and ran.returncode or "[build failed]" in ran.stdout + ran.stderr:
            return None, said
    return ran.returncode, said


def prove(case, row, copy):
    """True when the test passes as the tree is and fails with the mend taken back; copy is a worktree for that."""
    target = copy / row["undo"]["file"]
    text = target.read_text()
    if row["undo"]["from"] not in text:
        print(f"{case}: {row['undo']['file']} has not what is to be taken back", file=sys.stderr)
        return False
    before, said = build_and_test(row, copy)
    if before != 0:
        print(f"{case}: fails as the tree is:\n{said}", file=sys.stderr)
        return False
    try:
        target.write_text(text.replace(row["undo"]["from"], row["undo"]["to"]))
        after, said = build_and_test(row, copy)
    finally:
        subprocess.run(["git", "-C", copy, "checkout", "-q", "--", "."], check=True)
    if after is None:
        print(f"{case}: what is left does not build:\n{said}", file=sys.stderr)
        return False
    print(f"{case}: {'seen to fail' if after else 'passes without its mend'}", flush=True)
    return after != 0


@contextlib.contextmanager
def copy_of_head():
    """A worktree of what is committed, for all proofs of a run: compilers find in it what they compiled before."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "tree"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", copy, "HEAD"], check=True, capture_output=True)
        try:
            yield copy
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", copy], capture_output=True)
            shutil.rmtree(copy, ignore_errors=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--measurements", metavar="FILE", help="for measure/report/report.py")
    ap.add_argument("--prove", nargs="*", metavar="CASE")
    args = ap.parse_args()
    rows = json.loads(TABLE.read_text())
    if args.prove is not None:
        wanted = args.prove or [c for c, row in rows.items() if row.get("undo") and not row.get("seen")]
        for case in wanted:
            if case not in rows or not rows[case].get("undo"):
                ap.error(f"{case}: table.json does not say how to take its mend back")
        good = True
        with copy_of_head() as copy:
            for case in wanted:
                seen = str(datetime.date.today()) if prove(case, rows[case], copy) else ""
                rows = json.loads(TABLE.read_text())  # it may have got other rows meanwhile
                rows[case]["seen"] = seen
                good = good and bool(seen)
                TABLE.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
        return 0 if good else 1
    all_of_them = judged(rows)
    for case, row, why in all_of_them:
        print(f"{case:5} {'open: ' + why if why else 'seen to fail ' + row['seen']:60} {(row or {}).get('about', '')}")
    still = sum(1 for _, _, why in all_of_them if why)
    print(f"cases_open {still}")
    if args.measurements:
        pathlib.Path(args.measurements).write_text(json.dumps([{"name": "cases_open", "value": still, "note": "of 40"}]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
