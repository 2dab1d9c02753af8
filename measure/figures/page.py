#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""docs/lab/figures.md from docs/lab/figures/results.json and expected.yaml.

  page.py           writes it
  page.py --check   exits 1 when the page is not what these two make
"""
import json
import pathlib
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "hack/verify")]
import admission  # noqa: E402
import checks  # noqa: E402
import pages  # noqa: E402

PAGE, PICTURES = ROOT / pages.PATHS["figures"], ROOT / pages.PATHS["pictures"]
RESULTS = PICTURES / "results.json"

HEAD = """# The published figures, ours beside them

`make figures` runs every series of [expected.yaml](../../measure/figures/expected.yaml) in the simulator, judges the checks there, draws the
plots and writes this page; nothing on it is typed in. `make figures-quick` does the same with fewer points and wider bounds in
`make test-all` and plants mistakes that the checks must find. `make figures` also shows the tables of [hedged requests](hedging.md) and of
[Lancet's coverage](lancet.md#do-the-intervals-hold-the-truth).

```sh nightly
make figures          # build/figures: CSV and JSON of every series, PNG and SVG; this page
make figures-quick    # the stage of make test-all
measure/figures/figures --only=fig7 --measurements=fig7.json
```

Last made on {date} by `{command}` in {seconds} s ({machine}).{since} Times are virtual: the same seed gives the same digits on any machine.
{requests:,} requests a point, {seeds} seed; {wire:,} through wire bytes; the SLO search {slo_requests:,} requests and {slo_seeds} seeds.
"""

METHOD = """## What is modelled

The shipped policies and load index route every request (`bobtail-sim policy`, [simulator.md](../concepts/simulator.md)); P4 curves run a software
model of the switch pipeline (rules R-129 to R-133, R-135); figure 8 runs the whole protocol, packet by packet. Arrivals are Poisson, links
have constant delays and no bandwidth, workers serve in order of arrival and cost nothing besides the service time. So the curves are what
the *policy* can reach; the published ones contain NICs, caches, interrupts and drivers. The paper prints plots, few numbers: a check
holds what its text says, and where it gives a number, the number.

The capacity under an SLO and admission control beyond it run the shipped loop, its controllers and a random choice (`bobtail-sim admission`);
latency there is the router's, from a request's arrival to its FEEDBACK, as the loop sees it.

NGINX, the baseline of the published figures 4 and 6, is not modelled; its cost beside ours is measured on sockets ([performance.md](performance.md)).

| input | value | from | used as |
|---|---|---|---|
{inputs}

A number of ours that is more than {beyond} from the published one, or another n, is explained in the last column: this page is
not made when one is not.

p99 is the client's, delays included, while the single queue (M/G/k) it is compared with has none. Intervals are 95 %.
"""


def verdict(ok):
    return "yes" if ok else "**no**"


def picture(figure):
    return f"![{figure['title']}](figures/{figure['id']}.svg)"


def subject(c):
    """What a check compares, in words."""
    what = {"order": f"{c.get('less')} ≤ {c.get('more')}", "ratio": f"{c.get('a')} / {c.get('b')}", "crossing": f"load of {c.get('a')} / {c.get('b')} at {c.get('limit')} µs",
            "difference": f"{c.get('a')} − {c.get('b')}", "best": f"{c.get('series')}, best n"}.get(c["what"], c.get("series", ""))
    metric = f", {c['metric']}" if c.get("metric", "p99") != "p99" else ""
    where = c.get("at", "")
    where = f" at {', '.join(format(x, 'g') for x in (where if isinstance(where, list) else [where]))}" if where != "" else ""
    span = f" for {c['from']} to {c['to']}" if "from" in c else ""
    return f"{c['panel']}: {what}{metric}{where}{span}"


def table(judged):
    published = [j for j in judged if "published" in j["check"]]
    lines = ["| published | compared | ours | must be | holds | difference |", "|---|---|---|---|---|---|"] if published else []
    for j in published:
        c = j["check"]
        lines.append(f"| {c['published']} | {subject(c)} | {j['got']} | {j['want']} | {verdict(j['ok'])} | {c.get('note', '')} |")
    others = [j for j in judged if "published" not in j["check"]]
    if others:
        lines += ["", "Checked besides:", ""] if published else []
        lines += ["| rule | compared | ours | must be | holds |", "|---|---|---|---|---|"]
        lines += [f"| {j['check'].get('rule', '')} | {subject(j['check'])} | {j['got']} | {j['want']} | {verdict(j['ok'])} |" for j in others]
    return lines


SLO_TEXT = """Reported is the smaller of software and switch, each with its best n: **{fixed:.3f}** for fixed, **{exponential:.3f}** for
exponential and **{bimodal:.3f}** for bimodal service, of {central_fixed:.3f}, {central_exponential:.3f} and {central_bimodal:.3f}: what M/G/64 itself
carries within 150 µs. The share is found seed by seed by bisection to 0.0005 of load, on the same arrivals and service times for all rows; ± is the
95 % interval of their mean. The rest to 1 is the path (16 to 20 µs of the 150), requests that wait behind one another in a worker's queue, and for n
too small the idle time of the loop."""


def unexplained(spec, points):
    """Rows that differ from what was published without saying why."""
    return [f"{figure['id']}, {subject(c)}: published {c['published']}, ours {', '.join(map(checks.number, got))}: needs a note (expected.yaml)"
            for figure in spec["figures"] for c, got in checks.Judge(figure, points).unexplained(spec["explainBeyond"])]


def write(results, spec):
    points = {tuple(k.split("|")): v for k, v in results["points"].items()}
    bad = unexplained(spec, points)
    if bad:
        raise SystemExit("page: " + "\npage: ".join(bad))
    about = results["about"]
    inputs = "\n".join(f"| {i['name']} | {i['value'].format(**about)} | {i['from']} | {i['used']} |" for i in spec["inputs"])
    size = spec["full"]
    since = "".join(f" {', '.join(s['only'])}: by themselves on {s['date']}." for s in about.get("since", []))
    out = [HEAD.format(**{**about, "since": since}, requests=size["requests"], seeds=size["seeds"], wire=size["wire"], slo_requests=size["slo"]["requests"],
                       slo_seeds=size["slo"]["seeds"]), METHOD.format(inputs=inputs, beyond=f"{100 * spec['explainBeyond']:g} %")]
    for figure in spec["figures"]:
        judged = checks.Judge(figure, points).all()
        out += [f"## {figure['title']}", "", f"{figure['spec']}.", "", picture(figure), ""]
        if figure["id"] == "slo":
            out += [slo_text(points), "", *slo_table(figure, points), ""]
        out += admission.tables(figure, points)
        out += [*table(judged), ""]
    out += ["## Planted mistakes", "", "Each is made on purpose in `make figures-quick`; at least one check of its figure must fail.", "",
            "| mistake | figure | series |", "|---|---|---|"]
    out += [f"| {p['name']} | {p['figure']} | {p['panel']}/{p['series']} |" for p in spec["planted"]]
    return "\n".join(out) + "\n"


def slo_text(points):
    values = {}
    for panel in ("fixed", "exponential", "bimodal"):
        values[panel] = min(checks.best_share(points, panel, s)[0] for s in ("sw", "p4"))
        first = points[("slo", panel, "sw")][0]
        values["central_" + panel] = first["slo_load"] / first["share"]
    return SLO_TEXT.format(**values)


def slo_table(figure, points):
    depths = [p["x"] for p in points[("slo", "fixed", "sw")]]
    lines = ["| share of M/G/64 | " + " | ".join(f"n = {n}" for n in depths) + " |", "|---|" + "---|" * len(depths)]
    for panel in figure["panels"]:
        for series in figure["series"]:
            rows = points[("slo", panel["name"], series["name"])]
            lines.append(f"| {panel['name']}, {series['label']} | " + " | ".join(f"{p['share']:.3f} ± {p['share_error']:.3f}" for p in rows) + " |")
    return lines


def load():
    return json.loads(RESULTS.read_text()), yaml.safe_load((HERE / "expected.yaml").read_text())


def main(argv):
    text = write(*load())
    if argv == ["--check"]:
        if PAGE.read_text() != text:
            print("docs/lab/figures.md is not what docs/lab/figures/results.json and measure/figures/expected.yaml make: run measure/figures/page.py, "
                  "or make figures when a series changed", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
