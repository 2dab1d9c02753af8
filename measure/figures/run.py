# SPDX-License-Identifier: Apache-2.0
"""Runs the series of expected.yaml: one call of bobtail-sim policy each, or one of bobtail-sim run per point, or
bobtail-sim admission (admission.py)."""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import tempfile

import admission

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEEP = {"p99_us": "p99", "p50_us": "p50", "mean_us": "mean", "p99_error_us": "error", "achieved_rps": "achieved",
        "throughput": "throughput", "dropped": "dropped", "share_of_central": "share", "share_error": "share_error",
        "slo_load": "slo_load"}
PATHS = {"software": {"clientToRouterMicroseconds": 5, "routerToServerMicroseconds": 7.5, "serverToRouterMicroseconds": 7.5,
                      "serverToClientMicroseconds": 7.5, "clientToServerMicroseconds": 7.5},
         "switch": {"clientToRouterMicroseconds": 6, "routerToServerMicroseconds": 2.5, "serverToRouterMicroseconds": 2.5,
                    "serverToClientMicroseconds": 7.5, "clientToServerMicroseconds": 7.5}}

Task = collections.namedtuple("Task", "figure panel series")


class Runner:
    """Knows the program, the size of the runs and how many processes may run at once."""

    def __init__(self, spec, binary, quick, jobs, per_pass):
        self.spec, self.binary, self.jobs, self.per_pass = spec, str(binary), jobs, per_pass
        self.mode = "quick" if quick else "full"
        self.size = spec[self.mode]
        self.admission = admission.Admission(self.call, self.size["admission"])

    def tasks(self, only=None):
        return [Task(figure, panel, series) for figure in self.spec["figures"] if not only or figure["id"] in only
                for panel in figure["panels"] for series in panel_series(figure, panel)]

    def all(self, tasks):
        """{(figure id, panel name, series name): points}; the dearest tasks first."""
        order = sorted(tasks, key=lambda t: (t.figure.get("slo") is None, "wire" not in t.series))
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            done = pool.map(self.one, order)
            return {(t.figure["id"], t.panel["name"], t.series["name"]): points for t, points in zip(order, done)}

    def one(self, task):
        if "admission" in task.series:
            return self.admission.points(*task)
        return self.packets(task) if "wire" in task.series else self.policies(task)

    def loads(self, figure):
        return figure["loads"][self.mode]

    def policies(self, task):
        figure, panel, series = task
        options = {**figure.get("options", {}), **panel.get("options", {}), **series.get("options", {})}
        policy = series["policy"]
        if self.mode == "quick":
            policy = figure.get("quickPolicies", {}).get(policy, policy)
        if policy.startswith("Switch"):  # workers that one pass compares
            options = {"group": self.per_pass, **options}
        size = self.size
        if "slo" in figure:
            size, options = self.size["slo"], {**options, "slo": figure["slo"]}
        by_n = panel.get("points", figure.get("points")) == "n"
        if not by_n:
            options = {**options, "load": ",".join(map(repr, self.loads(figure)))}
        requests = self.size["wire"] if series.get("likeWire") else size["requests"]  # a quantile of equally many
        options = {"path": "ideal", **options, "requests": requests, "seeds": size["seeds"], "policy": policy}
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            self.call(["policy", *(f"--{k}={v}" for k, v in options.items()), "--jobs=1", f"--json={out.name}"])
            rows = json.loads(pathlib.Path(out.name).read_text())["rows"]
        return [{"x": int(re.search(r"\((\d+)\)", r["policy"]).group(1)) if by_n else r["load"], **kept(r)} for r in rows]

    def packets(self, task):
        """The same question through wire bytes, at switch delays unless told otherwise: a scenario file for each load."""
        figure, _, series = task
        wire, points = series["wire"], []
        for load in self.loads(figure):
            o = figure["options"]
            workers = {"count": o["workers"], "queueDepth": wire.get("queueDepth", 3), "distribution": o["distribution"], "meanMicroseconds": o["mean"]}
            clients = {"count": 16, "load": load, "direct": wire.get("direct", 0), "longRequests": wire.get("longRequests", 0), "longBytes": 1465}
            scenario = {"name": "figure", "seed": 1, "requests": self.size["wire"], "tagged": False, "settleMilliseconds": 0, "workers": workers,
                        "routers": {"policy": "JBSQ"}, "clients": clients, "network": PATHS[wire.get("path", "switch")]}
            with tempfile.TemporaryDirectory() as folder:
                file, out = pathlib.Path(folder) / "scenario.yaml", pathlib.Path(folder) / "out.json"
                file.write_text(json.dumps(scenario))  # JSON is YAML
                self.call(["run", str(file), f"--json={out}"])
                r = json.loads(out.read_text())
            ns = r["latencyNanoseconds"]
            points.append({"x": load, "p99": ns["p99"] / 1e3, "p50": ns["p50"] / 1e3, "mean": ns["mean"] / 1e3,
                           "throughput": r["throughput"], "achieved": r["throughput"] * o["workers"] / o["mean"] * 1e6,
                           "dropped": r["outcomes"]["dropped"]})
        return points

    def call(self, arguments):
        done = subprocess.run([self.binary, *arguments], cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"figures: {self.binary} {' '.join(arguments)} exited {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")


def kept(row):
    return {name: row[key] for key, name in KEEP.items() if key in row}


def panel_series(figure, panel):
    """A panel with points of its own has its series alone; else it adds to the figure's."""
    return panel.get("series", []) if "points" in panel else figure.get("series", []) + panel.get("series", [])


def processors():
    return len(os.sched_getaffinity(0))
