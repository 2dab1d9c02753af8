# SPDX-License-Identifier: Apache-2.0
"""Instruction counts: each room has a script that runs its programs under callgrind and says what it counted.

A script takes --measurements=FILE and writes rows {name, value} there, with a note where callgrind alone says too little
or is wrong of it; its own table goes to the log.
"""
import json
import tempfile

import machine

SCRIPTS = ("dataplane/bench/instructions.py", "measure/sim/wire-bench", "measure/sim/policy-bench")
MOST_SECONDS = 1800


def run_script(ctx, script):
    path = machine.ROOT / script
    if not path.exists():
        ctx.say(f"  {script}: not in this tree; its figures are missing")
        return []
    with tempfile.NamedTemporaryFile(suffix=".json") as out, machine.Processes(ctx.logs / "instructions") as procs:
        said = procs.run(path.name, [path, f"--measurements={out.name}"], MOST_SECONDS)
        ctx.say("  " + said.strip().replace("\n", "\n  "))
        return [{"note": "callgrind", **row} for row in json.load(open(out.name))]


def run(ctx):
    return [row for script in SCRIPTS for row in run_script(ctx, script)]
