#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The router on an SR-IOV virtual function, in an emulated machine.

QEMU emulates an Intel 82576 (igb) with SR-IOV behind a VT-d IOMMU. A Linux guest makes three
virtual functions: the first is given to vfio-pci and bobtail-router's DPDK driver, the others stay
kernel interfaces of a server and a client. A second card is given to it whole, whose driver has receive
interrupts and takes rte_flow rules. Nothing here is a measurement of time: the guest is
interpreted (TCG), some ten times slower than the machine and more when that is busy.

  run.py [--router-options="..."] [--macs="..."] [--console] [--measurements=FILE]

Builds nothing: the programs are those of build/dataplane. Exit status: 0 every check holds, 1 one does
not, 2 this machine lacks something (the message says what).
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

import guest
from guest import Initramfs, Lacking, fetched, kernel_modules, tool

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "dataplane"
MODULES = ["i2c-algo-bit", "dca", "igb", "igbvf", "irqbypass", "vfio", "vfio_iommu_type1", "vfio_virqfd", "vfio-pci-core", "vfio-pci", "veth", "dummy", "tun"]
STORIES = ["router", "programs", "crab", "card"]
# Those that read the programs' sources, or the machine's own packages, are not for this machine.
TESTS = "."
SKIP = "TestReasonsAreTheProgramsOwn|TestEveryDropIsCounted"
FAST = ["loans", "packets", "lockstep"]  # tests of the router's program
PROGRAM_TESTS = ROOT / "build" / "bin" / "redirect.test"
PROGRAMS = ["router", "serve", "load", "crab-lb"]
AGENT = ROOT / "build" / "bin" / "bobtail-redirect"
RATE, SECONDS = 100, 10
PAGES = 20             # connections by each of CRAB's balancers
IDLE = 10             # seconds of the second card's rest
NAPS = 2 * IDLE * 4000  # what two threads that nap would wake, at least
CARD = "52:54:00:00:77:01"  # the second card's MAC
TIME_LIMIT = 1500  # a busy two-core machine needs some 200 s


def document(forwarding):
    return {"apiVersion": "dataplane.bobtail.dev/v1",
            "sources": [{"kind": "RpcService", "namespace": "test", "name": "echo", "uid": "u", "generation": 1}],
            "service": {"name": "echo", "namespace": "test", "placement": "Software", "policy": "JBSQ", "workerQueueDepth": 3,
                        "centralQueueLimit": 65536, "maxQueueMilliseconds": 5000, "forwarding": forwarding,
                        "deviceProfile": "Kernel", "legacyPeers": "Deny", "requestTimeoutMilliseconds": 20000,
                        "workersPerReplica": 2, "holdBack": {"packets": 0, "microseconds": 0}},
            "members": [{"address": "10.77.0.2", "firstPort": 8000, "workers": 2, "name": "server"}],
            "routers": [{"address": "10.77.0.1", "requestPort": 8000, "feedbackPort": 9000, "name": "router"}],
            "keyIds": [1]}


VIPS = {"lb": "10.77.0.200", "xdp": "10.77.0.201"}


def crab_documents():
    """Files of bobtail-redirect on the three hosts, and of bobtail-crab-lb."""
    def uplink(device, *duties):
        return [{"name": device, "placement": "Uplink", "duties": list(duties)}]

    dialled = [{"addr": vip, "port": 80, "roles": "Client", "policy": "RoundRobin", "prefixes": ["10.77.0.0/24"]} for vip in VIPS.values()]
    balanced = [{"addr": VIPS["xdp"], "port": 80, "roles": "Balance", "policy": "RoundRobin", "backends": [{"addr": "10.77.0.2", "state": "UpCRAB"}]}]
    return {"crab-load": {"devices": uplink("eth0", "client"), "vips": dialled},
            "crab-serve": {"devices": uplink("eth0", "server"), "allowEcho": list(VIPS.values())},
            "crab-host": {"devices": uplink("pf0", "balancer"), "vips": balanced},
            "crab-lb": {"vips": [{"address": VIPS["lb"], "port": 80, "policy": "RoundRobin", "servers": [{"address": "10.77.0.2"}]}]}}


def program(name):
    path = BUILD / "apps" / f"bobtail-{name}" / f"bobtail-{name}"
    if not path.exists():
        raise Lacking(f"{path.relative_to(ROOT)} is missing: run hack/dataplane build release")
    return path


def add_guest_files(ramfs, cache, options):
    busybox = guest.busybox(cache)
    ramfs.add(busybox, "/bin/busybox")
    ramfs.add_program(tool("ip", "iproute2"), "/iproute2/ip")
    for name in PROGRAMS:
        ramfs.add_program(program(name), f"/bin/bobtail-{name}")
    for helper in ("ask", "taps"):
        subprocess.run([tool("cc", "gcc"), "-O1", "-static", "-Wall", "-Werror", "-o", ramfs.root / "bin" / helper, HERE / f"{helper}.c"], check=True)
    wanted = ramfs.add_modules(cache, MODULES, {"igb", "igbvf", "vfio-pci"})
    ramfs.add(HERE / "guest-init", "/init")
    for story in ["common", *STORIES]:
        ramfs.add(HERE / f"story-{story}", f"/story-{story}")
    for forwarding in ("Encapsulated", "Transparent"):
        (ramfs.root / "config" / f"{forwarding.lower()}.json").write_text(json.dumps(document(forwarding)))
    for name, content in crab_documents().items():
        (ramfs.root / "config" / f"{name}.json").write_text(json.dumps(content))
    for built in (AGENT, PROGRAM_TESTS):
        if not built.exists():
            raise Lacking(f"{built.relative_to(ROOT)} is missing: make test-sriov builds it")
        ramfs.add(built, f"/bin/{built.name}")
    for name in FAST:
        test = BUILD / "tests" / "fast" / f"test_fast_{name}"
        if not test.exists():
            raise Lacking(f"{test.relative_to(ROOT)} is missing: run hack/dataplane build release")
        ramfs.add_program(test, f"/bin/{test.name}")
    # Where the tests look for the vectors: ../../../dataplane/tests, seen from their package's folder.
    for vectors in (ROOT / "dataplane" / "tests" / "vectors").glob("crab_*.txt"):
        ramfs.add(vectors, f"/tests/dataplane/tests/vectors/{vectors.name}")
    (ramfs.root / "tests" / "operator" / "internal" / "redirect").mkdir(parents=True)
    (ramfs.root / "keys" / "1").write_text(bytes(range(16)).hex() + "\n")
    (ramfs.root / "settings").write_text(f'MODULES="{" ".join(wanted)}"\nHUGEPAGES={options.hugepages}\nMACS="{options.macs}"\nCARD={CARD}\nRATE={RATE}\n'
                                         f'DURATION={SECONDS}s\nIDLE={IDLE}\nPAGES={PAGES}\nTESTS="{options.tests}"\nSKIP="{SKIP}"\nFAST="{" ".join(FAST)}"\nSTORIES="{" ".join(options.only)}"\nROUTER_OPTIONS="{options.router_options}"\n')
    return busybox


def qemu(cache, initrd):
    return guest.qemu(cache, initrd, cpus=2, memory=2048, devices=[*guest.card("0", "hubport,hubid=0"), *guest.card("1", "hubport,hubid=0", mac=CARD)])


def boot(argv, env, console):
    """Runs the machine to its end and returns its console."""
    lines, started = [], time.monotonic()
    p = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    timer = threading.Timer(TIME_LIMIT, p.kill) # a machine that hangs says nothing either
    timer.start()
    try:
        for line in p.stdout:
            lines.append(line.rstrip())
            if console:
                print(lines[-1], flush=True)
            elif line.startswith("STAGE"):
                print(f"{time.monotonic() - started:6.0f} s  {line.split(maxsplit=2)[2].rstrip()}", flush=True)
        if time.monotonic() - started >= TIME_LIMIT:
            lines.append(f"RESULT failed the machine did not finish within {TIME_LIMIT} s")
    finally:
        timer.cancel()
        p.kill()
        p.wait()
    return lines


class Checks:
    def __init__(self, lines):
        self.results = dict(m.groups() for m in (re.match(r"RESULT (\S+) ?(.*)", x) for x in lines) if m)
        self.passed = self.failed = 0

    def hold(self, what, ok, shown=""):
        self.passed += bool(ok)
        self.failed += not ok
        print(f"{'ok    ' if ok else 'FAILED'}  {what}{': ' + str(shown) if shown != '' else ''}")

    def json(self, name):
        text = self.results.get(name, "")
        try:
            return json.loads(text[text.index("{"):])
        except ValueError:
            return {}

    def forwarding(self, kind):
        ping = self.results.get(f"ping-{kind}", "no result")
        self.hold(f"{kind}: the VF answers ping", "5 packets received" in ping, ping)
        sums = self.results.get(f"sums-{kind}", "no result")
        self.hold(f"{kind}: checksums are the VF's", "the device completes those sent, the device checks those received" in sums, sums)
        answered = 0
        for load in (f"load-{kind}", f"load-{kind}-large"):
            r = self.json(load)
            offered, completed = r.get("offered", -1), r.get("completed", -2)
            answered += max(completed, 0)
            self.hold(f"{kind}: every request is answered ({load})", offered == completed > 0 and self.results.get(load, "1").startswith("0 "),
                      f"{completed} of {offered}")
        self.counters(kind, answered)
        for who in ("router", "server"):
            code = self.results.get(f"stop-{who}-{kind}", "no result")
            self.hold(f"{kind}: the {who} stops cleanly", code == "0", code)

    def totals(self, name):
        """Counters of a result, over their labels."""
        total = {}
        for c in self.json(name).get("counters", []):
            total[c["name"]] = total.get(c["name"], 0) + c["value"]
        return total

    def card(self):
        """The second card: interrupts and rte_flow of its driver."""
        said = self.results.get("card-log", "no result")
        self.hold("card: an idle thread waits for the receive interrupt", "sleeps until the device's receive interrupt" in said, said)
        self.hold("card: the driver takes a rule for each port", "rte_flow" not in said)
        ping = self.results.get("card-ping", "no result")
        self.hold("card: it answers ping", "5 packets received" in ping, ping)
        for load in ("load-card-rare", "load-card"):
            r = self.json(load)
            self.hold(f"card: every request is answered ({load})", r.get("offered", -1) == r.get("completed", -2) > 0, f"{r.get('completed')} of {r.get('offered')}")
        before, after = self.totals("card-idle-before"), self.totals("card-idle-after")
        wakeups = after.get("io_wakeups_total", 0) - before.get("io_wakeups_total", 0)
        self.hold(f"card: no naps in {IDLE} s without requests (they would be {NAPS:,} wake-ups)", 0 < wakeups < NAPS / 10, wakeups)
        ticks = [int(self.results.get(f"card-idle-{when}", "0").split()[0]) for when in ("before", "after")]
        self.hold("card: meanwhile the router's two threads leave three quarters of a processor alone", 0 <= ticks[1] - ticks[0] < IDLE * 100 / 4, f"{ticks[1] - ticks[0]} ticks of 10 ms")
        # The emulated card keeps its rules and does not look at them: software hands over what they would have steered.
        loaded = self.totals("card-loaded")
        self.hold("card: what came by another thread's queue reached its own", loaded.get("io_rx_dropped_total") == 0 and loaded.get("router_feedback_total", 0) > 0,
                  f"{loaded.get('io_rx_handed_over_total')} of {loaded.get('io_rx_packets_total')} packets handed over")
        for who in ("router", "server"):
            code = self.results.get(f"stop-card-{who}", "no result")
            self.hold(f"card: the {who} stops cleanly", code == "0", code)

    def programs(self):
        """CRAB's eBPF programs on the guest's kernel."""
        code, _, said = self.results.get("programs", "1 no result").partition(" ")
        self.hold("programs: this kernel's verifier takes CRAB's and the tests by BPF_PROG_TEST_RUN hold", code == "0", said)
        for name in FAST:
            code, _, said = self.results.get(f"fast-{name}", "1 no result").partition(" ")
            self.hold(f"programs: the router's, in its tests (fast_{name})", code == "0" and not said.startswith("0 ") and said.endswith("0 skipped"), said)

    def crab(self):
        """bobtail-crab-lb on the VF, then the balancer in the driver of the card."""
        lb, client, server = self.totals("crab-lb-counters"), self.json("crab-lb-client").get("counters", {}), self.json("crab-lb-server").get("counters", {})
        pages = self.results.get("crab-lb-pages", "0")
        self.hold("crab-lb: every connection by the VF's VIP was answered", pages == str(PAGES), f"{pages} of {PAGES}")
        self.hold("crab-lb: it redirected each and saw nothing but its SYN", lb.get("crab_redirected_total") == PAGES == lb.get("crab_segments_total"),
                  f"{lb.get('crab_redirected_total')} redirected of {lb.get('crab_segments_total')} segments")
        self.hold("crab-lb: the client's programs believed the server's echoes", client.get("client_synack_accepted") == PAGES, client.get("client_synack_accepted"))
        self.hold("crab-lb: the server's programs wrote them", server.get("server_echo", 0) >= PAGES, server.get("server_echo"))
        self.hold("crab-lb: it stops cleanly", self.results.get("stop-crab-lb") == "0", self.results.get("stop-crab-lb", "no result"))
        host, pages = self.json("crab-xdp-host").get("counters", {}), self.results.get("crab-xdp-pages", "0")
        said = self.results.get("crab-xdp-log", "no result")
        self.hold("native XDP: the card's driver runs the balancer", "XDP Native" in said, said)
        self.hold("native XDP: every connection was answered", pages == str(PAGES), f"{pages} of {PAGES}")
        self.hold("native XDP: each was redirected", host.get("lb_syn_redirected", 0) + host.get("lb_syn_repeated", 0) >= PAGES, {k: v for k, v in host.items() if k.startswith("lb_") and v})
        seen = self.results.get("crab-xdp-taps", "no result")
        self.hold("native XDP: all but the first came up to nobody: the driver sent them back by XDP_TX", seen.isdigit() and int(seen) <= 2, f"{seen} came up")

    def counters(self, kind, answered):
        total = self.totals(f"counters-{kind}")
        self.hold(f"{kind}: the router forwarded each of them", total.get("router_forwarded_total", 0) >= answered > 0, total.get("router_forwarded_total"))
        for name in ("link_rx_frames_total", "link_tx_frames_total"):
            self.hold(f"{kind}: {name}", total.get(name, 0) > answered, total.get(name))
        self.hold(f"{kind}: nothing was refused on its way out", total.get("link_tx_dropped_total") == 0, total.get("link_tx_dropped_total"))
        members = self.json(f"state-{kind}").get("members", [])
        self.hold(f"{kind}: all credits are back", members and all(m.get("outstanding") == 0 for m in members), len(members))


def judge(lines, stories, measurements=None):
    c = Checks(lines)
    ended = any(re.match(r"STAGE \S+ end", x) for x in lines) and "failed" not in c.results
    if not ended:
        print("\n".join(lines[-60:]))
        c.hold("the story ran to its end", False, c.results.get("failed", "the machine stopped before; its last words stand above"))
    for kind in ("encapsulated", "transparent") if ended and "router" in stories else ():
        c.forwarding(kind)
    if ended and "programs" in stories:
        c.programs()
    if ended and "crab" in stories:
        c.crab()
    if ended and "card" in stories:
        c.card()
    print(f"{c.passed} passed, {c.failed} failed")
    if measurements:
        rows = [{"name": "sriov_checks_passed", "value": c.passed}, {"name": "sriov_checks_failed", "value": c.failed}]
        pathlib.Path(measurements).write_text(json.dumps(rows) + "\n")
    return 1 if c.failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--router-options", default="", help="more options for bobtail-router")
    parser.add_argument("--macs", default="02:00:00:00:07:01 02:00:00:00:07:02 02:00:00:00:07:03",
                        help="MACs the PF sets for the three VFs, as sriov-cni does; empty: each VF draws its own")
    parser.add_argument("--hugepages", type=int, default=128, help="2 MiB pages in the guest")
    parser.add_argument("--only", default=",".join(STORIES), help="stories to play: " + ", ".join(STORIES))
    parser.add_argument("--tests", default=TESTS, help="which tests of CRAB's programs to play, as go test -run takes it")
    parser.add_argument("--console", action="store_true", help="show the guest's console")
    parser.add_argument("--measurements", help="write figures for measure/report/report.py here")
    options = parser.parse_args()
    options.only = options.only.split(",")
    if not set(options.only) <= set(STORIES):
        parser.error(f"--only takes {', '.join(STORIES)}")
    try:
        cache = fetched()
        with tempfile.TemporaryDirectory(prefix="bobtail-sriov-") as work:
            ramfs = Initramfs(pathlib.Path(work) / "root")
            busybox = add_guest_files(ramfs, cache, options)
            initrd = pathlib.Path(work) / "initrd.gz"
            ramfs.pack(busybox, initrd)
            print(f"sriov: initramfs of {initrd.stat().st_size >> 20} MiB; booting", flush=True)
            return judge(boot(*qemu(cache, initrd), options.console), options.only, options.measurements)
    except Lacking as e:
        print(f"sriov: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
