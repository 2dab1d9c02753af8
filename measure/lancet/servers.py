#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Lancet agent against Debian's Redis, memcached and NGINX, in every protocol it speaks with them.

An agent loads each server for a moment. Nothing may fail, keys that were stored must be found, and the server's own
count of what it did must be the agent's. The same samples, stamped by the kernel and by the agent's own clock, show what
the agent adds to a latency: lancet_overhead_us_vs_kernel_timestamp.
"""
import argparse
import json
import os
import pathlib
import socket
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "measure/bench"), str(ROOT / "dataplane/tests/apps")]
import agent_client  # noqa: E402  the coordinator's side of docs/reference/lancet-agent.md
import machine  # noqa: E402
import packages  # noqa: E402

PACKAGES = ("nginx", "redis-server", "redis-tools", "memcached", "libatomic1", "libjemalloc2", "liblua5.1-0", "liblzf1",
            "libhiredis0.14", "libevent-2.1-7", "libsasl2-2", "libsystemd0", "lua-cjson", "lua-bitop")
RATE, SAMPLES, SAMPLING = 1000, 1000, 0.5
STAMPED, ATTEMPTS = 0.95, 4  # answers that wait for a processor arrive together, and one packet has one stamp
PATIENCE_NS = 30_000_000_000  # what fails must not be this machine's want of a processor
KEYS = {"keys": 1000, "keyBytes": "fb-key", "valueBytes": "fb-value", "preload": True}


def ask(address, text, enough):
    """What a server says to a line."""
    with socket.create_connection(address, timeout=60) as s:
        s.sendall(text)
        got = b""
        while not enough(got):
            part = s.recv(65536)
            if not part:
                break
            got += part
    return got.decode(errors="replace")


def redis_count(address):
    text = ask(address, b"INFO commandstats\r\n", lambda got: got.endswith(b"\r\n") and got.count(b"\r\n") > 1)
    calls = [line for line in text.split("\r\n") if line.split(":")[0] in
             ("cmdstat_get", "cmdstat_set", "cmdstat_zadd", "cmdstat_zrangebylex")]
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in calls)


def memcached_count(address):
    text = ask(address, b"stats\r\n", lambda got: got.endswith(b"END\r\n"))
    stats = dict(line.split()[1:3] for line in text.split("\r\n") if line.startswith("STAT"))
    return int(stats["cmd_get"]) + int(stats["cmd_set"])


def nginx_count(address):
    text = ask(address, b"GET /requests HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", lambda got: False)
    return int(text.split("requests\n")[1].split()[2])


nginx_count.itself = 1  # asking is a request, too


# name, server, how it counts, what is asked of the agent
RUNS = (
    ("Redis, get and set", "redis", redis_count, {"protocol": "redis", "readRatio": 0.9, **KEYS}),
    ("Redis, YCSB-E", "redis", redis_count, {"protocol": "redis", "mix": "ycsb-e", **KEYS}),
    ("memcached, text", "memcached", memcached_count, {"protocol": "memcached-ascii", "readRatio": 0.9, "outstanding": 4, **KEYS}),
    ("memcached, binary", "memcached", memcached_count, {"protocol": "memcached-binary", "readRatio": 0.9, **KEYS}),
    ("NGINX, HTTP/1.1", "nginx", nginx_count, {"protocol": "http", "path": "/hello"}),
)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start_servers(procs, work):
    """{name: address} of servers that answer."""
    root, env = packages.unpacked("lancet-servers", PACKAGES)
    env = {**os.environ, **env}
    address = {name: ("127.0.0.1", free_port()) for name in ("redis", "memcached", "nginx")}
    port = {name: str(a[1]) for name, a in address.items()}
    conf = (pathlib.Path(__file__).parent / "nginx.conf").read_text().replace("@DIR@", str(work)).replace("@PORT@", port["nginx"])
    (work / "nginx.conf").write_text(conf)
    user = ["-u", "root"] if os.geteuid() == 0 else []
    procs.start("redis", [root / "usr/bin/redis-server", "--port", port["redis"], "--bind", "127.0.0.1", "--save", "",
                          "--appendonly", "no", "--dir", work], env=env)
    procs.start("memcached", [root / "usr/bin/memcached", "-l", "127.0.0.1", "-p", port["memcached"], "-U", "0", *user], env=env)
    procs.start("nginx", [root / "usr/sbin/nginx", "-p", work, "-c", work / "nginx.conf"], env=env)
    for name, where in address.items():
        wait_for(procs, name, lambda where=where: socket.create_connection(where, timeout=20).close() or True)
    return address


def wait_for(procs, name, attempt, seconds=60):
    deadline = time.monotonic() + seconds
    while True:
        procs.check()
        try:
            return attempt()
        except OSError as err:
            if time.monotonic() > deadline:
                raise machine.Failed(f"{name} does not answer: {err}") from err
            time.sleep(0.05)


def one_run(agent, target, count, fields):
    """(poll, samples, how far the server's count is from the agent's)."""
    before = count(target)
    poll, samples = agent.measure(RATE, SAMPLES, SAMPLING, targets=["%s:%d" % target], timestamps="kernel", connections=16,
                                  timeoutNanoseconds=PATIENCE_NS, **fields)
    agent.ask("stop")
    since = agent.ask("poll")["since"]
    ours = since["sent"] + fields.get("keys", 0) + getattr(count, "itself", 0)
    return poll, samples, abs(count(target) - before - ours)


def steady_run(agent, target, count, fields):
    """The same, once more when the machine kept the server from answering one by one; what failed stays failed."""
    for _ in range(ATTEMPTS):
        poll, samples, off = one_run(agent, target, count, fields)
        window = poll["window"]
        if off or any(window["failed"].values()) or window["misses"] or window["stamped"] >= STAMPED * len(samples):
            break
    return poll, samples, off


def share(values, p):
    return sorted(values)[min(len(values) - 1, int(p * len(values)))]


def judge(name, poll, samples, off):
    """(sentences about what is wrong, failed requests, share of the samples with stamps)."""
    window = poll["window"]
    failed = sum(window["failed"].values())
    stamped = window["stamped"] / max(len(samples), 1)
    wrong = [f"{failed} requests failed: {window['failed']}"] if failed else []
    wrong += [f"{window['misses']} keys were not found"] if window["misses"] else []
    wrong += [f"the server counts {off} requests more or fewer"] if off else []
    achieved = window["sent"] / (window["elapsedNanoseconds"] / 1e9)
    latency = [(r.received - r.sent) / 1000 for r in samples]
    kernel = [r.stamped / 1000 for r in samples if r.stamps == 1]
    print(f"{name:20} {window['sent']:6} {achieved:8.0f} {share(latency, 0.5):9.1f} {share(latency, 0.99):9.1f} "
          f"{share(kernel, 0.5):9.1f} {share(kernel, 0.99):9.1f} {stamped:8.3f}   {'; '.join(wrong) or 'ok'}", flush=True)
    return wrong, failed, stamped


def overhead(samples, p):
    """A percentile by the agent's clock less the same one by the kernel's stamps, in us, of the same samples."""
    both = [r for r in samples if r.stamps == 1]
    return (share([r.received - r.sent for r in both], p) - share([r.stamped for r in both], p)) / 1000


def measure(procs, work):
    """Figures by name."""
    address = start_servers(procs, work)
    procs.start("agent", [machine.app("bobtail-load"), f"--agent=unix:{work}/agent.sock"])
    agent = wait_for(procs, "agent", lambda: agent_client.Agent(f"{work}/agent.sock"))
    passed = failed_requests = mismatch = 0
    stamped, every = 1.0, []
    print(f"{'':20} {'sent':>6} {'/s':>8} {'p50 us':>9} {'p99 us':>9} {'by kernel':>9} {'p99 us':>9} {'stamped':>8}")
    for name, server, count, fields in RUNS:
        poll, samples, off = steady_run(agent, address[server], count, fields)
        wrong, failed, part = judge(name, poll, samples, off)
        passed += not wrong
        failed_requests += failed
        mismatch += off
        stamped = min(stamped, part)
        every += samples
    agent.close()
    return [("lancet_agent_servers_passed", passed, "count"), ("lancet_agent_failed_requests", failed_requests, "count"),
            ("lancet_agent_count_mismatch", mismatch, "count"), ("lancet_agent_stamped_share", round(stamped, 4), "ratio"),
            ("lancet_overhead_us_vs_kernel_timestamp", round(overhead(every, 0.5), 2), "us"),
            ("lancet_overhead_us_vs_kernel_timestamp_p99", round(overhead(every, 0.99), 2), "us")]


def main(argv):
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--measurements", required=True, metavar="FILE")
    args = ap.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bobtail-lancet-") as folder:
        work = pathlib.Path(folder)
        try:
            with machine.Processes(ROOT / "build" / "lancet-logs") as procs:
                figures = measure(procs, work)
        except (machine.Failed, agent_client.Refused, OSError, EOFError) as err:
            print(f"lancet: {err}", file=sys.stderr)
            return 1
    rows = [{"name": name, "value": value, "unit": unit} for name, value, unit in figures]
    pathlib.Path(args.measurements).write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if figures[0][1] == len(RUNS) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
