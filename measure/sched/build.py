# SPDX-License-Identifier: Apache-2.0
"""Builds the model and the sweep of src/sched from a folder that may hold another version of it."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATAPLANE = ROOT / "dataplane"
SWEEP = ("sim/sched_server.c", "sim/sched_sweep.c", "sim/policy_notices.c", "sim/stream.c", "sim/buffers.c", "src/base/rng.c", "src/base/mem.c",
         "src/base/pkt.c", "tests/sched/sweep_main.c")


def build(command):
    """"" or what the compiler said."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    return "" if done.returncode == 0 else done.stderr[-3000:] or "no compiler output"


def model(out, sched=DATAPLANE / "src", optimise="-O2"):
    """relacy's model.cpp over the files in sched/sched."""
    if not pathlib.Path("/usr/include/relacy/relacy.hpp").is_file():
        return "no <relacy/relacy.hpp>: install Debian's relacy-dev (make deps)"
    return build(["g++", "-std=gnu++14", optimise, "-w", f"-I{sched}", f"-I{DATAPLANE / 'src'}", f"-I{DATAPLANE / 'tests/sched/model'}", "-o", str(out),
                  str(DATAPLANE / "tests/sched/model/model.cpp")])


def sweep(out, sched=DATAPLANE / "src"):
    """The sweep with the scheduler of sched/sched."""
    return build(["gcc", "-std=gnu17", "-O1", "-w", "-D_GNU_SOURCE", "-march=x86-64-v2", f"-I{sched}", f"-I{DATAPLANE / 'src'}", f"-I{DATAPLANE / 'sim'}", "-o", str(out),
                  *map(str, sorted((pathlib.Path(sched) / "sched").glob("*.c"))), *(str(DATAPLANE / f) for f in SWEEP), "-lm"])
