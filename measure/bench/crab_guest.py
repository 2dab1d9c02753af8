# SPDX-License-Identifier: Apache-2.0
"""Instructions a kernel executes for a packet, counted without hardware counters.

QEMU interprets a guest whose clock moves by one nanosecond with each instruction (-icount shift=0). A time measured in
there by the guest is a number of instructions, helpers and maps of the kernel included; load of this machine
does not change it. Kernel, QEMU and the network card are those of the SR-IOV suite (e2e/sriov).
"""
import importlib.util
import json
import pathlib
import re
import tempfile

import machine

MODULES = ("i2c-algo-bit", "dca", "igb")


def sriov():
    """The SR-IOV suite's script as a module: it knows where QEMU is and how an initramfs is packed."""
    spec = importlib.util.spec_from_file_location("sriov", machine.ROOT / "e2e" / "sriov" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def initrd(suite, cache, work, program, peers, settings):
    ramfs = suite.Initramfs(work / "root")
    busybox = next(p for p in (cache / "root/bin/busybox", cache / "root/usr/bin/busybox") if p.exists())
    ramfs.add(busybox, "/bin/busybox")
    ramfs.add_program(suite.tool("ip", "iproute2"), "/iproute2/ip")
    ramfs.add(program, "/bin/syncost.test")
    for peer in peers:
        ramfs.add(peer, f"/peers/{peer.name}")
    found = suite.kernel_modules(cache)
    wanted = [m for m in MODULES if m in found]  # what is missing is built in
    for m in wanted:
        ramfs.add_module(found[m], f"/modules/{m}.ko")
    ramfs.add(machine.ROOT / "e2e/bench/crab/guest-init", "/init")
    (ramfs.root / "settings").write_text(f'MODULES="{" ".join(wanted)}"\n')
    (ramfs.root / "config" / "syn.json").write_text(json.dumps({"peers": "/peers", "device": "@DEVICE@", "out": "/tmp/syn.json", **settings}))
    target = work / "initrd.gz"
    ramfs.pack(busybox, target)
    return target


def qemu(suite, cache, image):
    """The SR-IOV suite's machine with one processor, without IOMMU, and with the clock that counts."""
    argv, env = suite.qemu(cache, image)
    words = {"-accel": "tcg,thread=single", "-smp": "1", "-M": "q35", "-append": "console=ttyS0 quiet panic=-1 no_timer_check tsc=reliable"}
    for option, value in words.items():
        argv[argv.index(option) + 1] = value
    at = next(i for i, a in enumerate(argv) if a.startswith("intel-iommu"))
    del argv[at - 1:at + 1]
    return [*argv, "-icount", "shift=0,sleep=off"], env


def counted(program, peers, settings):
    """What the benchmark wrote in the guest, and the guest's kernel; its nanoseconds are instructions."""
    suite = sriov()
    try:
        cache = suite.fetched()
        with tempfile.TemporaryDirectory(prefix="bobtail-bench-") as work:
            image = initrd(suite, cache, pathlib.Path(work), program, peers, settings)
            lines = suite.boot(*qemu(suite, cache, image), False)
    except suite.Lacking as lacking:
        raise machine.Failed(str(lacking))
    for line in lines:
        if line.startswith("RESULT syn "):
            kernel = next((re.search(r"Linux (\S+)", x).group(1) for x in lines if x.startswith("STAGE") and "Linux" in x), "?")
            return {**json.loads(line[11:]), "kernel": kernel}
    raise machine.Failed("the emulated machine brought no result; its last words:\n" + "\n".join(lines[-30:]))
