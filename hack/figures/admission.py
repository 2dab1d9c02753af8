# SPDX-License-Identifier: Apache-2.0
"""Admission control (SVEN) in the figures: what `bobtail-sim admission` says, as points of the series of expected.yaml.

A series names its kind of points with `admission`:
  capacity  x: seed; capacity, the highest load [requests/s] whose percentile meets the objective without admission control
  beyond    x: seed; the steps above that capacity, merged: p_over_slo, goodput_share (÷ capacity), refused, oscillation
  time      x: time in steps of the load; p99 [µs], answered [requests/s] and refused share of each window, first seed
  classes   x: class; its refused share in the steps above capacity, first seed
"""
import concurrent.futures
import json
import pathlib
import tempfile
import threading

LOADS = (1.0e6, 1.6e6)  # 16 workers of 10 µs: nothing above 1.6 M requests/s is carried for long
HALVINGS = 8            # to 0.0023 M requests/s
SERVICES = ("fixed", "exponential", "bimodal")
BEYOND = ("sven", "svenjbsq")  # the figures of what lies above capacity: behind a random choice, and behind JBSQ


class Admission:
    """Turns series into points; `call` runs bobtail-sim with arguments, `size` is the mode's part of expected.yaml."""

    def __init__(self, call, size):
        self.call, self.size = call, size
        self.lock, self.runs = threading.Lock(), {}

    def points(self, figure, panel, series):
        options = {**figure["options"], **panel.get("options", {}), **series.get("options", {})}
        return getattr(self, series["admission"])(options)

    def capacity(self, options):
        return [{"x": seed, "capacity": self.carried(options, seed)} for seed in self.size["seeds"]]

    def beyond(self, options):
        return [{"x": seed, **self.merged(options, seed)} for seed in self.size["seeds"]]

    def merged(self, options, seed):
        carried, r = self.carried(options, seed), self.stepped(options, seed)
        return {"p_over_slo": r["all"]["p_over_slo"], "goodput_share": r["all"]["good_rps"] / carried,
                "refused": r["all"]["refused_share"], "oscillation": r["oscillation_share"]}

    def time(self, options):
        rows, step = self.stepped(options, self.size["seeds"][0])["series"], options.get("seconds", self.size["seconds"])
        return [{"x": round(r["at"] / step, 6), "p99": r["p_us"], "answered": r["answered_rps"], "refused": r["refused_share"]} for r in rows]

    def classes(self, options):
        shares = self.stepped(options, self.size["seeds"][0])["all"]["refused_by_class"]
        return [{"x": c, "refused": share} for c, share in enumerate(shares)]

    def stepped(self, options, seed):
        """The load step of the options; whatever they say of times goes before the mode's."""
        times = {k: self.size[k] for k in ("seconds", "settle", "window")}
        return self.run({**times, **options, "above": self.carried(options, seed), "seed": seed})

    def carried(self, options, seed):
        """Highest load within the objective without admission control, by halving on the same random numbers."""
        low, high = LOADS
        seconds = self.size["searchSeconds"]
        alone = {k: v for k, v in options.items() if k not in ("rates", "mix")}
        for _ in range(HALVINGS):
            load = (low + high) / 2
            r = self.run({**alone, "controller": "Off", "rates": load, "seconds": seconds, "settle": seconds / 10, "window": seconds / 10, "seed": seed})
            low, high = (load, high) if r["all"]["p_over_slo"] <= 1 else (low, load)
        return low

    def run(self, options):
        """One run; series that ask for the same one share it."""
        arguments = tuple(f"--{k}={v}" for k, v in sorted(options.items()))
        with self.lock:
            mine = arguments not in self.runs
            future = self.runs.setdefault(arguments, concurrent.futures.Future())
        if mine:
            try:
                future.set_result(self.answer(arguments))
            except BaseException as why:  # whoever waits for it must hear of it, SystemExit too
                future.set_exception(why)
        return future.result()

    def answer(self, arguments):
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            self.call(["admission", *arguments, f"--json={out.name}"])
            return json.loads(pathlib.Path(out.name).read_text())


def worst(points, figures, service, series):
    """{metric: value of the worst seed and figure}; percentiles of different runs are never averaged."""
    rows = [p for figure in figures for p in points[(figure, service, series)]]
    return {metric: pick(p[metric] for p in rows) for metric, pick in
            (("p_over_slo", max), ("goodput_share", min), ("oscillation", max), ("refused", max))}


def measurements(points):
    """Figures of the report: the default controller's are the worst of both policies, so that neither hides the other;
    the published loop's are those of the published model. Nothing when a figure was not run."""
    if any((figure, "fixed", "track") not in points for figure in BEYOND):
        return []
    rows = []
    for series, prefix, figures in (("track", "sven", BEYOND), ("aiad", "sven_aiad", BEYOND[:1])):
        by_service = {s: worst(points, figures, s, series) for s in SERVICES}
        for s, w in by_service.items():
            rows += [(f"{prefix}_p99_over_slo_{s}", w["p_over_slo"]), (f"{prefix}_goodput_share_{s}", w["goodput_share"])]
        rows.append((f"{prefix}_oscillation_share", max(w["oscillation"] for w in by_service.values())))
    return [{"name": name, "value": round(value, 4), "unit": "ratio"} for name, value in rows]


def tables(figure, points):
    """Lines of the page: what a figure's points say, in numbers."""
    if figure["id"] in BEYOND:
        return controllers(figure["id"], points)
    return along_x(figure, points) if figure.get("table") else []


def controllers(name, points):
    seeds = ", ".join(str(p["x"]) for p in points[(name, "fixed", "track")])
    lines = [f"Steps above the capacity under the objective, merged; the worst of the seeds {seeds} (the constants were tuned on seed 1). Oscillation is the",
             "largest distance of a window's p99 from the mean of its step's windows; a window is 1 s, as published: 50 decisions of AIAD.", "",
             "| service | controller | p99 ÷ SLO | answered in time ÷ capacity | oscillation ÷ SLO | refused |", "|---|---|---|---|---|---|"]
    for service in SERVICES:
        for series, controller in (("track", "Track"), ("aiad", "AIAD, as published")):
            w = worst(points, [name], service, series)
            lines.append(f"| {service} | {controller} | {w['p_over_slo']:.3f} | {w['goodput_share']:.3f} | {w['oscillation']:.3f} | {w['refused']:.3f} |")
    return lines + [""]


def along_x(figure, points):
    """A row a series, a column a point."""
    panel, show = figure["panels"][0], figure["table"]
    rows = {s["label"]: points[(figure["id"], panel["name"], s["name"])] for s in figure["series"]}
    columns = [p["x"] for p in next(iter(rows.values())) if p["x"] in show.get("at", [p["x"]])]
    lines = [f"| {show['head']} | " + " | ".join(format(x, "g") for x in columns) + " |", "|---|" + "---|" * len(columns)]
    for label, row in rows.items():
        lines.append(f"| {label} | " + " | ".join(f"{p[show['metric']]:.3f}" for p in row if p["x"] in columns) + " |")
    return lines + [""]
