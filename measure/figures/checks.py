# SPDX-License-Identifier: Apache-2.0
"""Judges points against the checks of expected.yaml. Everything here is arithmetic on what was measured."""
import math

LIMIT = "limit150"  # a series that stands for the SLO itself


class Missing(Exception):
    """A check names a series or a point that was not run."""


class Judge:
    def __init__(self, figure, points, quick_factor=1.0):
        self.figure, self.points, self.factor = figure, points, quick_factor
        self.quick = quick_factor > 1

    def all(self):
        other = "full" if self.quick else "quick"
        return [self.one(check) for check in self.figure["checks"] if not check.get(other)]

    def one(self, check):
        try:
            ok, got, want = getattr(self, "check_" + check["what"])(check)
        except Missing as why:
            ok, got, want = False, f"not measured: {why}", ""
        return {"check": check, "ok": bool(ok), "got": got, "want": want}

    def numbers(self, c):
        """What a check measured, in the unit of its publishedNumber."""
        if c["what"] == "value":
            return [self.at(c, c["series"], c["at"])]
        if c["what"] == "difference":
            return [self.at(c, c["a"], x) - self.at(c, c["b"], x) for x in c["at"]]
        if c["what"] == "ratio":
            return [(self.at(c, c["a"], x) - c.get("minus", 0)) / self.at(c, c["b"], x) for x in c["at"]]
        if c["what"] == "crossing":
            return [self.crossing(c, c["a"]) / self.crossing(c, c["b"])]
        if c["what"] == "best":
            return [max(self.series(c, c["series"]), key=lambda p: p["share"])["x"]]
        v = self.along(c, least=1)  # flat: how far it moves; within: its ends
        return [max(v) / min(v)] if c["what"] == "flat" else [min(v), max(v)]

    def unexplained(self, beyond):
        """Checks without a note whose number is more than `beyond` (relative) from the published one; another n always is."""
        bad = []
        for c in self.figure["checks"]:
            if "publishedNumber" not in c or "note" in c:
                continue
            room = 0 if c["what"] == "best" else beyond * abs(c["publishedNumber"])
            got = self.numbers(c)
            if any(abs(x - c["publishedNumber"]) > room for x in got):
                bad.append((c, got))
        return bad

    def series(self, check, name):
        key = (self.figure["id"], check["panel"], name)
        if key not in self.points:
            raise Missing("/".join(key))
        return self.points[key]

    def at(self, check, name, x):
        """The metric of a series at x, in the units of the figure's axis for its own metric."""
        metric = check.get("metric", self.figure["axes"]["metric"])
        if name == LIMIT:
            return 150.0
        for point in self.series(check, name):
            if abs(point["x"] - x) < 1e-9 and point.get(metric) is not None:
                return point[metric] * (self.figure["axes"].get("scale", 1) if metric == "p99" else 1)
        raise Missing(f"{name} at {x}")

    def widen(self, low, high):
        room = (high - low) * 0.25 * (self.factor - 1)
        return low - room, high + room

    def check_value(self, c):
        got, tolerance = self.at(c, c["series"], c["at"]), c["tolerance"] * self.factor
        return abs(got - c["want"]) <= tolerance * abs(c["want"]), number(got), f"{number(c['want'])} ± {100 * tolerance:g} %"

    def check_order(self, c):
        slack = c.get("slack", 0) + 0.02 * (self.factor - 1)
        pairs = [(self.at(c, c["less"], x), self.at(c, c["more"], x)) for x in c["at"] if not self.skipped(c["less"], x, c)]
        if not pairs:
            raise Missing(f"{c['less']} at any of {c['at']}")
        return all(a <= b * (1 + slack) for a, b in pairs), ", ".join(f"{number(a)} / {number(b)}" for a, b in pairs), f"{c['less']} ≤ {c['more']}"

    def skipped(self, name, x, c):
        """In quick runs a point that only the full one has."""
        return self.quick and name != LIMIT and not any(abs(p["x"] - x) < 1e-9 for p in self.series(c, name))

    def check_difference(self, c):
        got = self.numbers(c)
        low, high = self.widen(c["low"], c["high"])
        return all(low <= g <= high for g in got), ", ".join(f"{g:+.1f} µs" for g in got), f"{low:g} to {high:g} µs"

    def check_ratio(self, c):
        got = self.numbers(c)
        low, high = self.widen(c["low"], c["high"])
        return all(low <= g <= high for g in got), ", ".join(f"{g:.2f} ×" for g in got), f"{low:.3g} to {high:.3g} ×"

    def along(self, c, least=2):
        points = [p for p in self.series(c, c["series"]) if c.get("from", -math.inf) <= p["x"] <= c.get("to", math.inf)]
        if len(points) < least:
            raise Missing(f"{c['series']} from {c.get('from')} to {c.get('to')}")
        return [p[c["metric"]] for p in points]

    def check_rises(self, c):
        v, slack = self.along(c), c["slack"] * self.factor
        return all(b >= a * (1 - slack) for a, b in zip(v, v[1:])), " ".join(map(number, v)), "does not fall"

    def check_flat(self, c):
        v, tolerance = self.along(c), c["tolerance"] * self.factor
        return max(v) - min(v) <= tolerance * max(v), " ".join(map(number, v)), f"within {100 * tolerance:g} %"

    def check_within(self, c):
        v, room = self.along(c, least=1), 1 + 0.1 * (self.factor - 1)
        low, high = c.get("low", -math.inf) / room, c.get("high", math.inf) * room
        want = " and ".join(f"{sign} {number(c[end])}" for sign, end in (("≥", "low"), ("≤", "high")) if end in c)
        return all(low <= x <= high for x in v), f"{number(min(v))} to {number(max(v))}" if len(v) > 1 else number(v[0]), want

    def check_best(self, c):
        rows = [p for p in self.series(c, c["series"]) if not self.quick or p["x"] == c["quickAt"]]
        if not rows:
            raise Missing(f"{c['series']} at n = {c['quickAt']}")
        best = max(rows, key=lambda p: p["share"])
        got = share_at(best) + "".join(f"; {share_at(p)}" for p in rows if p["x"] == c.get("publishedNumber") != best["x"])
        return best["share"] >= c["low"], got, f"≥ {c['low']}"

    def crossing(self, c, name):
        """Highest x within the limit, between two points by the logarithm of the metric."""
        metric, last = self.figure["axes"]["metric"], None
        for p in self.series(c, name):
            if p[metric] > c["limit"]:
                if last is None:
                    return p["x"]
                share = math.log(c["limit"] / last[metric]) / math.log(p[metric] / last[metric])
                return last["x"] + share * (p["x"] - last["x"])
            last = p
        return last["x"]

    def check_crossing(self, c):
        [got] = self.numbers(c)
        low, high = self.widen(c["low"], c["high"])
        return low <= got <= high, f"{got:.2f} ×", f"{low:.3g} to {high:.3g} ×"


def number(v):
    """Three or four digits that matter, thousands for rates."""
    if abs(v) >= 1e5:
        return f"{v / 1e6:.2f} M"
    return f"{v:.1f}" if abs(v) >= 100 else f"{v:.3g}"


def share_at(point):
    return f"{point['share']:.3f} ± {point['share_error']:.3f} (n = {point['x']})"


def best_share(points, panel, series):
    """(share, half of its interval, n) of the best n of the SLO figure."""
    best = max(points[("slo", panel, series)], key=lambda p: p["share"])
    return best["share"], best["share_error"], best["x"]
