#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program lancet against Debian's Redis and NGINX, with the definitions of examples/lancet.

  real.py [redis] [redis-patient] [nginx] [--out=FOLDER] [--measurements=FILE]

Prints what lancet prints. A crowded machine does not send at the times it should, and lancet then says so: status 3 and a
reason count as an answer, no answer or failed requests do not. So how many loads were conclusive is reported, and what is
judged is whether every load has an answer.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import servers  # noqa: E402

# run: server, definition, what is written beside the JSON
RUNS = {"redis": ("redis", "redis.yaml", "csv"), "redis-patient": ("redis", "redis-patient.yaml", "csv"), "nginx": ("nginx", "http-sweep.yaml", "svg")}
INCONCLUSIVE = 3


def judge(name, code, document):
    """Sentences about what is wrong with what lancet said."""
    points = document["points"]
    wrong = [f"{name}: {p['offeredRequestsPerSecond']:.0f}/s: requests failed: {p['failed']}" for p in points if p.get("failed")]
    if (code == 0) != all(p["conclusive"] for p in points):
        wrong.append(f"{name}: status {code} does not say what the document says")
    return wrong + [f"{name}: inconclusive without a reason" for p in points if not p["conclusive"] and not p.get("reasons")]


def run(name, target, out):
    """(the document, sentences about what is wrong)"""
    _, definition, extra = RUNS[name]
    made = out / f"{name}.{extra}"
    command = [servers.ROOT / "build/bin/lancet", servers.ROOT / "examples/lancet" / definition, f"--target={target[0]}:{target[1]}",
               f"--json={out / name}.json", f"--{'plot' if extra == 'svg' else extra}={made}", "--quiet"]
    print(f"$ lancet examples/lancet/{definition} --target={target[0]}:{target[1]}", flush=True)
    code = subprocess.run(command).returncode
    if code not in (0, INCONCLUSIVE):
        return {"points": []}, [f"{name}: lancet ended with status {code}"]
    document = json.loads((out / f"{name}.json").read_text())
    return document, judge(name, code, document) + ([] if made.stat().st_size else [f"{made} is empty"])


def figures(documents, wrong):
    """What make lancet-real reports of the documents by run."""
    points = [p for d in documents.values() for p in d["points"]]
    rows = [("lancet_real_loads", len(points), "count"), ("lancet_real_faults", len(wrong), "count"),
            ("lancet_real_failed_requests", sum(sum(p.get("failed", {}).values()) for p in points), "count"),
            ("lancet_real_loads_conclusive", sum(p["conclusive"] for p in points), "count")]
    shares = [p["achievedRequestsPerSecond"] / p["offeredRequestsPerSecond"] for p in points]
    if shares:
        rows.append(("lancet_real_achieved_share", round(max(shares, key=lambda s: abs(s - 1)), 4), "ratio"))
    for server in sorted({RUNS[name][0] for name in documents}):
        mine = [p for name, d in documents.items() if RUNS[name][0] == server for p in d["points"]]
        rows.append((f"lancet_real_loads_conclusive_{server}", sum(p["conclusive"] for p in mine), "count"))
    for name, d in documents.items():
        rows += [(f"lancet_real_p{q['percentile']:g}_us_{name.replace('-', '_')}", round(q["microseconds"], 1), "us") for p in d["points"][:1]
                 for q in p["percentiles"] if q["percentile"] in (50, 99) and q["microseconds"] is not None]
    return [{"name": name, "value": value, "unit": unit} for name, value, unit in rows]


def main(argv):
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("servers", nargs="*", choices=[*RUNS, []], help="runs; default: all")
    ap.add_argument("--out", metavar="FOLDER", help="keeps JSON, CSV and plot")
    ap.add_argument("--measurements", metavar="FILE", help="for measure/report/report.py")
    args = ap.parse_args(argv)
    documents, wrong = {}, []
    with tempfile.TemporaryDirectory(prefix="bobtail-lancet-") as folder:
        work = pathlib.Path(folder)
        out = pathlib.Path(args.out) if args.out else work
        out.mkdir(parents=True, exist_ok=True)
        try:
            with servers.machine.Processes(servers.ROOT / "build" / "lancet-logs") as procs:
                address = servers.start_servers(procs, work)
                for name in args.servers or RUNS:
                    documents[name], faults = run(name, address[RUNS[name][0]], out)
                    wrong += faults
        except (servers.machine.Failed, OSError) as err:
            wrong.append(str(err))
    if args.measurements:
        pathlib.Path(args.measurements).write_text(json.dumps(figures(documents, wrong), indent=1) + "\n")
    for sentence in wrong:
        print(f"lancet: {sentence}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
