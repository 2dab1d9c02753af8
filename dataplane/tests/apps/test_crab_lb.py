# SPDX-License-Identifier: Apache-2.0
"""bobtail-crab-lb on a veth behind af_packet, each host a network namespace, the servers' and clients' kernels real; IPv4,
IPv6 and both at once. Nothing here asserts a time. Needs root; skipped by name without it, and in a build without DPDK."""
import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

from bed import Bed, main, program, wait_for
from namespaces import NET, NamespaceBed, ip_command

BUILT = os.path.exists(program("bobtail-crab-lb"))
NET6 = "fd45::"
PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "crab_peer.py")
SERVER = """
import socket, sys
s = socket.create_server(("::", 80), family=socket.AF_INET6, dualstack_ipv6=True, backlog=256)
while True:
    c, _ = s.accept()
    c.sendall(c.recv(64) + sys.argv[1].encode())
    c.close()
"""
HTTP = """
import http.server, socket, sys
class Name(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(sys.argv[1].encode())
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
Server(("::", 80), Name).serve_forever()
"""
CLIENT = """
import socket, sys
for i in range(int(sys.argv[2])):
    c = socket.create_connection((sys.argv[1], 80), timeout=30)
    c.sendall(b"hello from ")
    print(c.makefile().read())
"""
REPORT = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[2] else socket.AF_INET
socket.socket(family, socket.SOCK_DGRAM).sendto(bytes.fromhex(sys.argv[1]), (sys.argv[2], 8470))
"""


@unittest.skipUnless(BUILT, "this build has no DPDK")
class Refusals(Bed):
    CASES = [
        ('{"vips":[{"address":"10.0.0.9","port":80,"servers":[]}],"x":1}', "x: unknown field; remove it"),
        ('{"vips":[]}', "vips: must name at least one VIP"),
        ('{"vips":[{"address":"10.0.0.9","servers":[]}]}', "vips[0].port: is required"),
        ('{"vips":[{"address":"10.0.0.9","port":0,"servers":[]}]}', "vips[0].port: must be 1..65535; got 0"),
        ('{"vips":[{"address":"10.0.0.9","port":80,"port":81,"servers":[]}]}', "vips[0].port: occurs twice; keep one"),
        ('{"vips":[{"address":"fe80::9","port":80,"servers":[]}]}', "vips[0].address: must be the IPv4 or IPv6 address"),
        ('{"vips":[{"address":"::ffff:10.0.0.9","port":80,"servers":[]}]}', "vips[0].address: must be the IPv4 or IPv6 address"),
        ('{"vips":[{"address":"ff02::9","port":80,"servers":[]}]}', "vips[0].address: must be the IPv4 or IPv6 address"),
        ('{"vips":[{"address":"fd00::9","port":80,"servers":[]}]}', "vips[0].address: needs a balancer with an IPv6 address"),
        ('{"vips":[{"address":"10.0.0.2","port":80,"servers":[]}]}', "vips[0].address: is the balancer's own"),
        ('{"vips":[{"address":"10.0.0.9","port":80,"servers":[{"address":"fd00::3"}]}]}',
         "vips[0].servers[0].address: is not of the VIP's family"),
        ('{"vips":[{"address":"10.0.0.9","port":80,"policy":"Best","servers":[]}]}', 
         'vips[0].policy: must be one of RoundRobin, Weighted, Random, Hash, PowerOfTwo, LeastConnections, RoundRobinPerCPU, Least; got "Best"'),
        ('{"vips":[{"address":"10.0.0.9","port":80,"servers":[{"address":"10.0.0.3","weight":257}]}]}',
         "vips[0].servers[0].weight: must be 1..256; got 257"),
        ('{"vips":[{"address":"10.0.0.9","port":80,"servers":[{"address":"10.0.0.3"},{"address":"10.0.0.3"}]}]}',
         "vips[0].servers[1].address: stands in the list before"),
        ('{"vips":[{"address":"10.0.0.9","port":80,"servers":[{"address":"10.0.0.9"}]}]}',
         "vips[0].servers[0].address: is the address of a VIP"),
        ('{"vips":[{"address":"10.0.0.9","port":80,"servers":[]},{"address":"10.0.0.9","port":80,"servers":[]}]}',
         "vips[1]: has address and port of an earlier one"),
        ('{"vips":[{"address":"169.254.0.9","port":80,"servers":[{"address":"127.0.0.1"}]}]}',
         "vips[0].servers[0].address: must be the IPv4 or IPv6 address"),
        ('{"option":{"kind":253},"vips":[{"address":"10.0.0.9","port":80,"servers":[]}]}', "option: needs experiment"),
        ('{"probe":{"intervalMilliseconds":100,"timeoutMilliseconds":200},"vips":[]}', "probe: needs a timeout"),
        ('{"vips":7}', "vips: must be a list; got a number"),
        ('{"vips":[', "is not valid JSON"),
    ]

    def test_a_document_is_refused_by_the_field_at_fault(self):
        for text, message in self.CASES:
            path = self.path("lb.json")
            with open(path, "w") as f:
                f.write(text)
            p = subprocess.run([program("bobtail-crab-lb"), "--address=10.0.0.2", "--config=" + path, "--ctl=",
                                "--dpdk-port=net_null0"], capture_output=True, text=True, timeout=60)
            self.assertEqual(p.returncode, 2, text)
            self.assertIn(message, p.stderr, text)

    def test_options_are_refused_by_name(self):
        for options, message in (([], "--address: must be the IPv4 or IPv6 address"),
                                 (["--address=fe80::1"], "--address: must be the IPv4 or IPv6 address"),
                                 (["--address=10.0.0.2"], "--config: is required"),
                                 (["--address=10.0.0.2", "--address6=fd00::1"], "--address6: must be an IPv6 address and its"),
                                 (["--address=10.0.0.2", "--address6=fe80::1/64"], "--address6: must be the address of a host"),
                                 (["--address=10.0.0.2", "--gateway6=fd00::1"], "--address6: must be an IPv6 address and its"),
                                 (["--address=10.0.0.2", "--address6=fd00::1/64", "--gateway6=10.0.0.1"], "--gateway6: must be"),
                                 (["--address=fd00::2", "--address6=fd00::1/64"], "--address6: goes with an IPv4 --address"),
                                 (["--address=fd00::2", "--gateway6=fd00::1"], "--gateway6: goes with an IPv4 --address"),
                                 (["--address=10.0.0.2", "--config=x", "--driver=udp"], "--driver: must be dpdk")):
            p = subprocess.run([program("bobtail-crab-lb"), *options], capture_output=True, text=True, timeout=60)
            self.assertEqual(p.returncode, 2)
            self.assertIn(message, p.stderr)

    def test_c64_a_folder_without_a_key_is_refused(self):
        with open(self.path("lb.json"), "w") as f:
            f.write('{"vips":[{"address":"10.0.0.9","port":80,"servers":[]}]}')
        keys = self.path("report-keys")
        os.mkdir(keys)
        for name, key, message in (("key", None, "key-dir: cannot read " + keys + "/key: No such file"),
                                   ("key", "fifteen bytes..\n", "keys/key must hold a key of 16 to 64 bytes"),
                                   ("key", "k" * 65, "keys/key must hold a key of 16 to 64 bytes"),
                                   ("key", "k" * 64 + "\n" * 9, "keys/key must hold a key of 16 to 64 bytes"),
                                   ("previous", "short", "keys/previous must hold a key of 16 to 64 bytes")):
            if key is not None:
                with open(os.path.join(keys, "key"), "w") as f:
                    f.write("k" * 64 + "\r\n")
                with open(os.path.join(keys, name), "w") as f:
                    f.write(key)
            p = subprocess.run([program("bobtail-crab-lb"), "--address=10.0.0.2", "--config=" + self.path("lb.json"), "--ctl=",
                                "--key-dir=" + keys, "--dpdk-port=net_null0"], capture_output=True, text=True, timeout=60)
            self.assertEqual((p.returncode, message in p.stderr), (2, True), p.stderr)


class Hosts(NamespaceBed):
    """The tests of one family; `net` is what its addresses begin with."""
    HOSTS = {"client": 10, "lb": 20, "s31": 31, "s32": 32, "s33": 33}
    net = NET
    bits = 32

    def setUp(self):
        super().setUp()
        self.vip = self.net + "200"
        for name, n in self.HOSTS.items():  # DPDK sees checksums that a veth left open (docs/guides/dpdk.md)
            subprocess.run([*self.inside(name), "ethtool", "-K", "eth0", "tx", "off"], check=True, capture_output=True)
            ip_command("-n", self.tag + name, "addr", "add", NET6 + "%d/64" % n, "dev", "eth0", "nodad")
        for name in ("lb", "s33"):
            ip_command("-n", self.tag + name, "addr", "flush", "dev", "eth0")
        for name in ("s31", "s32"):  # direct return: the server has the VIP and neither answers nor asks by it
            subprocess.run([*self.inside(name), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore; "
                            "echo 2 > /proc/sys/net/ipv4/conf/all/arp_announce"], check=True)
            ip_command("-n", self.tag + name, "addr", "add", "%s/%d" % (self.vip, self.bits), "dev", "lo")

    def servers(self, *names, **weights):
        return [{"address": self.net + n, "weight": weights.get(n, 1)} for n in names]

    def start_lb(self, list_of_servers, **vip):
        self.document_of([{"address": self.vip, "port": 80, "servers": list_of_servers, **vip}])
        return self.run_lb("--address=" + self.net + "20")

    def run_lb(self, *addresses):
        self.start("lb", [program("bobtail-crab-lb"), *addresses, "--config=" + self.path("lb.json"),
                          "--ctl=" + self.path("lb.sock"), "--dpdk-port=net_af_packet0,iface=eth0",
                          "--dpdk-buffers=4096", "--dpdk-hugepages=off"], self.inside("lb"))
        return self.ctl("lb")

    def document_of(self, vips):
        with open(self.path("lb.json"), "w") as f:
            json.dump({"probe": {"intervalMilliseconds": 200, "timeoutMilliseconds": 200}, "vips": vips}, f)

    def start_server(self, name, code=SERVER):
        self.start(name, [sys.executable, "-c", code, name], self.inside(name))

    def health(self, ctl, **want):
        wait_for("servers are %s" % want, lambda: all(ctl.counter("crab_servers", health=h) == n for h, n in want.items()),
                 60)

    def in_client(self, *words):
        p = subprocess.run([*self.inside("client"), *words], capture_output=True, text=True, timeout=120)
        self.assertEqual(p.returncode, 0, p.stderr)
        return p.stdout

    def connect(self, times, vip=None):
        return self.in_client(sys.executable, "-c", CLIENT, vip or self.vip, str(times)).split("\n")[:-1]


@unittest.skipUnless(BUILT and os.geteuid() == 0, "needs root (network namespaces) and DPDK")
class Balancer(Hosts):
    def test_c40_kernels_without_the_option_are_served_by_the_hash(self):
        self.start_server("s31")
        self.start_server("s32")
        ctl = self.start_lb(self.servers("31", "32"))
        self.health(ctl, up=2, down=0)
        answers = self.connect(24)
        self.assertEqual(set(answers), {"hello from s31", "hello from s32"})
        self.assertEqual(len(answers), 24)
        self.assertGreaterEqual(ctl.counter("crab_fallback_total", reason="client"), 24)
        self.assertGreaterEqual(ctl.counter("crab_fallback_total", reason="not_syn"), 24)
        self.assertEqual(ctl.counter("crab_redirected_total"), 0)
        # C-26, C-52: a server that goes away takes no new connection with it.
        self.processes["s31"].kill()
        self.processes["s31"].wait()
        self.health(ctl, up=1, down=1)
        self.assertEqual(set(self.connect(20)), {"hello from s32"})

    @unittest.skipUnless(shutil.which("curl"), "no curl")
    def test_c42_curl_goes_through_it(self):
        self.start_server("s31", HTTP)
        self.start_server("s32", HTTP)
        ctl = self.start_lb(self.servers("31", "32"))
        self.health(ctl, up=2, down=0)
        family, url = ("-6", "http://[%s]/" % self.vip) if ":" in self.vip else ("-4", "http://%s/" % self.vip)
        seen = {self.in_client("curl", family, "-sS", "--fail", "--max-time", "60", url) for _ in range(16)}
        self.assertEqual(seen, {"s31", "s32"})

    def test_c21_a_placeholder_is_redirected_and_only_the_syn_comes_by(self):
        self.start("s33", [sys.executable, PEER, "server", self.net + "33"], self.inside("s33"))
        self.start_server("s31")
        ctl = self.start_lb(self.servers("31", "33"))
        self.health(ctl, capable=1, up=1)
        client = self.net + "10"
        self.in_client(sys.executable, PEER, "syn", client, self.vip, "51515")

        def seen():
            with open(self.path("s33.log")) as f:
                return [line for line in map(json.loads, f) if line["src"] == client]

        line = wait_for("the SYN is at the server", seen, 60)[0]
        # The plain server takes part in the hash only (C-43).
        self.assertEqual(line, {"src": client, "sport": 51515, "dport": 80, "vip": self.vip, "right": True, "ttl": 63})
        self.assertEqual(ctl.counter("crab_redirected_total"), 1)

    def test_c26_servers_change_by_sighup_and_the_rest_is_refused(self):
        self.start_server("s31")
        self.start_server("s32")
        ctl = self.start_lb(self.servers("31"))
        self.health(ctl, up=1, down=0)
        vip = {"address": self.vip, "port": 80, "servers": self.servers("31", "32")}
        self.document_of([vip])
        self.processes["lb"].send_signal(signal.SIGHUP)
        self.health(ctl, up=2, down=0)
        self.document_of([{**vip, "policy": "Random"}])
        self.processes["lb"].send_signal(signal.SIGHUP)

        def logged():
            with open(self.path("lb.log")) as f:
                return "vips[0]: differs in more than its servers" in f.read()

        wait_for("the refusal is logged", logged)
        self.assertEqual(len(self.connect(5)), 5)

    def test_c62_reports_are_taken_from_servers_only(self):
        self.start_server("s31")
        ctl = self.start_lb(self.servers("31", "33"), policy="Least")
        self.health(ctl, up=1)
        for host, payload in (("s31", "4352010000500000000000ff"), ("client", "4352010000500000000000ff"), ("s31", "00")):
            subprocess.run([*self.inside(host), sys.executable, "-c", REPORT, payload, self.net + "20"], check=True)
        wait_for("three reports are judged", lambda: (ctl.counter("crab_reports_total"),
                                                      ctl.counter("crab_reports_dropped_total", reason="stranger"),
                                                      ctl.counter("crab_reports_dropped_total", reason="malformed")) == (1, 1, 1))

    def test_c64_with_a_key_unsigned_reports_are_refused(self):
        os.mkdir(self.path("report-keys"))
        with open(self.path("report-keys/key"), "w") as f:
            f.write("k" * 32)
        self.document_of([{"address": self.vip, "port": 80, "servers": self.servers("31"), "policy": "LeastConnections"}])
        ctl = self.run_lb("--address=" + self.net + "20", "--key-dir=" + self.path("report-keys"))
        subprocess.run([*self.inside("s31"), sys.executable, "-c", REPORT, "4352010000500000000000ff", self.net + "20"], check=True)
        wait_for("it is judged", lambda: ctl.counter("crab_reports_dropped_total", reason="unsigned") == 1)
        self.assertEqual(ctl.counter("crab_reports_total"), 0)


class BalancerOfIPv6(Balancer):
    net = NET6
    bits = 128

    def test_c9_nobody_looks_behind_extension_headers(self):
        ctl = self.start_lb(self.servers("31"))
        before = ctl.counter("link_rx_dropped_total", reason="ip_options")
        code = ("import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM); s.setblocking(False); "
                "s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, bytes(8)); s.connect_ex((%r, 80))" % self.vip)
        self.in_client(sys.executable, "-c", code)
        wait_for("it is counted", lambda: ctl.counter("link_rx_dropped_total", reason="ip_options") > before)


@unittest.skipUnless(BUILT and os.geteuid() == 0, "needs root (network namespaces) and DPDK")
class BothFamilies(Hosts):
    def test_c9_one_port_serves_vips_of_both(self):
        self.start_server("s31")
        self.start("s33", [sys.executable, PEER, "server", NET6 + "33"], self.inside("s33"))
        ip_command("-n", self.tag + "s31", "addr", "add", NET6 + "200/128", "dev", "lo")
        self.document_of([{"address": NET + "200", "port": 80, "servers": [{"address": NET + "31"}]},
                          {"address": NET6 + "200", "port": 80, "servers": [{"address": NET6 + "31"}, {"address": NET6 + "33"}]}])
        ctl = self.run_lb("--address=" + NET + "20", "--address6=" + NET6 + "20/64")
        self.health(ctl, up=2, capable=1, down=0)
        self.assertEqual(set(self.connect(5, NET + "200")), {"hello from s31"})
        for source in (NET + "20", NET6 + "20"):  # reports come by both addresses
            payload = "435201000050000000000001"
            subprocess.run([*self.inside("s31"), sys.executable, "-c", REPORT, payload, source], check=True)
        wait_for("both reports are taken", lambda: ctl.counter("crab_reports_total") == 2)
        self.in_client(sys.executable, PEER, "syn", NET6 + "10", NET6 + "200", "51515")
        wait_for("the SYN is redirected", lambda: ctl.counter("crab_redirected_total") == 1)


if __name__ == "__main__":
    main()
