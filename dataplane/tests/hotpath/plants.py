# SPDX-License-Identifier: Apache-2.0
"""Mistakes for hotpath.py to find: sources are compiled once more with all of theirs in them, each has to be found by itself."""
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HEAD = """#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
static volatile unsigned plant_n;
static void *volatile plant_p;
static void (*volatile plant_f)(void);
"""

# What is planted, and how the fault that it is looks.
MISTAKES = {
    "malloc": ("plant_p = malloc(plant_n);", r"calls malloc$"),
    "division": ("plant_n = 1000u / plant_n;", r"divides: "),
    "locked instruction": ("__atomic_fetch_add(&plant_n, 1u, __ATOMIC_SEQ_CST);", r"locked instruction: lock \w+ .*\(%rip\)"),
    "lock": ("pthread_mutex_lock((pthread_mutex_t *)plant_p);", r"calls pthread_mutex_lock$"),
    "log line": ('fprintf(stderr, "%u", plant_n);', r"calls \w*fprintf\w*$"),
    "system call": ("sched_yield();", r"calls sched_yield\b"),
    "call through a pointer": ("plant_f();", r"through a pointer, .*: (call|jmp)\s+\*(%r|.*\(%rip\))"),
    # Allowed elsewhere in the drivers, not there.
    "lock of a queue": ("rte_spinlock_lock((rte_spinlock_t *)(void *)&plant_n);", r"locked instruction: xchg\s.*\(%rip\)"),
    "the driver's own log": ('bt_dpdk_say(NULL, "planted");', r"calls bt_dpdk_say, which only"),
    "the driver's clock": ("plant_n = (unsigned)bt_udp_now(NULL);", r"calls bt_udp_now, which only"),
    "the program's log": ('bt_log_info("planted %u", plant_n);', r"> bt_log_info: calls \w*vsnprintf\w*$"),
}
ANYWHERE = ["malloc", "division", "locked instruction", "lock", "log line"]
OF_DPDK = [*ANYWHERE, "lock of a queue", "the driver's own log"]

# Objects of a program, gathered in a library for this.
BUILT_IN = {"librouter_loop.a": "bobtail-router.p/"}

# By library and source: behind which line what is planted. Calls through a pointer only where nothing is called so.
PLACES = {
    ("libbobtail_core.a", "src/router/forward.c"): {
        "    count_forwarded(r, now, pkt, key, to, router_label(r, hdr));\n":
            [*ANYWHERE, "system call", "call through a pointer"]},
    ("libbobtail_io.a", "src/io/udp_rx.c"): {
        "        p->t_rx_ns = at;\n": [*ANYWHERE, "system call"],
        "        unsigned index = u->next_port;\n": ["call through a pointer", "the driver's clock"]},
    ("libbobtail_io.a", "src/io/udp_tx.c"): {
        "    h->msg_iovlen = s->n;\n": [*ANYWHERE, "system call", "the driver's clock"],
        "            count_sent(u, at, (unsigned)sent);\n": ["call through a pointer"]},
    ("librouter_loop.a", "apps/bobtail-router/loop.c"): {
        "        fast_path_read(app);\n": [*ANYWHERE, "system call", "the program's log"]},
    ("librouter_loop.a", "apps/bobtail-router/threads.c"): {
        "    bt_router_requests(t->router, pkts, n, txq);\n": ANYWHERE,
        "        bt_router_feedbacks(t->router, pkts, n, NULL);\n": ["system call"]},
    ("librouter_loop.a", "apps/bobtail-router/fast_path.c"): {
        "        app->fast_sockets[bt_fast_why_not(app->fast)] += n;\n": [*ANYWHERE, "system call", "the program's log"],
        "        bt_fast_read(app->fast, app->router, &app->txq);\n": ["call through a pointer"]},
}
FAST_PLACES = {
    ("libbobtail_fast.a", "src/fast/fast.c"): {
        "            f->disagreed++;\n": [*ANYWHERE, "system call", "call through a pointer"]},
}
DPDK_PLACES = {
    ("libbobtail_io_dpdk.a", "src/io/dpdk_rx.c"): {
        "            p->t_rx_ns = d->now_ns;\n": [*OF_DPDK, "system call"],
        "    bt_txq_push(&port->inbox, p);\n": ["call through a pointer"]},
    ("libbobtail_io_dpdk.a", "src/io/dpdk_tx.c"): {
        "        m->l2_len = ETH_HEAD;\n": OF_DPDK,
        "    struct bt_dpdk *d = bt_dpdk_of(io);\n": ["call through a pointer", "system call"]},
    ("libbobtail_io_dpdk.a", "src/io/dpdk_steer.c"): {
        "        uint16_t port = 0;\n": [*OF_DPDK, "system call"]},
}


def with_mistakes(source, lines):
    text = source.read_text()
    for line, names in lines.items():
        if text.count(line) != 1:
            sys.exit(f"hotpath: {source}: the place to plant in does not occur once: {line.strip()}")
        text = text.replace(line, line + "".join(f"    {MISTAKES[name][0]}\n" for name in names))
    return HEAD + text


def compiled(command, text, folder):
    """The object that the command makes of the text instead of its source; it has the name of the one it stands for."""
    source, obj = folder / pathlib.Path(command["file"]).name, folder / pathlib.Path(command["output"]).name
    source.write_text(text)
    arguments = [a for a in shlex.split(command["command"]) if a != command["file"]]
    arguments[arguments.index("-o") + 1] = str(obj)
    subprocess.run([*arguments, "-w", str(source)], cwd=command["directory"], check=True)
    return obj


def missed(build, dpdk, functions, read, faults_of):
    """The mistakes that were not found."""
    before = set(faults_of(functions))
    commands, missing = json.loads((build / "compile_commands.json").read_text()), []
    fast = any(f.obj.endswith(":fast.c.o") for f in functions)  # else there is no libbpf, and no fast path
    for (library, file), lines in (PLACES | (FAST_PLACES if fast else {}) | (DPDK_PLACES if dpdk else {})).items():
        folder_of = BUILT_IN.get(library, f"{library}.p/")
        command = next(c for c in commands if c["file"].endswith(file) and folder_of in c["output"])
        source = (pathlib.Path(command["directory"]) / command["file"]).resolve()
        with tempfile.TemporaryDirectory() as folder:
            obj = compiled(command, with_mistakes(source, lines), pathlib.Path(folder))
            faults = faults_of([f for f in functions if f.obj != f"{library}:{obj.name}"] + read(obj))
        for name in [name for names in lines.values() for name in names]:
            found = next((fault for fault in faults if fault not in before and re.search(MISTAKES[name][1], fault)), None)
            print(f"{file}, planted {name}: {found or 'NOT FOUND'}")
            missing += [] if found else [(file, name)]
    return missing
