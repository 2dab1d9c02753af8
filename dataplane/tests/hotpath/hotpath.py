#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prove from the machine code that a packet's path allocates, locks, logs and divides nothing.

  hotpath.py LIBRARY.a [--plant BUILD_DIR]
  hotpath.py --program PROGRAM

Starts at the functions a packet enters by, follows every call and jump through the objects of the release library, or through
a linked program, whose code is optimised as a whole, and refuses whatever is not a function there or one of the few named
here, every call through a pointer nobody vouches for, every division, every locked instruction and every system call. --plant
compiles one source once more with each of a malloc, a division, a locked instruction, a lock, a log line and a call through a
pointer in it, as BUILD_DIR compiles it, and demands that each is found.
"""
import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROUTER = ["bt_router_requests", "bt_router_feedback",  # on one thread; on two:
          "bt_split_requests", "bt_split_feedback"]
LIBRARY = [*ROUTER, "bt_link_rx_burst", "bt_link_tx_burst", "bt_server_rx", "bt_server_next_burst", "bt_server_reply",
           "bt_client_rx", "bt_client_send", "bt_client_burst"]

# What functions call through a pointer, so that no call names it; the same whatever was inlined into them.
PICK = ["bt_pick_jbsq", "bt_pick_jsq", "bt_pick_power_of_two", "bt_pick_round_robin", "bt_pick_random"]
LIBRARY_POOL, PROGRAM_POOL = ["fixed_get", "fixed_put"], ["mapped_get", "mapped_put"]  # of the tests, of the programs
VOUCHED = {
    "the pool": ["bt_assembly_add", "bt_client_send", "bt_pool_put_chain", "bt_port_packet", "bt_port_send", "bt_server_message_part",
                 "bt_server_open_message", "bt_train_get", "link_arp_rx", "link_drop", "link_icmp_rx", "link_make", "link_ndp_rx",
                 "router_credit_held", "router_drop", "router_hedge", "router_reject", "send_cancel", "take_any", "try_copy",
                 "bt_router_feedback", "router_feedback_half", "bt_split_feedback"],
    "the pool and the policies": ["bt_router_request", "bt_router_requests", "router_pump", "router_route"],
    "the pool and the application, which is told of its answer": ["bt_client_rx"],
    "the pool and the application, which is handed its request": ["bt_server_rx"],
    "the application": ["bt_client_fail", "bt_server_hand_over", "bt_server_on_cancel"],
    "a table of its own cases": ["make_room"],
}
INDIRECT = {name: what for what, names in VOUCHED.items() for name in names}

# Once for a message, to know how many packets it makes.
MAY_DIVIDE = {"bt_split_reply", "bt_split_request"}

# Outside: memory that is copied, and SipHash, both without side effects.
ALLOWED = {"memcpy", "memmove", "memset", "memcmp", "crypto_shorthash", "sodium_memcmp", "__stack_chk_fail"}

# Run when a worker comes or goes, never because of a request: divisions are allowed there and in what only they call.
RARE = {"set_span": "spreads ties anew over the workers in use"}

FORBIDDEN = [(re.compile(r"^(i?div|f?i?divr?|divs[sd]|divp[sd])[bwlq]?\b"), "divides"),
             (re.compile(r"^lock\b|^xchg\s.*\("), "has a locked instruction"),
             (re.compile(r"^(syscall|sysenter|int\s)"), "makes a system call"),
             (re.compile(r"^rdtscp?\b"), "reads a clock")]

POINTER = re.compile(r"^(call|jmp)\s+\*")

SECTION = re.compile(r"^Disassembly of section (\S+):")
OBJECT = re.compile(r"^(\S+):\s+file format")
FUNCTION = re.compile(r"^([0-9a-f]+) <([^>]+)>:")
LINE = re.compile(r"^\s+([0-9a-f]+):\t(.*)$")
RELOCATION = re.compile(r"^\s+[0-9a-f]+: R_X86_64_(PLT32|PC32|GOTPCREL\w*)\s+(\S+?)([+-]0x[0-9a-f]+)?$")
BRANCH = re.compile(r"^(call|jmp|j[a-z]+)\s+(\*?)(\S+)(?: <([^>+]+)(?:\+0x[0-9a-f]+)?>)?")


class Function:
    def __init__(self, obj, name, section, start):
        self.obj, self.name, self.section, self.start = obj, name, section, start
        self.base = name.split(".")[0]  # without what the compiler adds to a clone, a part or a renamed one
        self.faults, self.targets = [], set()  # targets: ("local", name) or ("at", section, offset) or ("symbol", name)


def read(library):
    """Every function of the library's objects."""
    text = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", library], capture_output=True, text=True, check=True).stdout
    functions, obj, section, current, branch = [], "", "", None, None
    for line in text.splitlines():
        if m := OBJECT.match(line):
            obj, current = m[1], None
        elif m := SECTION.match(line):
            section = m[1]
        elif m := FUNCTION.match(line):
            current = Function(obj, m[2], section, int(m[1], 16))
            if m[2].endswith("@plt"):  # only jumps on to what it is named for
                current = None
            else:
                functions.append(current)
        elif current and (m := RELOCATION.match(line)):
            if branch:
                note_relocation(current, m)
        elif current and (m := LINE.match(line)):
            branch = note_instruction(current, m[2].strip())
    return functions


def note_instruction(function, text):
    if POINTER.match(text) and function.base not in INDIRECT:
        function.faults.append(f"calls through a pointer, and hotpath.py does not know what: {text}")
    for pattern, what in FORBIDDEN:
        if pattern.match(text) and not (what == "divides" and function.base in MAY_DIVIDE):
            function.faults.append(f"{what}: {text}")
    m = BRANCH.match(text)
    if not m:
        return False
    if not m[2] and m[4] and m[4] != function.name:
        function.targets.add(("local", m[4]))
    return True


def note_relocation(function, m):
    symbol, offset = m[2], int(m[3] or "0", 16) + 4
    if symbol.startswith("."):
        function.targets.add(("at", symbol, offset))
    else:
        function.targets.add(("symbol", symbol))
        function.targets = {t for t in function.targets if t != ("local", function.name)}


class Library:
    def __init__(self, functions):
        self.local = {(f.obj, f.name): f for f in functions}
        self.named = {}
        for f in functions:
            self.named.setdefault(f.name, f)
        self.sections = {}
        for f in functions:
            self.sections.setdefault((f.obj, f.section), []).append(f)

    def find(self, source, target):
        if target[0] == "at":
            inside = [f for f in self.sections.get((source.obj, target[1]), []) if f.start <= target[2]]
            return inside[-1] if inside else None
        return self.local.get((source.obj, target[1])) or self.named.get(target[1])


def check(functions, entries):
    """Faults of everything the entries reach, as lines; and how many functions that is."""
    library, faults, seen = Library(functions), [], set()
    todo = []
    for name in entries:
        if name not in library.named:
            return [f"{name}: not there; the list of entries is out of date"], 0
        todo.append((library.named[name], name))
    while todo:
        function, path = todo.pop()
        if (function.obj, function.name) in seen or function.base in RARE:
            continue
        seen.add((function.obj, function.name))
        faults += [f"{path}: {fault}" for fault in function.faults]
        for target in sorted(function.targets, key=str):
            found = library.find(function, target)
            if found:
                todo.append((found, f"{path} > {found.name}"))
            elif target[1].removesuffix("@plt") not in ALLOWED:
                faults.append(f"{path}: calls {target[1]}")
    return faults, len(seen)


PLANTS = [("malloc", "#include <stdlib.h>\n", "r->pool = malloc((size_t)now);"),
          ("division", "", "r->slots = (uint32_t)(now / (r->slots + 1u));"),
          ("locked instruction", "", "__atomic_fetch_add(&r->slots, 1u, __ATOMIC_SEQ_CST);"),
          ("lock", "#include <pthread.h>\n", "pthread_mutex_lock((pthread_mutex_t *)r->pool);"),
          ("log line", "#include <stdio.h>\n", 'fprintf(stderr, "%u", r->slots);'),
          ("call through a pointer", "", "(*(void (*volatile *)(void))&r->slots)();")]
PLANT_IN = "src/router/forward.c"
PLANT_AT = "    count_forwarded(r, now, pkt, key, w, router_label(hdr), handed_over);\n"


def plant(functions, build):
    """Names of the plants that were not found."""
    commands = json.loads((build / "compile_commands.json").read_text())
    command = next(c for c in commands if c["file"].endswith(PLANT_IN) and "bobtail_core.a" in c["output"])
    source = (pathlib.Path(command["directory"]) / command["file"]).resolve()
    text, missed = source.read_text(), []
    if text.count(PLANT_AT) != 1:
        sys.exit(f"hotpath: {PLANT_IN}: the place to plant in does not occur once")
    with tempfile.TemporaryDirectory() as folder:
        planted, obj = pathlib.Path(folder) / "forward.c", pathlib.Path(folder) / "forward.o"
        for name, include, line in PLANTS:
            planted.write_text(include + text.replace(PLANT_AT, PLANT_AT + "    " + line + "\n"))
            arguments = [a for a in shlex.split(command["command"]) if a != command["file"]]
            arguments[arguments.index("-o") + 1] = str(obj)
            subprocess.run([*arguments, "-w", str(planted)], cwd=command["directory"], check=True)
            rest = [f for f in functions if "router_forward.c" not in f.obj]
            faults, _ = check(rest + read(obj), LIBRARY + PICK + LIBRARY_POOL)
            print(f"planted {name}: {faults[0] if faults else 'NOT FOUND'}")
            missed += [] if faults else [name]
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file", metavar="LIBRARY.a or PROGRAM")
    parser.add_argument("--program", action="store_true", help="a linked router, with what the router enters by")
    parser.add_argument("--plant", type=pathlib.Path, metavar="BUILD_DIR")
    args = parser.parse_args()
    functions = read(args.file)
    entries = ROUTER + PICK + PROGRAM_POOL if args.program else LIBRARY + PICK + LIBRARY_POOL
    faults, reached = check(functions, entries)
    print(*faults, sep="\n")
    print(f"{reached} functions reached from {', '.join(entries)}: {len(faults)} faults")
    missed = plant(functions, args.plant) if args.plant else []
    return 1 if faults or missed or reached < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
