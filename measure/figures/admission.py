# SPDX-License-Identifier: Apache-2.0
"""Admission control (SVEN) in the figures: what `bobtail-sim admission` says, as points of the series of expected.yaml.

A series names its kind of points with `admission`:
  capacity  x: seed; capacity, the highest load [requests/s] whose percentile meets the objective without admission control
  beyond    x: seed; the steps above that capacity, merged: p_over_slo, goodput_share (÷ capacity), refused, oscillation
  steady    x: seed of size.steady; of the steps of the options, all above capacity: p_over_slo, refused, oscillation,
            windows after settling, and of these, those farther than SWING from the mean of their step
  time      x: time in steps of the load; p99 [µs], answered [requests/s] and refused share of each window, first seed
  classes   x: class; its refused share in the steps above capacity, first seed
"""
import concurrent.futures
import itertools
import json
import pathlib
import statistics
import tempfile
import threading

LOADS = (1.0e6, 1.6e6)  # 16 workers of 10 µs: nothing above 1.6 M requests/s is carried for long
HALVINGS = 8            # to 0.0023 M requests/s
SERVICES = ("fixed", "exponential", "bimodal")
SWING = 0.1             # of the objective: farther than that is an oscillation
STEADY, POLICIES = "svenseeds", {"jbsq": "JBSQ(3)", "random": "random choice"}
T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}  # Student's, by samples
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

    def steady(self, options):
        size = self.size["steady"]
        times = {k: size[k] for k in ("seconds", "settle", "window")}
        return [{"x": seed, **swings(self.run({**times, **options, "seed": seed}), options["slo"], times)} for seed in size["seeds"]]

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


def swings(result, slo, times):
    """What a run above capacity says of how far it swings."""
    steps = {}
    for w in result["series"]:
        step, into = divmod(w["at"] + 1e-9, times["seconds"])
        if into >= times["settle"]:
            steps.setdefault(step, []).append(w["p_us"] / slo)
    off = [abs(p - statistics.mean(row)) for row in steps.values() for p in row]
    return {"p_over_slo": result["all"]["p_over_slo"], "refused": result["all"]["refused_share"],
            "oscillation": result["oscillation_share"], "windows": len(off), "beyond": sum(d > SWING for d in off)}


def mean_of_seeds(rows):
    """(mean, half of its 95 % interval) of the oscillation."""
    v = [p["oscillation"] for p in rows]
    return statistics.mean(v), T_95[len(v)] * statistics.stdev(v) / len(v) ** 0.5 if len(v) > 1 else 0.0


def share_at_most(n, of, z=1.96):
    """Upper end of the 95 % interval of a share (Wilson)."""
    share = n / of
    return (share + z * z / (2 * of) + z * (share * (1 - share) / of + z * z / (4 * of * of)) ** 0.5) / (1 + z * z / of)


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
    return as_measurements(rows + of_seeds(points, dict(rows)["sven_oscillation_share"]))


def of_seeds(points, worst_of_three):
    """The same figure over more seeds, where a single window cannot decide; nothing when they were not run."""
    curves = [points.get((STEADY, policy, s)) for policy in POLICIES for s in SERVICES]
    if None in curves:
        return []
    every = [p for rows in curves for p in rows]
    high = max(sum(mean_of_seeds(rows)) for rows in curves)
    return [("sven_oscillation_share", max(worst_of_three, *(p["oscillation"] for p in every))), ("sven_oscillation_mean_high", high),
            ("sven_oscillation_windows_high", share_at_most(sum(p["beyond"] for p in every), sum(p["windows"] for p in every)))]


def as_measurements(rows):
    return [{"name": name, "value": round(value, 4), "unit": "ratio"} for name, value in dict(rows).items()]


def tables(figure, points):
    """Lines of the page: what a figure's points say, in numbers."""
    if figure["id"] in BEYOND:
        return controllers(figure["id"], points)
    if figure["id"] == STEADY:
        return seeds_table(points)
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


def seeds_table(points):
    lines = ["Oscillation of a run is the largest distance of a window's p99 from the mean of its step's windows, over the objective; a window is 1 s. It is",
             "the extreme of 36 windows, so it grows with the number of runs: beside the worst stand its mean over the seeds with the 95 % interval (Student's t)",
             f"and the windows farther than {100 * SWING:g} % of the objective from the mean of their step.", "",
             "| behind | service | oscillation ÷ SLO, mean of the seeds | worst seed | all seeds | windows beyond ± 10 % |", "|---|---|---|---|---|---|"]
    for policy, service in itertools.product(POLICIES, SERVICES):
        rows = points[(STEADY, policy, service)]
        mean, half = mean_of_seeds(rows)
        each = sorted(p["oscillation"] for p in rows)
        lines.append(f"| {POLICIES[policy]} | {service} | {mean:.3f} ± {half:.3f} | {each[-1]:.3f} | {' '.join(f'{v:.3f}' for v in each)} | {sum(p['beyond'] for p in rows)} of {sum(p['windows'] for p in rows)} |")
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
