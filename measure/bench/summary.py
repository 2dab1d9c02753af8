#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The one table and the picture that docs/guides/performance.md begins with, made of the tables of docs/lab/performance.md.

  summary.py write   write both (make bench and make bench-crab do, when they write their tables)
  summary.py check   exit 1 where they are not what those tables make
"""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "hack/verify"))
import table  # noqa: E402
from pages import PATHS, ROOT  # noqa: E402

BEGIN, END = "<!-- summary: measure/bench/summary.py writes this -->", "<!-- /summary -->"

# (what is asked, figure, how its value is said)
ROWS = [
    ("What does the router add to a request, beside NGINX?", "proxy_cpu_share_keys_vs_nginx", "{:.2f} of its processor time"),
    ("And beside HAProxy?", "proxy_cpu_share_keys_vs_haproxy", "{:.2f} of its processor time"),
    ("And beside NGINX with `fastPath: Off`?", "proxy_cpu_share_sockets_vs_nginx", "{:.2f} of its processor time"),
    ("How many requests does one core route past the kernel?", "router_mrps_per_core_memif", "{:.1f} million a second"),
    ("How many echoes a second does one core make, beside gRPC-Go?", "echo_rps_ratio_vs_grpc_go", "{:.1f} times as many"),
    ("And beside plain UDP?", "echo_rps_ratio_vs_udp", "{:.1f} times as many"),
    ("The same with an endpoint's default timers?", "echo_rps_ratio_vs_udp_default_timers", "{:.2f} times as many"),
    ("What is left of a TCP connection's rate under CRAB?", "crab_rr_ratio_vs_direct", "{:.0%}"),
    ("From pod to pod?", "crab_rr_ratio_vs_direct_pods", "{:.0%}"),
    ("How does that rate compare with kube-proxy's (nftables)?", "crab_rr_ratio_vs_kubeproxy_nftables", "{:.1f} times as many requests"),
    ("What does CRAB add to a request, beside HAProxy?", "crab_cpu_share_vs_haproxy", "{:.0%} of its processor time"),
    ("How much longer does a new connection take under CRAB?", "crab_crr_added_us_vs_direct", "{:.0f} µs"),
    ("How many packets of a connection does CRAB's balancer see?", "crab_lb_packets_per_connection", "{:.0f}"),
]
# (what adds it, figure in microseconds)
BARS = [("router, fast path", "proxy_cpu_us_per_request_router_fast_path_keys"), ("router, fast path off", "proxy_cpu_us_per_request_router_sockets"),
        ("NGINX", "proxy_cpu_us_per_request_nginx"), ("HAProxy", "proxy_cpu_us_per_request_haproxy")]


def measured(page):
    """{figure: (value, goal, verdict)} of both tables of the lab's page."""
    found = {}
    for suite in ("bench", "bench-crab"):
        for line in table.parts(page, suite)[1].splitlines():
            if line.startswith("| `"):
                name, value, _, goal, verdict, _, _ = [c.strip() for c in line.replace("\\|", "").split("|")[1:-1]]
                number = value.partition(" ")[0]
                found[name.strip("`")] = None if number == "missing" else float(number), goal, verdict
    return found


def said(value, how):
    """A value in words; what cannot be told from nothing is no negative share."""
    return "not measured" if value is None else "nothing that can be measured" if value <= 0 else how.format(value)


def bound(goal):
    """A goal as the lab writes it, in words."""
    op, _, value = goal.partition(" ")
    return {"<=": "at most", ">=": "at least", ">": "above", "<": "below", "==": "exactly"}.get(op, op) + " " + value.replace("0.3333", "a third").replace("..", " and ")


def markdown(found):
    body = ["| question | answer | goal met? | figure |", "|---|---|---|---|"]
    for question, figure, how in ROWS:
        value, goal, verdict = found[figure]
        met = {"ok": "yes: " + bound(goal), "-": "none set"}.get(verdict, "**no**: " + bound(goal))
        body.append(f"| {question} | {said(value, how)} | {met} | `{figure}` |")
    return "\n".join(body)


def picture(found):
    """Bars of the microseconds of processor time that each adds to a request."""
    most = max(found[figure][0] or 0 for _, figure in BARS)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 220" width="720" height="220" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="14" role="img"'
           ' aria-label="Processor time added to a request, in microseconds">', "<!-- SPDX-License-Identifier: Apache-2.0; measure/bench/summary.py writes this -->",
           '<rect width="720" height="220" rx="8" fill="#fff"/>', '<text x="20" y="30" fill="#222" font-weight="bold">Processor time added to a request, µs (10,000 requests/s, two processors)</text>']
    for i, (name, figure) in enumerate(BARS):
        value, y = found[figure][0] or 0, 50 + 40 * i
        colour = "#00897b" if name.startswith("router") else "#9e9e9e"
        out += [f'<text x="190" y="{y + 20}" text-anchor="end" fill="#222">{name}</text>',
                f'<rect x="200" y="{y}" width="{430 * value / most:.0f}" height="28" rx="3" fill="{colour}"/>',
                f'<text x="{210 + 430 * value / most:.0f}" y="{y + 20}" fill="#222">{value:.1f}</text>']
    return "\n".join(out) + "\n</svg>\n"


def made(text, found):
    """The page with the table that belongs into it."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n" + markdown(found) + "\n" + END + rest.partition(END)[2]


def main(argv):
    if argv not in (["write"], ["check"]):
        print(__doc__, file=sys.stderr)
        return 2
    found = measured(ROOT / PATHS["performance"])
    page, plot = ROOT / PATHS["summary"], ROOT / PATHS["pictures"] / "cost.svg"
    wanted = {page: made(page.read_text(), found), plot: picture(found)}
    bad = [at for at, text in wanted.items() if not at.exists() or at.read_text() != text]
    if argv == ["write"]:
        for at in bad:
            at.write_text(wanted[at])
        return 0
    for at in bad:
        print(f"{at.relative_to(ROOT)}: is not what {PATHS['performance']} makes: run measure/bench/summary.py write", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
