# SPDX-License-Identifier: Apache-2.0
"""Builds the model and the sweep of src/sched from a folder that may hold another version of it."""
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATAPLANE = ROOT / "dataplane"
SWEEP = ("sim/sched_server.c", "sim/sched_sweep.c", "sim/policy_notices.c", "sim/stream.c", "sim/buffers.c", "src/base/rng.c", "src/base/mem.c",
         "src/base/pkt.c", "tests/sched/sweep_main.c")


# A planted bug changes one file, and the same one as the last time: the compiler's cache has all else, and that.
CACHE = ["ccache"] if shutil.which("ccache") else []
CACHED = {**os.environ, "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}  # checkouts share what they compiled


def build(command):
    """"" or what the compiler said."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=CACHED)
    return "" if done.returncode == 0 else done.stderr[-3000:] or "no compiler output"


def objects(compile_with, sources, folder):
    """(the objects of these sources in a folder, what the compiler said: "" or why there are none)"""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    made = [str(folder / f"{i}-{pathlib.Path(source).stem}.o") for i, source in enumerate(sources)]
    for source, out in zip(sources, made, strict=True):
        said = build([*CACHE, *compile_with, "-c", str(source), "-o", out])
        if said:
            return [], said
    return made, ""


def program(compile_with, sources, out, link_with=()):
    """"" or what the compiler said."""
    made, said = objects(compile_with, sources, f"{out}.o")
    return said or build([compile_with[0], *made, "-o", str(out), *link_with])


def model(out, sched=DATAPLANE / "src", optimise="-O2"):
    """relacy's model.cpp over the files in sched/sched."""
    if not pathlib.Path("/usr/include/relacy/relacy.hpp").is_file():
        return "no <relacy/relacy.hpp>: install Debian's relacy-dev (make deps)"
    return program(["g++", "-std=gnu++14", optimise, "-w", f"-I{sched}", f"-I{DATAPLANE / 'src'}", f"-I{DATAPLANE / 'tests/sched/model'}"],
                   [DATAPLANE / "tests/sched/model/model.cpp"], out)


def sweep(out, sched=DATAPLANE / "src"):
    """The sweep with the scheduler of sched/sched."""
    return program(["gcc", "-std=gnu17", "-O1", "-w", "-D_GNU_SOURCE", "-march=x86-64-v2", f"-I{sched}", f"-I{DATAPLANE / 'src'}", f"-I{DATAPLANE / 'sim'}"],
                   [*sorted((pathlib.Path(sched) / "sched").glob("*.c")), *(DATAPLANE / f for f in SWEEP)], out, ["-lm"])
