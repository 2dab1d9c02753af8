#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prove from the machine code that a packet's path allocates, locks, logs and divides nothing.

  hotpath.py [--dpdk] LIBRARY.a... [--plant BUILD_DIR]
  hotpath.py [--dpdk] --program PROGRAM

Starts at the functions a packet enters by, follows every call and jump through the objects of the release libraries, or
through a linked program, whose code is optimised as a whole, and refuses whatever is not a function there or one of the few
named here, every call through a pointer nobody vouches for, every division, every locked instruction and every system call.
Then it starts once more at what the programs call in a driver, of UDP and with --dpdk of DPDK: there drivers.py names what
may be called besides, by whom and why; and at the loops of the router, for which loop.py does. --plant compiles sources once more with mistakes in them (plants.py), as BUILD_DIR
compiles them, and demands that each is found.
"""
import argparse
import bisect
import collections
import pathlib
import re
import subprocess
import sys

import drivers
import loop
import plants

ROUTER = ["bt_router_requests", "bt_router_feedbacks"]  # on one thread and on two
LINK = ["bt_link_rx_burst", "bt_link_tx_burst", "bt_link_steer", "bt_link_next", "bt_link_tick", "fire", "bt_link_announce",
        "bt_link_events"]
LIBRARY = [*ROUTER, "bt_router_replay", *LINK, "bt_server_rx", "bt_server_next_burst", "bt_server_reply", "bt_client_rx",
           "bt_client_send", "bt_client_burst"]

# What functions call through a pointer, so that no call names it; the same whatever was inlined into them.
PICK = ["bt_pick_jbsq", "bt_pick_jsq", "bt_pick_power_of_two", "bt_pick_round_robin", "bt_pick_random"]
WATCHERS = ["admit_request", "label_of", "keep_oldest_unjudged", "speak_of_ended", "judge_gone", "skip_forgotten", "count_unseen",  # admission
            "note_load", "hedging_preempt", "forward_kept", "hedging_pair_began", "end_copy", "hedging_pair_gone", "hedging_twin",  # hedging
            "hedging_earlier_copy", "send_what_is_due", "tell_other_half", "publish_worker"]  # and two threads
LIBRARY_POOL, PROGRAM_POOL = ["fixed_get", "fixed_put"], ["mapped_get", "mapped_put"]  # of the tests, of the programs
VOUCHED = {
    "the pool": ["bt_assembly_add", "bt_client_send", "bt_client_send_charged", "bt_pool_put_chain", "bt_port_packet", "bt_port_send", "bt_server_message_part",
                 "bt_server_open_message", "bt_train_get", "choose_policy", "link_arp_rx", "link_drop", "link_icmp_rx", "link_make", "link_ndp_rx",
                 "router_credit_held", "router_drop", "router_reject", "send_what_is_due", "send_cancel", "take_any", "try_copy",
                 "router_feedback", "router_feedback_any", "bt_router_feedback", "bt_router_feedbacks", "split_feedbacks",
                 # of the link, where the program is optimised as a whole
                 "ask", "fire", "link_arp_ask", "link_neigh_confirm", "link_neigh_hear", "link_neigh_send", "make_room",
                 "report_groups", "send_any", "send_whole", "take_udp"],
    "the policies": ["bt_router_replay"],
    "who watches (router/watchers.c)": ["router_tell_arrived", "router_ask_admit", "router_ask_send", "router_forward_watched", "router_label",
                                        "router_tell_began", "router_tell_ended", "router_tell_gone", "router_tell_forgotten", "router_tell_unseen",
                                        "router_twin", "router_is_stale", "router_tell_follow"],
    "the other half of a router on two threads": ["router_refresh", "router_watch_full"],
    "the pool and the policies": ["bt_router_request", "bt_router_requests", "router_request", "router_requests", "router_pump", "router_route",
                                  "split_requests"],
    "the pool and the application, which is told of its answer": ["bt_client_rx"],
    "the pool and the application, which is handed its request": ["bt_server_rx"],
    "the application": ["bt_client_fail", "bt_server_hand_over", "bt_server_on_cancel", "part_of_reply", "succeed"],
    "who keeps flow control (run/flow.c)": ["bt_server_displace", "bt_server_refuse", "end_cancelled", "flow_left", "reply_sent", "send_feedback"],
    "what a timer of the link does (fire)": ["bt_wheel_advance"],
}
INDIRECT = {name for table in (VOUCHED, drivers.POINTERS, loop.POINTERS) for names in table.values() for name in names}

# Once for a message, to know how many packets it makes or how long they may take; and what the loops do when a timer is due.
MAY_DIVIDE = {"bt_split_reply", "bt_split_request", "patience_for"} | loop.MAY_DIVIDE
LOCKS = {**drivers.LOCKS, **loop.LOCKS}

# Outside: memory that is copied, and SipHash, both without side effects.
ALLOWED = {"memcpy", "memmove", "memset", "memcmp", "crypto_shorthash", "sodium_memcmp", "__stack_chk_fail"}

# Run when a worker comes or goes, never because of a request: divisions are allowed there and in what only they call.
RARE = {"set_span": "spreads ties anew over the workers in use"}

DIVIDES, LOCKED = "divides", "has a locked instruction"
FORBIDDEN = [(re.compile(r"^(i?div|f?i?divr?|divs[sd]|divp[sd])[bwlq]?\b"), DIVIDES),
             (re.compile(r"^lock\b|^xchg\s.*\("), LOCKED),
             (re.compile(r"^(syscall|sysenter|int\s)"), "makes a system call"),
             (re.compile(r"^rdtscp?\b"), "reads a clock")]

POINTER = re.compile(r"^(?:notrack )?(call|jmp)\s+\*(\S+)")

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
        self.faults = []
        self.targets = []  # of each branch: ("here", address, name) or ("at", section, offset) or ("symbol", name) or None


def read(library):
    """Every function of the library's objects."""
    of = pathlib.Path(library).name
    text = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", library], capture_output=True, text=True, check=True).stdout
    functions, obj, section, current, branch = [], "", "", None, None
    before = collections.deque(maxlen=4)
    for line in text.splitlines():
        if m := OBJECT.match(line):
            obj, current = f"{of}:{pathlib.Path(m[1]).name}", None
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
            branch = note_instruction(current, m[2].strip(), before)
            before.append(m[2].strip())
    return functions


def is_switch(before, m):
    """Whether a jump goes to a case of its own function: by a distance from a table, added to where the table is."""
    register = re.escape(m[2])
    return m[1] == "jmp" and all(any(re.match(pattern, text) for text in before)
                                 for pattern in (rf"movslq \(.*,4\),{register}$", rf"add\s+%\w+,{register}$"))


def allowed(function, what, text):
    may_lock = any(re.match(pattern, text) for pattern, _ in LOCKS.get(function.base, []))
    return (what == DIVIDES and function.base in MAY_DIVIDE) or (what == LOCKED and may_lock)


def note_instruction(function, text, before):
    m = POINTER.match(text)
    if m and function.base not in INDIRECT and not is_switch(before, m):
        function.faults.append(f"calls through a pointer, and hotpath.py does not know what: {text}")
    for pattern, what in FORBIDDEN:
        if pattern.match(text) and not allowed(function, what, text):
            function.faults.append(f"{what}: {text}")
    m = BRANCH.match(text)
    if not m:
        return False
    function.targets.append(("here", int(m[3], 16), m[4]) if not m[2] and m[4] else None)
    return True


def note_relocation(function, m):
    symbol, offset = m[2], int(m[3] or "0", 16) + 4
    function.targets[-1] = ("at", symbol, offset) if symbol.startswith(".") else ("symbol", symbol)


class Library:
    def __init__(self, functions):
        self.local = {(f.obj, f.name): f for f in functions}
        self.named, self.sections = {}, {}
        for f in functions:
            self.named.setdefault(f.name, f)
            self.sections.setdefault((f.obj, f.section), []).append(f)

    def inside(self, obj, section, address):
        starts = self.sections.get((obj, section), [])
        at = bisect.bisect_right(starts, address, key=lambda f: f.start)
        return starts[at - 1] if at else None

    def find(self, source, target):
        """The function a branch leads to, None if it is not there; and its name."""
        kind, at, name = (*target, target[-1])[:3]
        if kind == "at":
            found = self.inside(source.obj, at, name)
        elif kind == "here" and not name.endswith("@plt"):
            found = self.inside(source.obj, source.section, at)
        else:
            name = name.removesuffix("@plt")
            found = self.local.get((source.obj, name)) or self.named.get(name)
        return found, found.base if found else str(name)


def check(functions, entries, calls={}):
    """Faults of everything the entries reach, as lines; and how many functions that is. calls: as drivers.CALLS, loop.CALLS."""
    library, faults, seen = Library(functions), [], set()
    todo = []
    for name in entries:
        if name not in library.named:
            return [f"{name}: not there; the list of entries is out of date"], 0
        todo.append((library.named[name], name))
    while todo:
        function, path = todo.pop()
        if function in seen or function.base in RARE:
            continue
        seen.add(function)
        faults += [f"{path}: {fault}" for fault in function.faults]
        if rare := library.local.get((function.obj, function.name + ".cold")):  # a table may lead there, too
            todo.append((rare, f"{path} > {rare.name}"))
        for target in sorted({t for t in function.targets if t}, key=str):
            found, name = library.find(function, target)
            if found is function:
                continue
            if name in calls:
                callers, why = calls[name]
                if function.base not in callers:
                    faults.append(f"{path}: calls {name}, which only {', '.join(callers)} may: {why}")
            elif found:
                todo.append((found, f"{path} > {found.name}"))
            elif name not in ALLOWED:
                faults.append(f"{path}: calls {name}")
    return faults, len(seen)


def prove(functions, pure, driven):
    """Faults of what is pure, of the drivers and of the loops; and how many functions were reached from each."""
    found = [check(functions, pure), check(functions, driven, drivers.CALLS), check(functions, loop.ENTRIES, loop.CALLS)]
    return [fault for faults, _ in found for fault in faults], [reached for _, reached in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("files", metavar="LIBRARY.a or PROGRAM", nargs="+")
    parser.add_argument("--program", action="store_true", help="a linked router, with what the router enters by")
    parser.add_argument("--dpdk", action="store_true", help="the DPDK driver is there, too")
    parser.add_argument("--plant", type=pathlib.Path, metavar="BUILD_DIR")
    args = parser.parse_args()
    functions = [f for file in args.files for f in read(file)]
    pure = WATCHERS + (ROUTER + PICK + PROGRAM_POOL if args.program else LIBRARY + PICK + LIBRARY_POOL)
    driven = drivers.UDP + (drivers.DPDK if args.dpdk else [])
    faults, reached = prove(functions, pure, driven)
    print(*faults, sep="\n")
    for entries, n in zip((pure, driven, loop.ENTRIES), reached):
        print(f"{n} functions reached from {', '.join(entries)}")
    print(f"{len(faults)} faults")
    missed = []
    if args.plant:
        missed = plants.missed(args.plant, args.dpdk, functions, read, lambda planted: prove(planted, pure, driven)[0])
    return 1 if faults or missed or any(n < least for n, least in zip(reached, (20, 10, 50))) else 0


if __name__ == "__main__":
    sys.exit(main())
