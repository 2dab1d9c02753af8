# SPDX-License-Identifier: Apache-2.0
"""An emulated machine with an SR-IOV card: what it is made of and how it is started.

run.py plays dataplane programs in one; node.py makes one a node of a cluster.
"""
import lzma
import os
import pathlib
import re
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


class Lacking(Exception):
    """This machine cannot run the suite; the text says what it needs."""


def tool(name, package):
    path = shutil.which(name)
    if path is None:
        raise Lacking(f"{name} is missing: install the Debian package {package}")
    return path


def fetched():
    """The folder with QEMU, kernel and busybox; loads them once."""
    p = subprocess.run([HERE / "fetch"], capture_output=True, text=True)
    if p.returncode != 0:
        raise Lacking(p.stderr.strip() or "e2e/sriov/fetch failed")
    return pathlib.Path(p.stdout.strip().splitlines()[-1])


def busybox(cache):
    path = cache / "root" / "bin" / "busybox"
    return path if path.exists() else cache / "root" / "usr" / "bin" / "busybox"


def libraries(program):
    """Shared libraries a program needs, by their paths."""
    out = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    missing = re.findall(r"^\s*(\S+) => not found", out, re.M)
    if missing:
        raise Lacking(f"{program} needs {', '.join(missing)}")
    return re.findall(r"(/\S+) \(0x", out)


class Initramfs:
    """A root file system of few files, as the kernel unpacks it into memory."""

    def __init__(self, folder):
        self.root = folder
        for d in ("bin", "dev", "proc", "sys", "tmp", "run", "modules", "config", "var", "etc", "keys"):
            (folder / d).mkdir(parents=True, exist_ok=True)

    def add(self, source, to):
        target = self.root / to.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
        target.chmod(0o755)

    def add_program(self, source, to):
        self.add(source, to)
        for lib in libraries(source):
            self.add(lib, lib)

    def add_module(self, source, to):
        with (lzma.open if source.suffix == ".xz" else open)(source, "rb") as f:
            (self.root / to.lstrip("/")).write_bytes(f.read())

    def add_modules(self, cache, names, needed):
        """Those of the names that the kernel has, which are returned."""
        modules = kernel_modules(cache)
        wanted = [m for m in names if m.replace("_", "-") in modules]
        lacking = needed - {m.replace("_", "-") for m in wanted}
        if lacking:
            raise Lacking(f"the kernel has no module {', '.join(sorted(lacking))}: a generic one is needed (linux-image-amd64)")
        for m in wanted:
            self.add_module(modules[m.replace("_", "-")], f"/modules/{m}.ko")
        return wanted

    def pack(self, busybox, to, compress=True):
        names = sorted(str(p.relative_to(self.root)) for p in self.root.rglob("*"))
        with open(to, "wb") as f:
            packer = subprocess.Popen([busybox, "gzip", "-1", "-c"] if compress else ["cat"], stdin=subprocess.PIPE, stdout=f)
            subprocess.run([busybox, "cpio", "-o", "-H", "newc"], input="\n".join(names), text=True, cwd=self.root,
                           stdout=packer.stdin, stderr=subprocess.DEVNULL, check=True)
            packer.stdin.close()
            if packer.wait() != 0:
                raise Lacking("the initramfs could not be packed")


def kernel_modules(cache):
    """{name, with hyphens: file} of the guest's kernel."""
    return {p.name.split(".")[0].replace("_", "-"): p for p in (cache / "kernel" / "lib" / "modules").rglob("*.ko*")}


def card(number, netdev, mac=None):
    """QEMU's options for an igb card of its own PCIe slot."""
    kind, _, rest = netdev.partition(",")
    return ["-netdev", f"{kind},id=n{number},{rest}", "-device", f"pcie-root-port,id=rp{number},slot={int(number) + 1}",
            "-device", f"igb,netdev=n{number},bus=rp{number},romfile=" + (f",mac={mac}" if mac else "")]


# The firmware of a machine with more than 2 GiB puts the functions' registers at three quarters of the address space. Of 40
# bits, QEMU's own choice, that is above 512 GiB, where they all read as zero. Of 39 they can be used.
CPU = "max,phys-bits=39"


def qemu(cache, initrd, cpus, memory, devices):
    """The command line and environment of a machine with an IOMMU."""
    root = cache / "root"
    kernel = sorted((cache / "kernel" / "boot").glob("vmlinuz-*"))[-1]
    libs = f"{root}/usr/lib/x86_64-linux-gnu:{root}/lib/x86_64-linux-gnu"
    argv = [str(root / "usr/bin/qemu-system-x86_64"), "-L", str(root / "usr/share/qemu"), "-L", str(root / "usr/share/seabios"),
            "-M", "q35,kernel-irqchip=off", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", CPU, "-m", str(memory), "-smp", str(cpus),
            "-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot", "-nodefaults",
            "-kernel", str(kernel), "-initrd", str(initrd),
            # Detours around faults of real processors cost an interpreted one time, for nothing.
            "-append", "console=ttyS0 quiet panic=-1 intel_iommu=on iommu=pt no_timer_check mitigations=off",
            "-device", "intel-iommu,intremap=on,caching-mode=on", *devices]
    return argv, dict(os.environ, LD_LIBRARY_PATH=libs, QEMU_MODULE_DIR="/nonexistent")
