#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How large the CRDs are: client-side `kubectl apply` keeps the whole of an object as JSON in one of its annotations.

  size.py [--measurements FILE]   a table, and crd_bytes_max: bytes of the largest one, as its file and as JSON

An annotation has at most 262,144 bytes, all of an object's together. TestCRDsCanBeAppliedFromTheClient
(operator/internal/controller/apitest) has a real API server take them; this says how far away the end is.
"""
import argparse
import json
import pathlib
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]


def sizes(folder):
    """{file name: bytes}, the larger of its text and of the JSON that kubectl keeps."""
    out = {}
    for path in sorted(folder.glob("*.yaml")):
        text = path.read_bytes()
        kept = json.dumps(yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), separators=(",", ":"), ensure_ascii=False)
        out[path.name] = max(len(text), len(kept.encode()) + 1)  # and the line's end
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--measurements", metavar="FILE", help="for measure/report/report.py")
    args = ap.parse_args()
    found = sizes(ROOT / "crds")
    if not found:
        print("crds: no CRD there", file=sys.stderr)
        return 1
    for name, size in found.items():
        print(f"{size:8} {name}")
    if args.measurements:
        largest = max(found, key=found.get)
        pathlib.Path(args.measurements).write_text(json.dumps([{"name": "crd_bytes_max", "value": found[largest], "note": largest}]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
