#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program lancet against Debian's Redis and NGINX, with the definitions of examples/lancet.

  real.py [redis] [nginx] [--out=FOLDER]

Prints what lancet prints. A crowded machine does not send at the times it should, and lancet then says so: status 3 and a
reason count as an answer, no answer or failed requests do not.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import servers  # noqa: E402

RUNS = {"redis": ("redis.yaml", "csv"), "nginx": ("http-sweep.yaml", "svg")}
INCONCLUSIVE = 3


def run(name, target, out):
    """Sentences about what is wrong."""
    definition, extra = RUNS[name]
    made = out / f"{name}.{extra}"
    command = [servers.ROOT / "build/bin/lancet", servers.ROOT / "examples/lancet" / definition, f"--target={target[0]}:{target[1]}",
               f"--json={out / name}.json", f"--{'plot' if extra == 'svg' else extra}={made}", "--quiet"]
    print(f"$ lancet examples/lancet/{definition} --target={target[0]}:{target[1]}", flush=True)
    code = subprocess.run(command).returncode
    if code not in (0, INCONCLUSIVE):
        return [f"{name}: lancet ended with status {code}"]
    document = json.loads((out / f"{name}.json").read_text())
    wrong = [f"{name}: {p['offeredRequestsPerSecond']:.0f}/s: requests failed: {p['failed']}" for p in document["points"] if p.get("failed")]
    if (code == 0) != all(p["conclusive"] for p in document["points"]):
        wrong.append(f"{name}: status {code} does not say what the document says")
    wrong += [f"{name}: inconclusive without a reason" for p in document["points"] if not p["conclusive"] and not p.get("reasons")]
    return wrong + ([] if made.stat().st_size else [f"{made} is empty"])


def main(argv):
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("servers", nargs="*", choices=[*RUNS, []], help="default: both")
    ap.add_argument("--out", metavar="FOLDER", help="keeps JSON, CSV and plot")
    args = ap.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bobtail-lancet-") as folder:
        work = pathlib.Path(folder)
        out = pathlib.Path(args.out) if args.out else work
        out.mkdir(parents=True, exist_ok=True)
        try:
            with servers.machine.Processes(servers.ROOT / "build" / "lancet-logs") as procs:
                address = servers.start_servers(procs, work)
                wrong = [w for name in args.servers or RUNS for w in run(name, address[name], out)]
        except (servers.machine.Failed, OSError) as err:
            wrong = [str(err)]
    for sentence in wrong:
        print(f"lancet: {sentence}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
