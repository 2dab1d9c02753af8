# SPDX-License-Identifier: Apache-2.0
"""The network of the CRAB benchmarks: hosts are network namespaces on one bridge, each with what its part needs.

  client  CRAB's client part         plain    a client without anything
  lb      CRAB's balancer (XDP)      service  a server without anything
  server  CRAB's server part         nft, ipt, proxy   what CRAB is compared with, each on a host of its own

Every way from a client to a service crosses the same bridge. Addresses are resolved beforehand, so that what a
balancer's link carries is TCP alone.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import time

import kube_proxy
import machine
import packages
import proxy

PORT = 7777
NET = "10.96.98."
HOSTS = {"client": 1, "plain": 3, "lb": 2, "nft": 4, "ipt": 5, "proxy": 6, "server": 11, "service": 12}
FORWARD = ("client", "lb", "nft", "ipt")
VIPS = {"lb": "10.96.99.1", "nft": "10.96.99.2", "ipt": "10.96.99.3"}
TOOL = machine.ROOT / "build" / "bin" / "bobtail-redirect"
PEERS = machine.ROOT / "e2e" / "bench" / "crab"
PACKAGES = (*proxy.PACKAGES, "libnginx-mod-stream")
QUIET = ["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"]
# Whoever makes thousands of connections a second to one address and closes them first, as crab_connect's clients and the
# proxies do, has a port waiting for a minute after each (TIME_WAIT): 28,232 of them are none left, and half of them make
# connect() look for one for milliseconds. A port may be taken again after a second, as proxies are set up.
PORTS = ["net.ipv4.tcp_tw_reuse=1", "net.ipv4.ip_local_port_range=10240 65535"]
ROUTER = ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.eth0.send_redirects=0"]


def address(host):
    return f"{NET}{HOSTS[host]}"


# Where a client stands, and what it dials.
WAYS = {
    "direct": ("plain", address("service"), PORT),
    "crab": ("client", VIPS["lb"], PORT),
    "kubeproxy_nftables": ("plain", VIPS["nft"], PORT),
    "kubeproxy_iptables": ("plain", VIPS["ipt"], PORT),
    "kubeproxy_nftables_on_client": ("nft", VIPS["nft"], PORT),
    "kubeproxy_iptables_on_client": ("ipt", VIPS["ipt"], PORT),
    "haproxy": ("plain", address("proxy"), PORT),
    "nginx_stream": ("plain", address("proxy"), PORT + 1),
}


def run(*argv, **kwargs):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, **kwargs)
    if done.returncode:
        raise machine.Failed(f"{' '.join(str(a) for a in argv)}: {done.stderr.strip()[-400:]}")
    return done.stdout


def balanced(vip, *servers):
    """An entry of a balancer's file."""
    return {"addr": vip, "port": PORT, "policy": "RoundRobin", "roles": "Balance", "backends": [{"addr": s, "state": "UpCRAB"} for s in servers]}


def dialled(vip, prefix):
    """An entry of a client's file."""
    return {"addr": vip, "port": PORT, "policy": "RoundRobin", "roles": "Client", "prefixes": [prefix]}


class Bed:
    """The hosts, from entering to leaving; what runs on them belongs to procs. Who needs others names them, and what they are called."""

    hosts, forward, ways = HOSTS, FORWARD, WAYS

    def __init__(self, procs):
        self.procs, self.tag = procs, f"bb{os.getpid()}"

    def __enter__(self):
        if os.geteuid() != 0:
            raise machine.Failed("needs root: makes network namespaces and loads eBPF programs")
        if not TOOL.exists():
            raise machine.Failed(f"{TOOL} is missing: run make build, or make bench-crab, which builds it")
        self.work = tempfile.TemporaryDirectory(prefix="bobtail-bench-")
        self.dir = pathlib.Path(self.work.name)
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        for name in list(self.procs.running):
            self.procs.stop(name)
        for host in self.hosts:
            if (self.dir / "bpf" / host).exists():
                subprocess.run([TOOL, "remove", "--root", self.dir / "bpf" / host], capture_output=True)
        for host in (*self.hosts, *self.inner(), "hub"):
            subprocess.run(["ip", "netns", "del", self.tag + host], capture_output=True)
        subprocess.run(["umount", self.dir / "bpf"], capture_output=True)
        self.work.cleanup()

    def build(self):
        (self.dir / "bpf").mkdir()
        run("mount", "-t", "bpf", "bpf", self.dir / "bpf")
        run("ip", "netns", "add", self.tag + "hub")
        run(*self.inside("hub"), "sysctl", "-qw", *QUIET)  # a bridge with an address of its own asks for routers, on every link
        run("ip", "-n", self.tag + "hub", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        run("ip", "-n", self.tag + "hub", "link", "set", "br0", "up")
        # Where the bridge hands its frames to netfilter, it shall not: a switch does not.
        subprocess.run([*self.inside("hub"), "sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=0"], capture_output=True)
        for host in self.hosts:
            self.add(host)
        for host in self.hosts:
            self.know_the_others(host)

    def inner(self):
        """The networks that are no hosts: pods."""
        return ()

    def add(self, host):
        ns, hub = self.tag + host, self.tag + "hub"
        run("ip", "netns", "add", ns)
        run(*self.inside(host), "sysctl", "-qw", *QUIET, *PORTS)
        run("ip", "-n", hub, "link", "add", "v" + host, "type", "veth", "peer", "name", "eth0", "address", self.mac(host), "netns", ns)
        run("ip", "-n", hub, "link", "set", "v" + host, "master", "br0", "up")
        for words in ("link set lo up", f"addr add {self.address(host)}/24 dev eth0", "link set eth0 up"):
            run("ip", "-n", ns, *words.split())
        if host in self.forward:
            run(*self.inside(host), "sysctl", "-qw", *ROUTER)

    def know_the_others(self, host):
        ns = self.tag + host
        for other in self.hosts:
            if other != host:
                run("ip", "-n", ns, "neigh", "replace", self.address(other), "lladdr", self.mac(other), "dev", "eth0", "nud", "permanent")
        for vip, owner in self.vips():
            if owner != host:
                run("ip", "-n", ns, "route", "add", vip, "via", self.address(owner))

    def vips(self):
        """Each with the host that packets to it are for."""
        return [(vip, owner) for owner, vip in VIPS.items()]

    def inside(self, host):
        """The words that make a command run in the host's network."""
        return ["nsenter", f"--net=/var/run/netns/{self.tag}{host}", "--"]

    def address(self, host):
        return f"{NET}{self.hosts[host]}"

    def mac(self, host):
        return f"02:00:00:00:98:{self.hosts[host]:02x}"

    def start(self, name, host, argv, **kwargs):
        return self.procs.start(name, [*self.inside(host), *argv], **kwargs)

    def services(self):
        for host in ("server", "service"):
            self.serve(host, address(host))
        self.reachable("plain", address("service"))
        self.reachable("plain", address("server"))

    def serve(self, host, at):
        self.start(f"serve-{host}", host, [machine.bench("bench_tcp"), "serve", at, PORT])

    def reachable(self, client, target, port=PORT):
        """Waits until a connection comes about and is served."""
        for _ in range(400):
            once = subprocess.run([*self.inside(client), machine.bench("bench_tcp"), "connect", target, str(port), "1"],
                                  capture_output=True, text=True, timeout=60)
            if once.returncode == 0:
                return
            time.sleep(0.05)
        raise machine.Failed(f"nothing is served at {target}:{port} for {client}: {once.stderr.strip()}")

    def agents(self):
        self.agent("lb", ["balancer"], vips=[balanced(VIPS["lb"], address("server"))])
        self.agent("server", ["server"], allowEcho=[VIPS["lb"]])
        self.agent("client", ["client"], vips=[dialled(VIPS["lb"], NET + "0/24")])
        self.redirects("client", VIPS["lb"])

    def redirects(self, client, vip, lb="lb"):
        """A connection comes about, and by a redirect."""
        before = self.counter(lb, "lb_syn_redirected")
        self.reachable(client, vip)
        if self.counter(lb, "lb_syn_redirected") == before:
            raise machine.Failed(f"{lb} redirected nothing to {vip}: " + run(*self.inside(lb), TOOL, "show", "--root", self.dir / "bpf" / lb))

    def agent(self, host, duties, devices=(), **more):
        """The agent of a host with these duties on its uplink, and what else its file names."""
        config = self.dir / f"{host}.json"
        uplink = {"name": "eth0", "placement": "Uplink", "duties": duties}
        config.write_text(json.dumps({"devices": [uplink, *devices], **more}))
        self.start(f"agent-{host}", host, [TOOL, "run", "--root", self.dir / "bpf" / host, "--config", config])
        log = self.procs.log_dir / f"agent-{host}.log"
        for _ in range(600):
            if "ready" in log.read_text().splitlines():
                return
            self.procs.check()
            time.sleep(0.05)
        raise machine.Failed(f"the agent of {host} is not ready after 30 s: {log.read_text()[-400:]}")

    def counter(self, host, name):
        return json.loads(run(*self.inside(host), TOOL, "show", "--root", self.dir / "bpf" / host))["counters"][name]

    def link(self, host):
        """Packets and bytes that reached a host's link so far."""
        got = json.loads(run("ip", "-n", self.tag + host, "-j", "-s", "link", "show", "eth0"))[0]["stats64"]["rx"]
        return got["packets"], got["bytes"]

    def filled(self, name, owner, **more):
        """A file of e2e/bench/crab with the addresses of this bed in it."""
        text = (PEERS / name).read_text()
        for key, value in {"VIP": VIPS.get(owner, address(owner)), "PORT": PORT, "SERVER": address("service"), "DIR": self.dir, **more}.items():
            text = text.replace(f"@{key}@", str(value))
        (self.dir / name).write_text(text)
        return self.dir / name

    def kube_proxies(self):
        """kube-proxy in both modes, each on a host between, and for clients of that host itself."""
        for host, mode in (("nft", "nftables"), ("ipt", "iptables")):
            kube_proxy.start(self, host, mode, VIPS[host], address("service"), PORT)
        for host in ("nft", "ipt"):
            # A host's own packets need a way to the address before DNAT gives them another one.
            run("ip", "-n", self.tag + host, "route", "add", VIPS[host], "dev", "eth0")
            self.reachable("plain", VIPS[host])
            self.reachable(host, VIPS[host])

    def proxies(self):
        """HAProxy in TCP mode, and NGINX's stream module on the next port, one host for both."""
        root, env = packages.unpacked("crab-proxies", PACKAGES)
        module = root / "usr/lib/nginx/modules/ngx_stream_module.so"
        haproxy = self.filled("haproxy.cfg", "proxy", LISTEN=address("proxy"))
        nginx = self.filled("nginx.conf", "proxy", LISTEN=address("proxy"), NEXT=PORT + 1, MODULE=module)
        self.start("haproxy", "proxy", [root / "usr/sbin/haproxy", "-f", haproxy], env=env)
        self.start("nginx", "proxy", [root / "usr/sbin/nginx", "-p", self.dir, "-c", nginx], env=env)
        for port in (PORT, PORT + 1):
            self.reachable("plain", address("proxy"), port)
        return proxy.versions(root, env)

    def client(self, variant, mode, *words, timeout=120, **kwargs):
        """Runs a client of bench_tcp to its end on a variant's way; what it says."""
        return json.loads(self.procs.finish("client", self.started(variant, mode, *words, **kwargs), timeout))

    def turns(self, variants, connections, count, milliseconds, timeout=120, **kwargs):
        """One client on several ways, which take turns so short that what disturbs the machine disturbs all alike.
        A list with a round of turns each, {variant: answers per second}."""
        ways = [str(word) for v in variants for word in (f"/var/run/netns/{self.tag}{self.ways[v][0]}", *self.ways[v][1:])]
        argv = [machine.bench("bench_tcp"), "turns", connections, count, milliseconds, *ways]
        client = self.procs.start("client", argv, stdout=subprocess.PIPE, **kwargs)
        return [dict(zip(variants, rps)) for rps in json.loads(self.procs.finish("client", client, timeout))]

    def started(self, variant, mode, *words, **kwargs):
        host, target, port = self.ways[variant]
        return self.start("client", host, [machine.bench("bench_tcp"), mode, target, port, *words], stdout=subprocess.PIPE, **kwargs)
