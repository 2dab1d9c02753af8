# SPDX-License-Identifier: Apache-2.0
"""What a request costs to pass through the router, and through NGINX and HAProxy, on sockets.

Cost of a proxy = (non-idle processor time of the whole machine with it - without it) / requests, both at the same
open-loop rate. A round is nine runs, one after the other: R2P2 direct, R2P2 through the router on plain sockets, the same with
its program in the kernel, and that where the service has keys (a tag to make and one to check for each request), HTTP direct, HTTP through NGINX, HTTP through HAProxy, and the floor: bare UDP
direct, bare UDP through a forwarder that does nothing else (bench_hop.c). A figure is made of undisturbed pairs
(pairs.py), 20 of each in a full run, else there is no figure. The services are equal in kind: one echo process, 64-byte bodies, loopback.

The judged share is that of the router with its program, which is what runs by default; the share on plain
sockets, which is what runs where the program may not be loaded, stands beside it under its own name. Where the program may not be loaded there is no judged
share, and that is a failure: the other one does not stand in for it.
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

import machine
import packages
import pairs

RATE = 10000
SOCKETS = 4  # of the R2P2 generator, which has many requests in flight on each
CONNECTIONS = 64  # of the HTTP generator, which has one
WORKERS = 4
PORT = {"serve": 18100, "serve-fast": 18110, "direct": 18120, "router": 18000, "feedback": 19000, "fast": 18001, "feedback-fast": 19001, "http": 18200, "nginx": 18201, "haproxy": 18202}
JUDGED = 20  # undisturbed pairs that a figure of a full run is drawn from, at least
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


def default_router():
    """What the chart's defaults render for the least manifest: {"args", "capabilities", "keys"} of the router's container."""
    run = subprocess.run(["go", "test", "-count=1", "-v", "-run=^TestWhatTheDefaultsRun$", "./operator/internal/render"], cwd=machine.ROOT,
                         capture_output=True, text=True)
    found = re.search(r"default_router (\{.*\})$", run.stdout, re.M)
    if run.returncode != 0 or not found:
        raise SystemExit(f"bench: the defaults could not be rendered:\n{run.stdout}{run.stderr}")
    return json.loads(found.group(1))


def as_rendered(rendered, here):
    """Those arguments with this machine's addresses, ports and files (`here`: option -> value, None leaves it out)."""
    return [f"{name}={here.get(name, value)}" for name, _, value in (a.partition("=") for a in rendered["args"]) if here.get(name, value) is not None]


def only_with(capabilities):
    """The words before a command that leave it, as root, these capabilities and no way to more."""
    kept = ",".join(["-all", *(f"+{c.lower()}" for c in capabilities)])
    return ["setpriv", "--no-new-privs", f"--bounding-set={kept}", "--inh-caps=-all"]


def start_router(procs, work, fast="", cpus=None, keys=(), rendered=None):
    """A router and its echo service; rendered: the router as the operator's defaults make it. The program of the fast path sees
    every packet of its device, so that router lives for its own runs only: the others shall not pay for it."""
    request, feedback = PORT["fast" if fast else "router"], PORT["feedback" + fast]
    document = work / f"router{fast}.json"
    router_document(document, fast, keys)
    folder = work / "keys"
    folder.mkdir(exist_ok=True)
    for key in keys:
        (folder / str(key)).write_text("000102030405060708090a0b0c0d0e0f\n")
    local = ["--address=127.0.0.1", "--ctl=", f"--key-dir={folder}"]
    options = [*local, f"--request-port={request}", f"--feedback-port={feedback}", "--fast-path=" + ("require" if fast else "off")]
    prefix = []
    if rendered:
        here = {"--address": "127.0.0.1", "--request-port": request, "--feedback-port": feedback, "--ctl": "", "--key-dir": folder, "--config-cache": None}
        options, prefix = as_rendered(rendered, here), only_with(rendered["capabilities"])
    procs.start("router" + fast, [*prefix, machine.app("bobtail-router"), *options, f"--config={document}"], cpus=cpus)
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
RENDERED = "keyed"  # the variant whose router is what the operator's defaults make; it falls back to sockets where they would
THEIRS = ("nginx", "haproxy")
# What is in between: without it, with it.
HOPS = {"router": ("r2p2", "router"), "fast": ("r2p2", "fast"), "keyed": ("r2p2", "keyed"), "nginx": ("http", "nginx"), "haproxy": ("http", "haproxy"),
        "hop": ("udp", "hop")}
SHARED = (("fast", "proxy_cpu_share_vs", "fastPath Auto"), ("keyed", "proxy_cpu_share_keys_vs", "fastPath Auto, with keys"),
          ("keyed", "proxy_cpu_share_default_vs", "arguments, capabilities and keys as the chart's defaults render them for examples/minimal.yaml"),
          ("router", "proxy_cpu_share_sockets_vs", "fastPath Off"),
          ("hop", "hop_cpu_share_vs", "a forwarder that does nothing else, FEEDBACK included: the floor of UDP sockets"))


def one_fast_run(procs, variant, work, rate, seconds, cpus, rendered):
    start_router(procs, work, "-fast", cpus, FAST[variant], rendered if variant == RENDERED else None)
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


def trouble(run):
    if run["rps"] < 0.97 * RATE:
        return f"only {run['rps']:.0f} of {RATE} requests/s"
    return f"others used {run['others']:.0%} of the machine" if run["others"] > NOISE else None


def both_rows(rounds, enough, name, suffix, of, note, unit):
    """The row of the whole machine and that of the processes only."""
    both = (pairs.row(rounds, f"{name}{suffix}", of, enough, note, unit), pairs.row(rounds, f"{name}_own{suffix}", of, None, note, unit))
    return [r for r in both if r is not None]


def figures(rounds, enough, suffix=""):
    """Rows of the report, from `enough` undisturbed pairs each."""
    rows = []
    for theirs in THEIRS:
        for ours, called, what in SHARED:
            rows += both_rows(rounds, enough, f"{called}_{theirs}", suffix, (HOPS[ours], HOPS[theirs]), what, "ratio")
    for name, pair in HOPS.items():
        rows += both_rows(rounds, enough, f"proxy_cpu_us_per_request_{CALLED.get(name, name)}", suffix, (pair,), "interrupts and wake-ups too", "us")
    return rows


def pin_all(procs, cpus):
    for process in procs.running.values():
        subprocess.run(["taskset", "-a", "-p", "-c", cpus, str(process.pid)], check=True, capture_output=True)


def measure(ctx):
    """Rounds, raw: rows() draws the figures from them."""
    root, env = packages.unpacked("bench-proxies", PACKAGES)
    (wanted, one_core), seconds = ((5, 3), 1.0) if ctx.quick else ((JUDGED, 10), 1.5)
    nginx, haproxy = versions(root, env)
    ctx.say(f"proxy: {RATE} requests/s of 64 bytes, {wanted} rounds of {seconds} s; NGINX {nginx}, HAProxy {haproxy}")
    with tempfile.TemporaryDirectory(prefix="bobtail-bench-") as work, machine.Processes(ctx.logs / "proxy") as procs:
        work = pathlib.Path(work)
        rendered = default_router()
        possible = fast_path_possible(procs, work)
        if not possible:
            ctx.say("  no figures of the fast path, and so no judged share: " + (ctx.logs / "proxy" / "router-fast.log").read_text().strip().split("\n")[-1])
        variants = [v for v in PARTS if v not in FAST or possible]
        asked = [p for p in HOPS.values() if set(p) <= set(variants)]
        start_services(procs, work, root, env)

        def rounds(wanted, cpus):
            def once(v):
                return one_fast_run(procs, v, work, RATE, seconds, cpus, rendered) if v in FAST else one_run(procs, v, RATE, seconds, cpus)
            return pairs.collect(ctx, wanted, variants, asked, once, trouble)

        spread = rounds(wanted, None)
        ctx.say("  now everything on one processor")
        cpu = str(machine.CPUS - 1)
        pin_all(procs, cpu)
        # A quick run is no judgement: it may do with fewer pairs than it tried.
        return {"enough": 3 if ctx.quick else wanted, "rounds": spread, "enoughOneCore": 2 if ctx.quick else one_core, "roundsOneCore": rounds(one_core, cpu)}


def rows(raw):
    return figures(raw["rounds"], raw["enough"]) + figures(raw["roundsOneCore"], raw["enoughOneCore"], "_one_core")
