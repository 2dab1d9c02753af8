#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prove from its machine code what the router's program in the kernel may do to a packet (docs/decisions/0011).

  bpf.py OBJECT.o [--plant]

Reads the instructions of the compiled object, which is the one that is loaded: no instruction can be reached from itself,
so that a packet costs the longest path at the most; no division; no helper of the kernel but those named here, none of
which logs, allocates or waits; one lock, taken twice at the most, under which nothing is called; no atomic instruction but
the few named. --plant changes instructions into such as are forbidden, and demands that each is found.
"""
import argparse
import collections
import pathlib
import struct
import sys

PROGRAM = "tc"  # the section
LOCK, UNLOCK = 93, 94
LOCKS_MOST = 2  # FEEDBACK with a tag: to find its key, then to settle it

HELPERS = {
    1: "bpf_map_lookup_elem: arrays of one element, so an address",
    5: "bpf_ktime_get_ns: the time of arrival",
    9: "bpf_skb_store_bytes: the packet is rewritten",
    11: "bpf_l4_csum_replace: its sum, which only the kernel knows to be complete or not",
    26: "bpf_skb_load_bytes: the packet is read",
    28: "bpf_csum_diff: sums of headers, and of a payload by pieces",
    38: "bpf_skb_change_tail: room for the option",
    39: "bpf_skb_pull_data: the headers are made to lie in one piece",
    LOCK: "bpf_spin_lock: the router's loan has one owner at a time (decision 0011): held while a worker is chosen and noted",
    UNLOCK: "bpf_spin_unlock",
    135: "bpf_csum_level: whether the device has verified the sum",
    152: "bpf_redirect_neigh: the packet leaves by the device",
}
ADD, EXCHANGE = 0x00, 0xe1
ATOMICS = {ADD: "counters that are written outside the lock", EXCHANGE: "the end of a loan and of a note: the router reads them without the lock"}

Instruction = collections.namedtuple("Instruction", "code dst src off imm")
WIDE, CALL, EXIT, GOTO = 0x18, 0x85, 0x95, 0x05
JUMPS, ARITHMETIC, STX = (5, 6), (4, 7), 3
DIVIDE, MODULO, ATOMIC = 0x30, 0x90, 0xc0


def sections(elf):
    """{name: (offset, size)} of a 64-bit little-endian object."""
    if elf[:6] != b"\x7fELF\x02\x01":
        sys.exit("bpf: not a 64-bit little-endian object")
    table, = struct.unpack_from("<Q", elf, 0x28)
    size, n, names = struct.unpack_from("<HHH", elf, 0x3a)
    heads = [struct.unpack_from("<IIQQQQ", elf, table + size * i) for i in range(n)]
    at = heads[names][4]
    return {elf[at + h[0]:elf.index(b"\0", at + h[0])].decode(): (h[4], h[5]) for h in heads}


def instructions(path):
    elf = pathlib.Path(path).read_bytes()
    there = sections(elf)
    if there.get(".text", (0, 0))[1]:
        sys.exit("bpf: there are functions beside the program, which this does not read")
    offset, size = there[PROGRAM]
    raw = [struct.unpack_from("<BBhi", elf, offset + at) for at in range(0, size, 8)]
    return [Instruction(code, regs & 15, regs >> 4, off, imm) for code, regs, off, imm in raw]


def following(code, i):
    """Where the program may go on behind instruction i."""
    here = code[i]
    if here.code == EXIT:
        return []
    if here.code == GOTO:
        return [i + 1 + here.off]
    if here.code & 7 in JUMPS and here.code != CALL:
        return [i + 1, i + 1 + here.off]
    return [i + (2 if here.code == WIDE else 1)]


def order(code):
    """The instructions that can be reached, each before those behind it; and one that is reached from itself, if any."""
    state, out, stack = {0: 1}, [], [(0, iter(following(code, 0)))]
    while stack:
        i, rest = stack[-1]
        to = next(rest, None)
        if to is None:
            state[i] = 2
            out.append(i)
            stack.pop()
        elif state.get(to) == 1:
            return out, to
        elif to not in state:
            state[to] = 1
            stack.append((to, iter(following(code, to))))
    return out[::-1], None


def faults_of_one(code, i):
    here = code[i]
    if here.code & 7 in ARITHMETIC and here.code & 0xf0 in (DIVIDE, MODULO):
        yield f"{i}: divides"
    if here.code & 7 == STX and here.code & 0xe0 == ATOMIC and here.imm not in ATOMICS:
        yield f"{i}: atomic instruction {here.imm:#x}"
    if here.code == CALL and here.src != 0:
        yield f"{i}: calls a function that is no helper"
    elif here.code == CALL and here.imm not in HELPERS:
        yield f"{i}: calls helper {here.imm}"


def locked(code, i, held):
    """(whether the lock is held behind instruction i, what is wrong with that)"""
    here = code[i]
    if here.code == CALL and here.imm == LOCK:
        return True, f"{i}: takes the lock twice" if held else None
    if here.code == CALL and here.imm == UNLOCK:
        return False, None if held else f"{i}: releases a lock that it does not hold"
    if held and here.code in (CALL, EXIT):
        return held, f"{i}: {'ends' if here.code == EXIT else 'calls'} with the lock held"
    return held, None


def check(code):
    """Faults as lines; and the longest path, the longest under the lock, and how often it is taken at the most."""
    reached, again = order(code)
    if again is not None:
        return [f"{again}: is reached from itself: a loop"], (0, 0, 0)
    faults = [fault for i in reached for fault in faults_of_one(code, i)]
    known = {0: (False, 0, 0, 0)}  # held, and on the longest way there: instructions, those of the present hold, locks taken
    most = [0, 0, 0]
    for i in reached:
        held, length, under, taken = known[i]
        after, fault = locked(code, i, held)
        faults += [fault] if fault else []
        mine = (length + 1, under + 1 if held else 0, taken + (after and not held))
        most = [max(a, b) for a, b in zip(most, mine)]
        for to in following(code, i):
            before = known.get(to, (after, 0, 0, 0))
            if before[0] != after:
                faults.append(f"{to}: is reached with the lock held and without it")
            known[to] = (after, *(max(a, b) for a, b in zip(before[1:], mine)))
    if most[2] > LOCKS_MOST:
        faults.append(f"takes the lock {most[2]} times on one path")
    return faults, tuple(most)


def plants(code):
    """(what is planted, where, the instruction that stands there then)"""
    def first(wanted):
        return next(i for i, here in enumerate(code) if wanted(here))

    call = first(lambda c: c.code == CALL and c.imm == 5)
    release = first(lambda c: c.code == CALL and c.imm == UNLOCK)
    sum_ = first(lambda c: c.code == 0x0f)
    swap = first(lambda c: c.code == 0xdb and c.imm == EXCHANGE)
    yield "bpf_trace_printk", call, code[call]._replace(imm=6), "calls helper 6"
    yield "bpf_ringbuf_reserve", call, code[call]._replace(imm=131), "calls helper 131"
    yield "a function of the kernel", call, code[call]._replace(src=2), "no helper"
    yield "a division", sum_, code[sum_]._replace(code=0x3f), "divides"
    yield "a remainder", sum_, code[sum_]._replace(code=0x94), "divides"
    yield "compare and exchange", swap, code[swap]._replace(imm=0xf1), "atomic instruction 0xf1"
    yield "a loop", call, Instruction(0x15, 0, 0, -1, 0), "a loop"
    yield "the lock held while the clock is read", release, code[release]._replace(imm=5), "with the lock held"
    yield "the lock once more", release, code[release]._replace(imm=LOCK), "takes the lock twice"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("object")
    parser.add_argument("--plant", action="store_true")
    args = parser.parse_args()
    code = instructions(args.object)
    faults, (longest, under, taken) = check(code)
    print(*faults, sep="\n")
    print(f"{len(code)} instructions, {longest} on the longest path, {under} of them under the lock, which is taken {taken} times at the most")
    missed = 0
    for name, at, instead, said in plants(code) if args.plant else ():
        found = next((f for f in check([*code[:at], instead, *code[at + 1:]])[0] if said in f and f not in faults), None)
        print(f"planted {name} at {at}: {found or 'NOT FOUND'}")
        missed += found is None
    print(f"{len(faults)} faults")
    return 1 if faults or missed or taken == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
