# SPDX-License-Identifier: Apache-2.0
"""The bed of crab_rr's rows that are not judged: hosts as a cluster has them, beside the ones with a single duty.

  node, node_server   all that the node agent attaches: balancer, client and server on the uplink, client and server on a pod's veth
  bare, bare_server   the same with pods, and without anything
  still               CRAB's client part on a host that does not forward
  ...6                clients, balancer and servers over IPv6

A pod is a network of its own behind its host, by a route, as many pod networks have it.
"""
import crab_bed
from crab_bed import PORT, run

PODS = {"node": 2, "node_server": 3, "bare": 4, "bare_server": 5}  # by their hosts
POD_NET, POD_GATEWAY = "10.96.97.", "169.254.1.1"
SIX_NET, SIX_VIP = "fd96:98::", "fd96:99::1"
NODE_VIP, POD_VIP = "10.96.99.4", "10.96.99.5"
ALL = ["balancer", "client", "server"]  # in the agent's order (operator/internal/agent/agent.go)


def pod(host):
    return f"{POD_NET}{PODS[host]}"


def pod_mac(host, end):
    return f"02:00:00:00:97:{16 * end + PODS[host]:02x}"


class Nodes(crab_bed.Bed):
    hosts = {h: crab_bed.HOSTS[h] for h in ("client", "plain", "lb", "server", "service")} | {
        "still": 21, "node": 22, "node_server": 23, "bare": 24, "bare_server": 25,
        "client6": 26, "plain6": 27, "lb6": 28, "server6": 29, "service6": 30}
    forward = ("client", "lb", *PODS)
    ways = {
        **{v: crab_bed.WAYS[v] for v in ("direct", "crab")},
        "crab_not_forwarding": ("still", crab_bed.VIPS["lb"], PORT),
        "crab_as_node": ("node", NODE_VIP, PORT),
        "direct_pods": ("bare-pod", pod("bare_server"), PORT),
        "crab_pods": ("node-pod", POD_VIP, PORT),
        "direct_ipv6": ("plain6", f"{SIX_NET}30", PORT),
        "crab_ipv6": ("client6", SIX_VIP, PORT),
    }

    def inner(self):
        return [f"{host}-pod" for host in PODS]

    def vips(self):
        return [(vip, "lb") for vip in (crab_bed.VIPS["lb"], NODE_VIP, POD_VIP)]

    def build(self):
        super().build()
        for host in PODS:
            self.add_pod(host)
        for host in self.hosts:
            if host.endswith("6"):
                self.speak_six(host)

    def add_pod(self, host):
        ns, inside, address = self.tag + host, f"{self.tag}{host}-pod", pod(host)
        run("ip", "netns", "add", inside)
        run(*self.inside(f"{host}-pod"), "sysctl", "-qw", *crab_bed.QUIET, *crab_bed.PORTS)
        run("ip", "-n", ns, "link", "add", "pod", "address", pod_mac(host, 0), "type", "veth", "peer", "name", "eth0", "address", pod_mac(host, 1), "netns", inside)
        for words in ("link set pod up", f"route add {address} dev pod", f"neigh replace {address} lladdr {pod_mac(host, 1)} dev pod nud permanent"):
            run("ip", "-n", ns, *words.split())
        for words in ("link set lo up", "link set eth0 up", f"addr add {address}/32 dev eth0", f"route add {POD_GATEWAY} dev eth0", f"route add default via {POD_GATEWAY}",
                      f"neigh replace {POD_GATEWAY} lladdr {pod_mac(host, 0)} dev eth0 nud permanent"):
            run("ip", "-n", inside, *words.split())
        for other in self.hosts:
            if other != host:
                run("ip", "-n", self.tag + other, "route", "add", address, "via", self.address(host))

    def speak_six(self, host):
        ns = self.tag + host
        run(*self.inside(host), "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.eth0.disable_ipv6=0", "net.ipv6.conf.eth0.accept_ra=0",
            f"net.ipv6.conf.all.forwarding={int(host in ('client6', 'lb6'))}")
        run("ip", "-n", ns, "addr", "add", f"{SIX_NET}{self.hosts[host]}/64", "dev", "eth0", "nodad")
        for other in self.hosts:
            if other.endswith("6") and other != host:
                run("ip", "-n", ns, "neigh", "replace", f"{SIX_NET}{self.hosts[other]}", "lladdr", self.mac(other), "dev", "eth0", "nud", "permanent")
        if host != "lb6":
            run("ip", "-n", ns, "route", "add", SIX_VIP, "via", f"{SIX_NET}{self.hosts['lb6']}")

    def services(self):
        super().services()
        self.serve("node_server", self.address("node_server"))
        for host in ("node_server", "bare_server"):
            self.serve(f"{host}-pod", pod(host))
        for host in ("server6", "service6"):
            self.serve(host, f"{SIX_NET}{self.hosts[host]}")
        for way in ("direct_pods", "direct_ipv6"):
            self.reachable(*self.ways[way])

    def agents(self):
        own, base = crab_bed.VIPS["lb"], crab_bed.NET + "0/24"
        servers = {own: self.address("server"), NODE_VIP: self.address("node_server"), POD_VIP: pod("node_server")}
        self.agent("lb", ["balancer"], vips=[crab_bed.balanced(vip, server) for vip, server in servers.items()])
        self.agent("server", ["server"], allowEcho=[own])
        known = [crab_bed.dialled(NODE_VIP, base), crab_bed.dialled(POD_VIP, POD_NET + "0/24")]
        veth = {"name": "pod", "placement": "Pod", "duties": ["client", "server"]}
        for host, allowed in (("node", []), ("node_server", [NODE_VIP, POD_VIP])):
            self.agent(host, ALL, [veth], vips=known, allowEcho=allowed)
        for host in ("client", "still"):
            self.agent(host, ["client"], vips=[crab_bed.dialled(own, base)])
        self.agent("lb6", ["balancer"], vips=[crab_bed.balanced(SIX_VIP, f"{SIX_NET}{self.hosts['server6']}")])
        self.agent("server6", ["server"], allowEcho=[SIX_VIP])
        self.agent("client6", ["client"], vips=[crab_bed.dialled(SIX_VIP, SIX_NET + "/64")])
        for way, (client, vip, _) in self.ways.items():
            if way.startswith("crab"):
                self.redirects(client, vip, "lb6" if way.endswith("6") else "lb")
