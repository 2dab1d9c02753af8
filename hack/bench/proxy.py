# SPDX-License-Identifier: Apache-2.0
"""What a request costs to pass through the router, and through NGINX and HAProxy, on sockets.

Cost of a proxy = (non-idle processor time of the whole machine with it - without it) / requests, both at the same
open-loop rate. A round is nine runs, one after the other: R2P2 direct, R2P2 through the router on plain sockets, the same with
its program in the kernel, and that where the service has keys (a tag to make and one to check for each request), HTTP direct, HTTP through NGINX, HTTP through HAProxy, and the floor: bare UDP
direct, bare UDP through a forwarder that does nothing else (bench_hop.c). The services are equal in kind: one echo process, 64-byte bodies, loopback.

The judged share is that of the router with its program, which a service asks for by spec.router.fastPath; the share on plain
sockets, which is what runs by default, stands beside it under its own name. Where the program may not be loaded there is no judged
share, and that is a failure: the other one does not stand in for it.
"""
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import machine
import packages
import stats

RATE = 10000
SOCKETS = 4  # of the R2P2 generator, which has many requests in flight on each
CONNECTIONS = 64  # of the HTTP generator, which has one
WORKERS = 4
PORT = {"serve": 18100, "serve-fast": 18110, "direct": 18120, "router": 18000, "feedback": 19000, "fast": 18001, "feedback-fast": 19001, "http": 18200, "nginx": 18201, "haproxy": 18202}
NOISE = 0.10  # share of the machine that others may use in a run before it is repeated
PROXIES = machine.ROOT / "e2e" / "bench" / "proxies"
PACKAGES = ("nginx", "haproxy", "liblua5.3-0", "libopentracing1", "libopentracing-c-wrapper0")


def versions(root, env):
    nginx = subprocess.run([root / "usr/sbin/nginx", "-v"], capture_output=True, text=True, env={**os.environ, **env})
    haproxy = subprocess.run([root / "usr/sbin/haproxy", "-v"], capture_output=True, text=True, env={**os.environ, **env})
    return nginx.stderr.strip().split("/")[-1], haproxy.stdout.split()[2]


def router_document(path, fast="", keys=()):
    """The configuration a sidecar would hand over, for one echo server on loopback; fast: "-fast" for that of the fast path."""
    document = {
        "apiVersion": "dataplane.bobtail.dev/v1", "sources": [],
        "service": {"name": "echo", "namespace": "bench", "placement": "Software", "policy": "JBSQ",
                    "workerQueueDepth": 3, "centralQueueLimit": 4096, "maxQueueMilliseconds": 1000,
                    "requestTimeoutMilliseconds": 5000, "workersPerReplica": WORKERS, "forwarding": "Encapsulated",
                    "deviceProfile": "Kernel", "holdBack": {"packets": 0, "microseconds": 0}, "legacyPeers": "Deny" if keys else "Allow"},
        "members": [{"address": "127.0.0.1", "name": "s0", "firstPort": PORT["serve" + fast], "workers": WORKERS}],
        "routers": [{"address": "127.0.0.1", "name": "r0", "requestPort": PORT["fast" if fast else "router"], "feedbackPort": PORT["feedback" + fast]}],
        "keyIds": list(keys)}
    path.write_text(json.dumps(document))


def proxy_config(source, target, port):
    text = source.read_text()
    for name, value in (("LISTEN", port), ("SERVICE", PORT["http"]), ("DIR", target.parent)):
        text = text.replace(f"@{name}@", str(value))
    target.write_text(text)


def start_router(procs, work, fast="", cpus=None, keys=()):
    """A router and its echo service. The program of the fast path sees every packet of its device, so that router lives for its
    own runs only: the others shall not pay for it."""
    request, feedback = PORT["fast" if fast else "router"], PORT["feedback" + fast]
    document = work / f"router{fast}.json"
    router_document(document, fast, keys)
    folder = work / "keys"
    folder.mkdir(exist_ok=True)
    for key in keys:
        (folder / str(key)).write_text("000102030405060708090a0b0c0d0e0f\n")
    local = ["--address=127.0.0.1", "--ctl=", f"--key-dir={folder}"]
    procs.start("router" + fast, [machine.app("bobtail-router"), *local, f"--request-port={request}", f"--feedback-port={feedback}",
                                  f"--config={document}", "--fast-path=" + ("require" if fast else "off")], cpus=cpus)
    told = [f"--config={document}"] if keys else [f"--routers=127.0.0.1:{request}", f"--feedback-port={feedback}"]
    procs.start("serve" + fast, [machine.app("bobtail-serve"), *local, f"--port={PORT['serve' + fast]}", f"--workers={WORKERS}", *told], cpus=cpus)


def fast_path_possible(procs, work):
    """Whether this user may load the program: says why not otherwise."""
    start_router(procs, work, "-fast")
    time.sleep(0.5)
    running = procs.running["router-fast"].poll() is None
    procs.stop("serve-fast")
    procs.stop("router-fast")
    return running


def start_services(procs, work, root, env):
    """Everything but the generators; idle, they cost next to nothing, so they stay for all rounds."""
    proxy_config(PROXIES / "nginx.conf", work / "nginx.conf", PORT["nginx"])
    proxy_config(PROXIES / "haproxy.cfg", work / "haproxy.cfg", PORT["haproxy"])
    local = ["--address=127.0.0.1", "--ctl="]
    start_router(procs, work)
    procs.start("serve-direct", [machine.app("bobtail-serve"), *local, f"--port={PORT['direct']}", f"--workers={WORKERS}"])
    procs.start("http", [machine.bench("bench_http"), "serve", PORT["http"]])
    time.sleep(0.3)
    procs.start("nginx", [root / "usr/sbin/nginx", "-p", work, "-c", work / "nginx.conf"], env=env)
    procs.start("haproxy", [root / "usr/sbin/haproxy", "-f", work / "haproxy.cfg"], env=env)
    time.sleep(1.0)
    procs.check()


def targets(first):
    return ",".join(f"127.0.0.1:{first + i}" for i in range(WORKERS))


def generator(variant, rate, seconds):
    if variant in ("r2p2", "router", *FAST):
        target = targets(PORT["direct"]) if variant == "r2p2" else f"127.0.0.1:{PORT['fast' if variant in FAST else variant]}"
        return [machine.app("bobtail-load"), f"--target={target}", f"--rate={rate}", f"--duration={seconds}s", "--warmup=0",
                f"--connections={SOCKETS}", "--request-bytes=64", "--output=json", "--ctl="]
    if variant in ("udp", "hop"):
        return [machine.bench("bench_hop"), rate, seconds, *(("direct",) if variant == "udp" else ("epoll", "feedback"))]
    return [machine.bench("bench_http"), "load", PORT[variant], rate, CONNECTIONS, seconds]


PARTS = {"r2p2": ("serve-direct",), "router": ("router", "serve"), "fast": ("router-fast", "serve-fast"), "keyed": ("router-fast", "serve-fast"), "http": ("http",), "nginx": ("nginx", "http"),
         "haproxy": ("haproxy", "http"), "udp": (), "hop": ()}
CALLED = {"router": "router_sockets", "fast": "router_fast_path", "keyed": "router_fast_path_keys"}  # in the names of rows
FAST = {"fast": (), "keyed": (1,)}  # the variants with the program, and their keys
HOPS = (("router", "r2p2"), ("fast", "r2p2"), ("keyed", "r2p2"), ("nginx", "http"), ("haproxy", "http"), ("hop", "udp"))  # what is in between, and without it


def one_fast_run(procs, variant, work, rate, seconds, cpus):
    start_router(procs, work, "-fast", cpus, FAST[variant])
    time.sleep(0.7)  # every worker has joined by then
    try:
        return one_run(procs, variant, rate, seconds, cpus)
    finally:
        procs.stop("serve-fast")
        procs.stop("router-fast")


def children(pid):
    """Processes started by this one: the floor's service and forwarder."""
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def one_run(procs, variant, rate, seconds, cpus):
    """One generator run; processor seconds per request and what else it says."""
    settle, margin = 0.3, 0.3
    load = procs.start("load", generator(variant, rate, seconds + settle + margin), stdout=subprocess.PIPE, cpus=cpus)
    time.sleep(settle)
    window = machine.Window([load.pid, *children(load.pid), *(procs.running[p].pid for p in PARTS[variant])])
    time.sleep(seconds)
    spent = window.close()
    said = json.loads(procs.finish("load", load, 30))
    procs.check()
    p50 = said.get("p50Microseconds") or said.get("percentilesMicroseconds", {}).get("50")
    requests = said["achievedRps"] * spent["wall"]
    return {"busy": spent["busy"] / requests * 1e6, "own": spent["own"] / requests * 1e6, "others": spent["others"],
            "rps": said["achievedRps"], "lost": said.get("lost", 0), "p50": p50, "used": spent["busy"] / spent["wall"]}


class Repeats:
    """Repeats a run that others disturbed, twice at most and so many times in all; says so."""

    def __init__(self, left, say):
        self.left, self.say = left, say

    def run(self, variant, once, trouble):
        """once() makes a run, trouble(run) says what is wrong with it or None. The last run counts whatever it is."""
        for attempt in range(3):
            run = once()
            why = trouble(run)
            if why is None:
                break
            run["disturbed"] = True
            if attempt == 2 or self.left == 0:
                break
            self.left -= 1
            self.say(f"  {variant}: repeated, {why}")
        return run


def trouble(run):
    if run["rps"] < 0.97 * RATE:
        return f"only {run['rps']:.0f} of {RATE} requests/s"
    return f"others used {run['others']:.0%} of the machine" if run["others"] > NOISE else None


def cost(proxy, direct, key="busy"):
    return lambda r: r[proxy][key] - r[direct][key]


def share(ours, direct, theirs, key):
    """Figure of rounds: what one thing in between costs over what another one does."""
    return lambda rs: stats.ratio_of_medians(rs, cost(ours, direct, key), cost(theirs, "http", key))


def undisturbed(rounds):
    return [r for r in rounds if not any(v.get("disturbed") for v in r.values())]


def figures(rounds, wanted, suffix=""):
    """Rows of the report. What the whole machine spent counts only from rounds in which others did not disturb."""
    clean = undisturbed(rounds)
    enough = len(clean) >= max(2, wanted // 2)
    note = f"{len(clean)} undisturbed rounds of {len(rounds)}" + ("" if enough else ": the machine was not quiet, no figure")
    rows = []

    def add(name, kept, figure, **more):
        value, interval = stats.summary(kept, figure) if len(kept) >= 2 else (None, None)
        rows.append({"name": name + suffix, "value": value, "interval": interval, **more})

    quiet = clean if enough else []
    for name in ("nginx", "haproxy"):
        for kept, key, kind, said in ((quiet, "busy", "", note), (rounds, "own", "_own", "processes only")):
            for variant, called, what in (("fast", "vs", ""), ("keyed", "keys_vs", ", with keys")):
                if all(variant in r for r in rounds):
                    add(f"proxy_cpu_share_{called}_{name}{kind}", kept, share(variant, "r2p2", name, key), note=f"fastPath Auto{what}; {said}", unit="ratio")
            add(f"proxy_cpu_share_sockets_vs_{name}{kind}", kept, share("router", "r2p2", name, key), note=f"fastPath Off, the default; {said}",
                unit="ratio")
            add(f"hop_cpu_share_vs_{name}{kind}", kept, share("hop", "udp", name, key), unit="ratio",
                note="a forwarder that does nothing else, FEEDBACK included: the floor of UDP sockets" + ("; processes only" if kind else ""))
    for name, direct in HOPS:
        if not all(name in r for r in rounds):
            continue
        for kept, key, kind in ((quiet, "busy", ""), (rounds, "own", "_own")):
            add(f"proxy_cpu_us_per_request_{CALLED.get(name, name)}{kind}", kept, lambda rs, c=cost(name, direct, key): statistics.median(c(r) for r in rs),
                unit="us", note="processes only, without interrupts and wake-ups" if kind else "whole machine")
    return rows


def pin_all(procs, cpus):
    for process in procs.running.values():
        subprocess.run(["taskset", "-a", "-p", "-c", cpus, str(process.pid)], check=True, capture_output=True)


def all_rounds(ctx, procs, wanted, seconds, cpus, work, variants):
    """Rounds until `wanted` of them were undisturbed, half as many again at most."""
    rounds, repeats = [], Repeats(wanted, ctx.say)
    while len(undisturbed(rounds)) < wanted and len(rounds) < wanted * 3 // 2:
        order = variants if len(rounds) % 2 == 0 else variants[::-1]
        rounds.append({v: repeats.run(v, lambda v=v: one_fast_run(procs, v, work, RATE, seconds, cpus) if v in FAST else one_run(procs, v, RATE, seconds, cpus), trouble)
                       for v in order})
        ctx.say("  " + "  ".join(f"{v} {rounds[-1][v]['busy']:.1f} ({rounds[-1][v]['own']:.1f})" for v in variants) + " us/request, machine (processes)")
    return rounds


def run(ctx):
    root, env = packages.unpacked("bench-proxies", PACKAGES)
    wanted, seconds = (5, 1.0) if ctx.quick else (20, 1.5)
    nginx, haproxy = versions(root, env)
    ctx.say(f"proxy: {RATE} requests/s of 64 bytes, {wanted} rounds of {seconds} s; NGINX {nginx}, HAProxy {haproxy}")
    with tempfile.TemporaryDirectory(prefix="bobtail-bench-") as work, machine.Processes(ctx.logs / "proxy") as procs:
        work = pathlib.Path(work)
        possible = fast_path_possible(procs, work)
        if not possible:
            ctx.say("  no figures of the fast path, and so no judged share: " + (ctx.logs / "proxy" / "router-fast.log").read_text().strip().split("\n")[-1])
        variants = [v for v in PARTS if v not in FAST or possible]
        start_services(procs, work, root, env)
        spread = all_rounds(ctx, procs, wanted, seconds, None, work, variants)
        ctx.say("  now everything on one processor")
        cpu = str(machine.CPUS - 1)
        pin_all(procs, cpu)
        one_core = all_rounds(ctx, procs, max(3, wanted // 2), seconds, cpu, work, variants)
    return figures(spread, wanted) + figures(one_core, max(3, wanted // 2), "_one_core")
