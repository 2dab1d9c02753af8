#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hold the arrows between the rooms: C includes and Go imports point one way.

C floors (DESIGN: no circle): apps|sim -> run|store|api -> replica -> router|rpc|sched|tcp|ctl
-> wire|base; io is reached through io/io.h only, and stands on link, the IP host of drivers that move frames. The core floors may not reach
the world either: no socket, clock, file or allocation header in them.
Go: cmd -> controller -> {render, plan} -> api; render, plans and decisions import no client;
e2e is a black box; clients/go and hack/p4 stand alone.

Prints every arrow that points the wrong way and exits 1; 0 when there is none.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# room -> rooms it may include from
C_MAY = {
    "base": {"base"},
    "wire": {"wire", "base"},
    "rpc": {"rpc", "wire", "base"},
    "router": {"router", "wire", "base"},
    "link": {"link", "wire", "base"},
    "lancet": {"lancet", "base"},
    "sched": {"sched", "wire", "base"},
    "tcp": {"tcp", "wire", "base"},
    "ctl": {"ctl", "wire", "base", "router"},
    "replica": {"replica", "router", "rpc", "sched", "tcp", "ctl", "wire", "base"},
    "store": {"store", "replica", "wire", "base"},
    "run": {"run", "store", "replica", "router", "rpc", "sched", "tcp", "ctl", "wire", "base"},
    "io": {"io", "link", "wire", "base"},
    "api": {"api", "run", "ctl", "sched", "rpc", "wire", "base", "io"},
    "fast": {"fast", "router", "wire", "base"},
}
# Headers that read a clock, do I/O, allocate or take locks: not for the pure core.
IMPURE = re.compile(r"^(sys/(socket|epoll|timerfd|mman|time|types|ioctl|un|eventfd)|time|unistd|pthread|netdb|fcntl|poll|arpa/inet|netinet/.*|rte_.*|threads|stdio)\.h$")
PURE = {"base", "wire", "rpc", "router", "link", "tcp", "lancet", "sched", "replica", "store"}
# base/ files that exist to be used outside the hot path may format text.
IMPURE_ALLOWED = {("base", "stdio.h")}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)
IMPORT = re.compile(r'^\s*(?:import\s+)?(?:[\w.]+\s+)?"([^"]+)"', re.M)
MODULE = "github.com/bobtail-dev/bobtail/"


def c_room(path):
    parts = path.relative_to(ROOT / "dataplane").parts
    if parts[0] == "src":
        return parts[1]
    return parts[0]


def c_target(path, name):
    """The file an #include names: beside the includer, or below dataplane/src."""
    for base in (path.parent, ROOT / "dataplane" / "src", ROOT / "dataplane"):
        candidate = (base / name).resolve()
        if candidate.is_file() and candidate.is_relative_to(ROOT / "dataplane"):
            return candidate
    return None


def check_c_file(path):
    room, bad = c_room(path), []
    for kind, name in INCLUDE.findall(path.read_text(errors="replace")):
        target = c_target(path, name)
        if target is None:
            if room in PURE and IMPURE.match(name) and (room, name) not in IMPURE_ALLOWED:
                bad.append(f"{path.relative_to(ROOT)}: includes <{name}>: {room} is pure, no I/O, clock or allocation there")
            continue
        to = c_room(target)
        if to == "include" or to == room:
            continue
        if room in C_MAY and to not in C_MAY[room]:
            if to == "io" and target.name == "io.h" and room in {"ctl", "run"}:
                continue
            bad.append(f"{path.relative_to(ROOT)}: includes {to}/{target.name}: {room} may only reach {', '.join(sorted(C_MAY[room]))}")
        elif room == "sim" and to == "apps":
            bad.append(f"{path.relative_to(ROOT)}: nothing includes apps")
    return bad


def go_imports(path):
    head = path.read_text(errors="replace")
    block = re.search(r"^import\s*\((.*?)^\)", head, re.M | re.S)
    lines = block.group(1) if block else "\n".join(re.findall(r'^import\s+.*$', head, re.M))
    return IMPORT.findall(lines)


GO_RULES = [
    # (path prefix, file name regex, forbidden import regex, why)
    ("operator/api/", r".*", r"controller-runtime/pkg/client|k8s.io/client-go|" + MODULE + r"operator/internal", "the API package imports types only"),
    ("operator/internal/render/", r"(?!.*_test\.go).*", r"controller-runtime/pkg/client|k8s.io/client-go|operator/internal/controller", "render is pure"),
    ("operator/internal/controller/", r"(plan|decide|conditions)\.go", r"controller-runtime/pkg/client|k8s.io/client-go|crypto/rand", "decisions are pure functions"),
    ("operator/internal/controller/verdict/", r".*", r"controller-runtime/pkg/client|k8s.io/client-go", "a verdict reads nothing"),
    ("operator/internal/", r"(?!.*_test\.go).*", MODULE + r"(operator/cmd|e2e)", "internal never reaches up"),
    ("operator/internal/", r".*_test\.go", MODULE + r"(operator/cmd|e2e(?!/switchpeer\b))", "tests of internal reach up to the switch for tests alone"),
    ("e2e/", r".*", MODULE + r"operator/internal", "e2e is a black box: API types, kubectl and HTTP only"),
    ("hack/p4/", r".*", MODULE + r"(operator|e2e|clients)|k8s.io/", "the checker of P4 programs stands alone"),
    ("clients/go/", r".*", MODULE + r"(operator|e2e)|k8s.io/", "the public client stands alone"),
]


def check_go_file(path):
    rel, bad = path.relative_to(ROOT).as_posix(), []
    for name in go_imports(path):
        for prefix, files, forbidden, why in GO_RULES:
            if rel.startswith(prefix) and re.fullmatch(files, path.name) and re.search(forbidden, name):
                bad.append(f"{rel}: imports {name}: {why}")
    return bad


def main():
    bad, seen = [], 0
    for path in sorted((ROOT / "dataplane").rglob("*.[ch]")):
        seen += 1
        bad += check_c_file(path)
    for top in ("operator", "e2e", "clients", "hack/p4"):
        for path in sorted((ROOT / top).rglob("*.go")):
            seen += 1
            bad += check_go_file(path)
    print("\n".join(bad) if bad else f"layering: {seen} files, every arrow points the right way")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
