#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the pages stand that tools read or write: the one place that names their folders."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATHS = {
    "coverage": "docs/lab/lancet-coverage.json",
    "decisions": "docs/decisions",
    "explained": "docs/lab/figures-explained.md",
    "first": "docs/start/your-own-service.md",
    "figures": "docs/lab/figures.md",
    "hedging": "docs/lab/hedging.md",
    "lancet": "docs/lab/lancet.md",
    "performance": "docs/lab/performance.md",
    "pictures": "docs/lab/figures",
    "protocol": "docs/reference/protocol.md",
    "simulator": "docs/concepts/simulator.md",
    "summary": "docs/guides/performance.md",
}


def every():
    """The README and all of docs/, which is where shell blocks are run and commits looked up."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def with_links():
    """Those and the pages beside code."""
    beside = [p for top in ("clients", "examples", "e2e", "operator", "dataplane", "charts", "measure", "hack") for p in (ROOT / top).rglob("*.md")]
    return every() + sorted(beside)
