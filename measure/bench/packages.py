# SPDX-License-Identifier: Apache-2.0
"""Programs of Debian's packages, unpacked into the cache but not installed: no daemon is started, nothing is changed."""
import os
import pathlib
import re
import subprocess
import tempfile
import time

import machine


# apt-get waits for no lock of its lists by itself; a fresh machine updates itself for minutes.
LOCKED = re.compile("Could not get lock|Unable to (lock|acquire)")


def apt_get(*words, cwd=None, patience=600):
    """Runs apt-get until no other apt is in its way."""
    deadline = time.monotonic() + patience
    while True:
        got = subprocess.run(["apt-get", "-q", *words], cwd=cwd, capture_output=True, text=True)
        if not got.returncode or not LOCKED.search(got.stderr) or time.monotonic() > deadline:
            return got
        time.sleep(5)


def download(packages, folder):
    """Fetches the packages into a folder; a machine without package lists, or with old ones, gets new ones first."""
    got = apt_get("download", *packages, cwd=folder)
    if got.returncode and os.geteuid() == 0:
        update = apt_get("update")
        got = apt_get("download", *packages, cwd=folder)
        got.stderr += update.stderr if update.returncode else ""
    if got.returncode:
        raise machine.Failed(f"apt-get download {' '.join(packages)}: {got.stderr.strip()[-300:]}; run apt-get update as root")


def unpacked(name, packages):
    """(folder with what the packages hold, environment in which its programs find their libraries)."""
    cache = pathlib.Path(os.environ.get("BOBTAIL_CACHE", pathlib.Path.home() / ".cache" / "bobtail"))
    root = cache / name
    if not (root / "complete").exists():
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as debs:
            download(packages, debs)
            for deb in sorted(pathlib.Path(debs).glob("*.deb")):
                subprocess.run(["dpkg-deb", "-x", deb, root], check=True)
        (root / "complete").touch()
    libraries = os.pathsep.join(str(p) for p in sorted((root / "usr/lib").glob("*-linux-gnu")))
    return root, {"LD_LIBRARY_PATH": libraries}
