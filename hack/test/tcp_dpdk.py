#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TCP past the kernel against the kernel's own TCP: make tcp-dpdk.

  tcp_dpdk.py [--requests=N] [--drivers=af_packet,af_xdp] [--measurements=FILE]

bobtail-serve on a DPDK port at one end of a veth pair, at the other end curl, redis-cli, redis-benchmark, wrk and a
client of this file, all on the kernel's stack. Then through a bridge that loses, repeats and reorders frames as a seed
says; then under a flood of SYNs. tcp_dpdk_failed counts requests without the right answer, of tcp_dpdk_requests.
"""
import argparse
import ctypes
import json
import os
import pathlib
import random
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "measure/bench"), str(ROOT / "e2e/crab")]
import machine  # noqa: E402
import packages  # noqa: E402
import peers  # noqa: E402

SERVER, CLIENT, PORT = "10.99.7.1", "10.99.7.2", 7000
PATIENCE = 120  # s, for what must come and may be late
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def run(*argv, **kwargs):
    return subprocess.run([str(a) for a in argv], check=True, capture_output=True, text=True, timeout=PATIENCE, **kwargs).stdout


class Bed:
    """Two namespaces and a wire between them, straight or through a third one where frames are mistreated."""

    def __init__(self, bridged=False):
        self.names = {end: f"tcpdpdk-{os.getpid()}-{end}" for end in ("server", "client", *(["bridge"] if bridged else []))}
        self.bridged = bridged

    def __enter__(self):
        for name in self.names.values():
            run("ip", "netns", "add", name)
        if self.bridged:
            self.pair("server", "vs", "bridge", "bs")
            self.pair("client", "vc", "bridge", "bc")
        else:
            self.pair("server", "vs", "client", "vc")
        self.inside("client", "ip", "addr", "add", f"{CLIENT}/24", "dev", "vc")
        return self

    def pair(self, one, mine, other, theirs):
        run("ip", "link", "add", mine, "netns", self.names[one], "type", "veth", "peer", "name", theirs, "netns", self.names[other])
        for end, interface in ((one, mine), (other, theirs)):
            self.inside(end, "ip", "link", "set", interface, "up")
            # Nothing completes what a kernel leaves to a device, or cuts what it sends as a train.
            self.inside(end, "ethtool", "-K", interface, "tx", "off", "tso", "off", "gso", "off", "gro", "off")

    def prefix(self, end):
        return ["ip", "netns", "exec", self.names[end]]

    def inside(self, end, *argv, **kwargs):
        return run(*self.prefix(end), *argv, **kwargs)

    def enter(self, end):
        """Moves the calling thread."""
        with open(f"/run/netns/{self.names[end]}", "rb") as ns:
            if LIBC.setns(ns.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    def __exit__(self, *exc):
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False)


class Server:
    def __init__(self, bed, driver, protocol, *options):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tcpdpdk-"))
        self.ctl = self.folder / "ctl"
        self.log = open(self.folder / "log", "w+", encoding="utf-8")
        port = {"af_packet": "net_af_packet0,iface=vs", "af_xdp": "net_af_xdp0,iface=vs,busy_budget=0"}[driver]
        self.process = subprocess.Popen(
            [*bed.prefix("server"), machine.app("bobtail-serve"), "--mode=run-to-completion", f"--protocol={protocol}", f"--address={SERVER}",
             f"--port={PORT}", "--driver=dpdk", f"--dpdk-port={port}", "--dpdk-hugepages=off", "--dpdk-link-wait=20s", f"--ctl={self.ctl}",
             "--drain-quiet=1ms", *options], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def __enter__(self):
        end = time.monotonic() + PATIENCE
        while "past the kernel" not in self.said():
            if self.process.poll() is not None or time.monotonic() > end:
                raise machine.Failed(f"bobtail-serve did not start:\n{self.said()}")
            time.sleep(0.05)
        return self

    def said(self):
        return (self.folder / "log").read_text(encoding="utf-8")

    def counters(self):
        """By name, with the reason behind a slash where there is one."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(PATIENCE)
            s.connect(str(self.ctl))
            s.send(json.dumps({"v": 1, "op": "counters"}).encode())
            answer = json.loads(s.recv(1 << 20))
        rows = {}
        for c in answer["counters"]:
            labels = "/".join(str(v) for v in c.get("labels", {}).values())
            rows[c["name"] + (f"/{labels}" if labels else "")] = int(c["value"])
        return rows

    def __exit__(self, *exc):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if exc[0] is not None:
            print(self.said(), file=sys.stderr)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if exc[0] is None and self.process.returncode:
            raise machine.Failed(f"bobtail-serve ended with {self.process.returncode}")


class Tally:
    def __init__(self):
        self.asked = self.failed = 0

    def add(self, what, asked, failed):
        self.asked += asked
        self.failed += failed
        print(f"{what:44} {asked:6} requests, {failed} failed", flush=True)


# --- clients --------------------------------------------------------------------


def curl(bed, tally, n, size):
    """Half of them over one connection, the others over one each."""
    url = f"http://{SERVER}:{PORT}/"
    for kind, calls, each in (("one connection", 1, n // 2), ("one each", min(n // 2, 200), 1)):
        good = sum(many(bed, url, each).count(f"200 {size}\n") for _ in range(calls))
        tally.add(f"curl, {kind}", calls * each, calls * each - good)


def many(bed, url, n):
    lines = "".join(f'url = "{url}"\noutput = "/dev/null"\n' for _ in range(n))
    return subprocess.run([*bed.prefix("client"), "curl", "-s", "--max-time", str(PATIENCE), "-w", "%{http_code} %{size_download}\n", "-K", "-"],
                          input=lines, capture_output=True, text=True, timeout=2 * PATIENCE, check=False).stdout


def wrk(bed, tally, root, env, seconds):
    out = subprocess.run([*bed.prefix("client"), root / "usr/bin/wrk", "-t1", "-c32", f"-d{seconds}s", "--timeout", f"{PATIENCE}s", f"http://{SERVER}:{PORT}/"],
                         capture_output=True, text=True, env={**os.environ, **env}, timeout=2 * PATIENCE, check=True).stdout
    asked = int(re.search(r"(\d+) requests in", out)[1])
    bad = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", out)
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    tally.add("wrk, 32 connections", asked, (sum(int(v) for v in bad.groups()) if bad else 0) + (int(wrong[1]) if wrong else 0) + (asked == 0))


def redis_cli(bed, tally, root, env, n):
    out = subprocess.run([*bed.prefix("client"), root / "usr/bin/redis-cli", "-h", SERVER, "-p", str(PORT), "-r", str(n), "ECHO", "word"],
                         capture_output=True, text=True, env={**os.environ, **env}, timeout=2 * PATIENCE, check=False).stdout
    tally.add("redis-cli", n, n - out.count("ECHO\nword\n"))


def redis_benchmark(bed, tally, root, env, n):
    """It ends with an error at the first answer that is none, and for ever waits for one that does not come."""
    done = subprocess.run([*bed.prefix("client"), root / "usr/bin/redis-benchmark", "-h", SERVER, "-p", str(PORT), "-n", str(n), "-c", "20", "-P", "8", "-t", "set", "--csv"],
                          capture_output=True, text=True, env={**os.environ, **env}, timeout=2 * PATIENCE, check=False)
    tally.add("redis-benchmark, 20 connections, 8 at once", n, 0 if done.returncode == 0 and '"SET"' in done.stdout else n)


def dial(bed):
    """A connected socket of the client's namespace."""
    made = []

    def inside():
        bed.enter("client")
        s = socket.socket()
        s.settimeout(PATIENCE)
        s.connect((SERVER, PORT))
        made.append(s)

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    if not made:
        raise machine.Failed("no connection")
    return made[0]


def hear(s, n):
    got = b""
    while len(got) < n:
        more = s.recv(n - len(got))
        if not more:
            break
        got += more
    return got


def echoes(bed, tally, what, n, seed, most=3000):
    """Messages behind a length, several at once; each comes back as it went, in its order."""
    rng, s, failed = random.Random(seed), dial(bed), 0
    at_once = 10 if most < 10000 else 1  # more than both ends hold would wait for a client that does not read
    with s:
        for _ in range(n // at_once):
            batch = []
            for _ in range(at_once):
                body = rng.randbytes(rng.randint(1, most))
                batch.append(struct.pack(">I", len(body)) + body)
            s.sendall(b"".join(batch))
            failed += sum(hear(s, len(m)) != m for m in batch)
    tally.add(what, n // at_once * at_once, failed)


# --- a bad wire -------------------------------------------------------------------


class Bridge(threading.Thread):
    """Carries frames between bs and bc; of those that carry TCP some are lost, come twice, or late."""

    def __init__(self, bed, seed, loss=0.02, twice=0.02, late=0.05):
        super().__init__(daemon=True)
        self.bed, self.rng, self.share = bed, random.Random(seed), (loss, twice, late)
        self.over = threading.Event()
        self.done = {"lost": 0, "twice": 0, "late": 0, "carried": 0}

    def run(self):
        self.bed.enter("bridge")
        ends = []
        for name in ("bs", "bc"):
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            s.bind((name, 0))
            ends.append(s)
        waiting = []
        while not self.over.is_set():
            ready, _, _ = select.select(ends, [], [], 0.002)
            for s in ready:
                frame, about = s.recvfrom(65536)
                if about[2] != socket.PACKET_OUTGOING:
                    self.carry(frame, ends[1 - ends.index(s)], waiting)
            while waiting and waiting[0][0] <= time.monotonic():
                _, frame, to = waiting.pop(0)
                to.send(frame)
        for s in ends:
            s.close()

    def carry(self, frame, to, waiting):
        loss, twice, late = self.share
        is_tcp = frame[12:14] == b"\x08\x00" and frame[23] == 6
        if is_tcp and self.rng.random() < loss:
            self.done["lost"] += 1
            return
        self.done["carried"] += 1
        if is_tcp and self.rng.random() < late:
            self.done["late"] += 1
            waiting.append((time.monotonic() + 0.003, frame, to))
            return
        to.send(frame)
        if is_tcp and self.rng.random() < twice:
            self.done["twice"] += 1
            to.send(frame)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.over.set()
        self.join()


# --- a flood ----------------------------------------------------------------------


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total & 0xffff) + (total >> 16)
    return ~((total & 0xffff) + (total >> 16)) & 0xffff


def syn(rng):
    source = socket.inet_aton(f"10.99.7.{rng.randint(3, 250)}")
    target = socket.inet_aton(SERVER)
    port = rng.randint(1024, 65535)
    tcp = struct.pack(">HHIIBBHHH", port, PORT, rng.getrandbits(32), 0, 0x50, 2, 64240, 0, 0)
    tcp = tcp[:16] + struct.pack(">H", checksum(source + target + struct.pack(">HH", 6, len(tcp)) + tcp)) + tcp[18:]
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + source + target
    return ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:] + tcp


def flood(bed, n, seed):
    """SYNs of addresses that do not answer."""
    mac = re.search(rf"{re.escape(SERVER)} .*lladdr (\S+)", bed.inside("client", "ip", "neigh"))[1]
    own = json.loads(bed.inside("client", "ip", "-j", "link", "show", "vc"))[0]["address"]
    head = bytes.fromhex(mac.replace(":", "") + own.replace(":", "")) + b"\x08\x00"
    rng = random.Random(seed)

    def inside():
        bed.enter("client")
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
            s.bind(("vc", 0))
            for i in range(n):
                s.send(head + syn(rng))
                if i % 50 == 0:
                    time.sleep(0.002)

    thread = threading.Thread(target=inside)
    thread.start()
    return thread


# --- all of it --------------------------------------------------------------------


def clients(driver, tally, n, root, env):
    with Bed() as bed:
        with Server(bed, driver, "http", "--reply-bytes=3000"):
            curl(bed, tally, n // 4, 3000)
            wrk(bed, tally, root, env, 1 if n < 2000 else 3)
        with Server(bed, driver, "resp"):
            redis_cli(bed, tally, root, env, n // 4)
            redis_benchmark(bed, tally, root, env, n // 4)
        with Server(bed, driver, "u32", "--max-message=2000000"):
            echoes(bed, tally, "messages of up to 3,000 bytes, 10 at once", n // 8, 1)
            echoes(bed, tally, "messages of up to 1,000,000 bytes", 20, 2, 1000000)


def bad_wire(tally, n, seed):
    with Bed(bridged=True) as bed, Bridge(bed, seed) as bridge, Server(bed, "af_packet", "u32") as server:
        for more in range(10):  # what is lost of a few hundred frames need not be the server's
            echoes(bed, tally, f"through a bad wire, seed {seed + more}", n, seed + more)
            counted = server.counters()
            print(f"  frames {bridge.done}; sent again by the server {counted['tcp_segments_resent_total']}", flush=True)
            if min(bridge.done.values()) > 0 and counted["tcp_segments_resent_total"] > 0:
                return
        raise machine.Failed("the wire was not bad")


def two_threads(tally, n):
    """Flows go to the thread of their hash, and stay there: one port, two stacks (Z-09)."""
    with Bed() as bed, Server(bed, "af_packet", "u32", "--threads=2") as server:
        for seed in range(8):
            echoes(bed, tally, f"two threads, connection {seed + 1}", n, seed)
        counted = server.counters()
        handed = sum(v for name, v in counted.items() if "handed" in name)
        print(f"  frames handed to the other thread {handed}", flush=True)
        if handed == 0:
            raise machine.Failed("one thread got every connection")


def flooded(tally, n):
    with Bed() as bed, Server(bed, "af_packet", "u32") as server:
        echoes(bed, tally, "before a flood", 10, 3)
        thread = flood(bed, n, 4)
        echoes(bed, tally, f"during a flood of {n} SYNs", 100, 5)
        thread.join()
        echoes(bed, tally, "after it, a new connection", 10, 6)
        counted = server.counters()
        print(f"  handshakes that gave way {counted['tcp_half_open_lost_total']}", flush=True)
        if counted["tcp_half_open_lost_total"] == 0:
            raise machine.Failed("the flood was none")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--requests", type=int, default=10000)
    p.add_argument("--drivers", default="af_packet,af_xdp")
    p.add_argument("--measurements")
    args = p.parse_args()
    if os.geteuid():
        sys.exit("tcp_dpdk.py: root is needed, for network namespaces")
    root, env = packages.unpacked("crab-peers", peers.PEERS)
    tally, code = Tally(), 0
    try:
        for driver in args.drivers.split(","):
            print(f"-- {driver}", flush=True)
            clients(driver, tally, args.requests, root, env)
        bad_wire(tally, min(args.requests // 5, 500), 11)
        two_threads(tally, 20 if args.requests < 2000 else 100)
        flooded(tally, min(args.requests, 3000))
    except (machine.Failed, subprocess.SubprocessError, OSError) as e:
        print(f"tcp_dpdk.py: {e} {getattr(e, 'stderr', '') or ''}", file=sys.stderr)
        code = 1
    print(f"tcp_dpdk_requests {tally.asked}\ntcp_dpdk_failed {tally.failed}")
    if args.measurements and code == 0:
        pathlib.Path(args.measurements).write_text(json.dumps([
            {"name": "tcp_dpdk_requests", "unit": "count", "value": tally.asked},
            {"name": "tcp_dpdk_failed", "unit": "count", "value": tally.failed},
            {"name": "tcp_dpdk_clients_ok", "unit": "count", "value": int(tally.failed == 0 and tally.asked >= args.requests)}]), encoding="utf-8")
    return code or int(tally.failed != 0)


if __name__ == "__main__":
    sys.exit(main())
