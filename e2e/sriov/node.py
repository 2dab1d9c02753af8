#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An emulated machine with an igb card as a node of the embedded cluster.

`bobtail-cluster join NAME -- e2e/sriov/node.py` starts it in the cluster's network, with the
node's files in $NODE_DIR (root/ becomes the machine's root file system, files.txt names programs
to add) and a tap device $NODE_TAP. The machine's virtual functions are bound to vfio-pci before
its kubelet starts. It is interpreted (TCG), some ten times slower than this machine.

  node.py --cpus=N --functions=N [--hugepages=N] [--memory=MIB]
"""
import argparse
import os
import pathlib
import shutil
import sys

import guest

HERE = pathlib.Path(__file__).resolve().parent
MODULES = ["failover", "net_failover", "virtio_net", "llc", "stp", "bridge", "veth", "overlay", "i2c-algo-bit", "dca", "igb", "igbvf", "irqbypass", "vfio",
           "vfio_iommu_type1", "vfio-pci-core", "vfio-pci"]
NEEDED = {"virtio-net", "bridge", "veth", "overlay", "igb", "igbvf", "vfio-pci"}


def fill(ramfs, cache, folder, options):
    ramfs.add(guest.busybox(cache), "/bin/busybox")
    for name, package in (("ip", "iproute2"), ("nsenter", "util-linux"), ("mount", "mount"), ("umount", "mount")):
        ramfs.add_program(guest.tool(name, package), f"/usr/sbin/{name}")
    for line in (folder / "files.txt").read_text().splitlines():
        source, to = line.split()
        ramfs.add_program(source, to)
    wanted = ramfs.add_modules(cache, MODULES, NEEDED)
    for script in ("node-init", "node-start"):
        ramfs.add(HERE / script, "/init" if script == "node-init" else f"/{script}")
    with open(ramfs.root / "settings", "a", encoding="utf-8") as f:
        f.write(f'MODULES="{" ".join(wanted)}"\nHUGEPAGES={options.hugepages}\nFUNCTIONS={options.functions}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpus", type=int, required=True, help="virtual CPUs")
    parser.add_argument("--functions", type=int, required=True, help="virtual functions of the card, 1 to 7")
    parser.add_argument("--hugepages", type=int, default=192, help="2 MiB pages, reserved before the kubelet starts")
    parser.add_argument("--memory", type=int, default=4096, help="MiB; the root file system is in it")
    options = parser.parse_args()
    if not 1 <= options.functions <= 7:
        parser.error("--functions must be 1 to 7")
    folder, tap = os.environ.get("NODE_DIR"), os.environ.get("NODE_TAP")
    if not folder or not tap:
        parser.error("NODE_DIR and NODE_TAP must be set: bobtail-cluster join does")
    folder = pathlib.Path(folder)
    try:
        cache = guest.fetched()
        ramfs = guest.Initramfs(folder / "root")
        fill(ramfs, cache, folder, options)
        ramfs.pack(guest.busybox(cache), folder / "initrd", compress=False)
        shutil.rmtree(ramfs.root)
    except guest.Lacking as e:
        print(f"node: {e}", file=sys.stderr)
        return 2
    devices = [*guest.card("0", "hubport,hubid=0"), "-netdev", f"tap,id=up,ifname={tap},script=no,downscript=no", "-device", "virtio-net-pci,netdev=up,romfile="]
    argv, env = guest.qemu(cache, folder / "initrd", options.cpus, options.memory, devices)
    print(f"node: {options.cpus} virtual CPUs, {options.functions} virtual functions", flush=True)
    os.execve(argv[0], argv, env)


if __name__ == "__main__":
    sys.exit(main())
