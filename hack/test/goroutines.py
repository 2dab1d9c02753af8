#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which packages `hack/go-test -short` tests under the race detector, and which without it.

  goroutines.py race|plain PATTERN...     import paths, those that take longest first
  goroutines.py why PATTERN...            each package, and the first thing in it that may start a goroutine

The detector makes a test five to fifteen times slower and sees nothing where one goroutine runs. A short run uses it
for packages that start goroutines, in their code or in their tests, or that hand themselves to what does (a server, a
manager of controllers). A package whose functions are only called by others is under the detector in the tests of
those: controllers in operator/internal/controller/apitest. A whole run uses it everywhere.

A test of such a package that only computes says so (needs.Unraced); its package is then tested both ways.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What begins another goroutine; found in a comment it costs time and nothing else.
STARTS = re.compile(r"""
    \bgo\s+(?:func\b|[A-Za-z_][\w.\[\]]*\()   # go func..., go s.serve(
  | \.Go\(                                    # of WaitGroup and errgroup
  | \bAfterFunc\(
  | \.(?:Run)?Parallel\(                      # of testing
  | \bhttp\.(?:Client|Transport|Server|Serve\w*|ListenAndServe\w*|Handler|HandlerFunc|Get|Post|DefaultClient|NewServeMux)\b
  | \bhttptest\.New\w*Server\b
  | \bctrl\.NewManager\(                      # a controller's own functions are called by one
  | \benvtest\.Environment\b
  | ^\s*(?:\w+\s)?"(?:google\.golang\.org/grpc|k8s\.io/client-go/(?:informers|tools/cache|tools/leaderelection))"
""", re.M | re.X)
UNRACED = re.compile(r"\bneeds\.Unraced\(")
# Long tests shall not begin last, when nothing is left to run beside them.
LONGEST = ("operator/internal/controller/apitest", "charts", "operator/internal/controller/rpcservice", "operator/internal/lancet",
           "operator/internal/switches/packets", "operator/internal/plugin", "clients/go/r2p2/interop", "clients/go/r2p2", "hack/p4/suite")


def packages(patterns, root=ROOT):
    """{import path: its folder and files} of those that have tests."""
    out = subprocess.run(["go", "list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles", *patterns], cwd=root,
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    decoder, found, at = json.JSONDecoder(), {}, 0
    while at < len(out.rstrip()):
        package, at = decoder.raw_decode(out, at)
        at += len(out[at:]) - len(out[at:].lstrip())
        if package.get("TestGoFiles") or package.get("XTestGoFiles"):
            found[package["ImportPath"]] = package
    return found


def sources(package):
    """Texts of its files, tests among them, by name."""
    names = [n for kind in ("GoFiles", "TestGoFiles", "XTestGoFiles") for n in package.get(kind, [])]
    return {name: (pathlib.Path(package["Dir"]) / name).read_text() for name in names}


def starts(texts):
    """What in a package may start a goroutine: "file: words", or nothing."""
    for name, text in texts.items():
        found = STARTS.search(text)
        if found:
            return f"{name}: {found.group(0).strip()}"
    return ""


def ways(texts):
    """Whether a package is tested under the detector, and whether without it."""
    race = bool(starts(texts))
    return race, not race or any(UNRACED.search(text) for text in texts.values())


def longest_first(paths, module):
    rank = {f"{module}/{name}": i for i, name in enumerate(LONGEST)}
    return sorted(paths, key=lambda path: (rank.get(path, len(rank)), path))


def main(argv):
    if len(argv) < 2 or argv[0] not in ("race", "plain", "why"):
        raise SystemExit(__doc__)
    found = {path: sources(package) for path, package in packages(argv[1:]).items()}
    module = (ROOT / "go.mod").read_text().split("module ", 1)[1].split()[0]
    for path in longest_first(found, module):
        race, plain = ways(found[path])
        if argv[0] == "why":
            print(f"{'both ' if race and plain else 'race ' if race else 'plain'} {path}  {starts(found[path])}".rstrip())
        elif race if argv[0] == "race" else plain:
            print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
