# SPDX-License-Identifier: Apache-2.0
"""Programs with just the arguments and the capabilities that the operator renders for pods on AF_XDP, on interfaces as a CNI plugin
with IPAM leaves them: the kernel has the address, too. Needs root, as all network namespaces do."""
import json
import os
import subprocess
import unittest

import yaml

from bed import main, program, wait_for
from namespaces import NET, NamespaceBed, ip_command

HERE = os.path.dirname(os.path.abspath(__file__))
RENDERED = os.path.join(HERE, "../../../operator/internal/render/testdata/afxdp.out.yaml")
EXAMPLE = os.path.join(HERE, "../../../examples/afxdp-service.yaml")
PLUGINS = "/usr/lib/cni"
HAVE_DPDK = bool(os.environ.get("BOBTAIL_MEMIF_SWITCH"))
PATIENCE = "--timeout=10s"
DEVICE_LOST = 69  # shell/stop.h


def rendered(component):
    """The first container of a Deployment in the golden file."""
    with open(RENDERED) as f:
        for o in yaml.safe_load_all(f):
            if o and o["kind"] == "Deployment" and o["metadata"]["labels"]["bobtail.dev/component"] == component:
                return o["spec"]["template"]["spec"]["containers"][0]
    raise AssertionError("no Deployment of component " + component)


@unittest.skipUnless(os.geteuid() == 0 and HAVE_DPDK, "network namespaces need root, and this build DPDK")
class DevicePods(NamespaceBed):
    HOSTS = {"client": 10, "router": 20, "server": 30}

    def pod(self, component):
        """What a pod of this component would have: net1 with an address, a run folder, keys, and the address in its file."""
        ns, run = self.tag + component, self.path(component)
        for words in (("down",), ("name", "net1")):
            ip_command("-n", ns, "link", "set", "eth0", *words)
        ip_command("-n", ns, "link", "set", "net1", "up")
        os.mkdir(run)
        with open(os.path.join(run, "address"), "w") as f:
            f.write(NET + "%d\n" % self.HOSTS[component])
        return run

    def command(self, component, run, without=None):
        """The container's program as it stands there, with these capabilities and no others."""
        container = rendered(component)
        env = {e["name"]: e.get("value", "") for e in container["env"]}
        args = []
        for a in container["args"]:
            for name, value in env.items():
                a = a.replace("$(%s)" % name, value)
            args.append(a.replace("/run/bobtail", run).replace("/etc/bobtail/keys", self.path("keys")))
        self.assertEqual(container["securityContext"]["runAsUser"], 0)
        granted = [c for c in container["securityContext"]["capabilities"]["add"] if c != without]
        kept = ",".join(["-all", *("+" + c.lower() for c in granted)])
        name = "bobtail-" + {"router": "router", "server": "serve"}[component]
        return [*self.inside(component), "setpriv", "--bounding-set=" + kept, "--inh-caps=-all", "--no-new-privs", program(name), *args]

    def start_pod(self, component, document):
        run = self.pod(component)
        self.start(component, [*self.command(component, run), "--config=" + document])
        socket = os.path.join(run, "ctl.sock")
        wait_for(component + " listens", lambda: os.path.exists(socket))
        os.symlink(socket, self.path(component + ".sock"))  # where the bed looks for it

    def test_what_is_rendered_serves(self):
        self.start_both()
        self.answered(self.load_inside, 1, "--verify", "--connections=2", PATIENCE, rate=50)
        for component in ("router", "server"):  # each says what it drives, as the interface is
            device = self.ctl(component).state()["device"]
            with open("/proc/self/status") as f:
                cpus = next(line.split()[1] for line in f if line.startswith("Cpus_allowed_list"))
            link = subprocess.run(["ip", "-n", self.tag + component, "-o", "link", "show", "net1"], capture_output=True, text=True, check=True).stdout
            self.assertEqual((device["driver"], device["pciAddress"], device["mtu"], device["hugepagesMebibytes"], device["cpus"]),
                             ("net_af_xdp", "", 1500, 0, cpus))
            self.assertIn("link/ether " + device["mac"], link)
        self.terminate("server")
        self.terminate("router")

    def start_both(self):
        document = self.network_document(["server"], deviceProfile="AFXDP", workersPerReplica=1)
        with open(document) as f:
            text = f.read()
        with open(document, "w") as f:
            f.write(text.replace('"workers": 2', '"workers": 1'))
        self.start_pod("router", document)
        self.start_pod("server", document)
        self.wait_joined("router", 1)

    def last_line(self, component):
        with open(self.path(component + ".log")) as f:
            return f.read().strip().splitlines()[-1]

    def test_an_interface_that_is_taken_away_ends_its_program(self):
        self.start_both()
        for component in ("server", "router"):
            device = self.ctl(component).state()["device"]
            self.assertEqual(device["link"], "Up")
            ip_command("-n", self.tag + component, "link", "del", "net1")
            self.assertEqual(self.processes[component].wait(timeout=60), DEVICE_LOST)
            self.assertIn("interface net1 was taken away: the kernel has it no more here", self.last_line(component))
            again = subprocess.run(self.command(component, self.path(component)), capture_output=True, text=True, timeout=60)
            self.assertEqual(again.returncode, DEVICE_LOST, again.stderr)  # so it is told however late somebody looks
            self.assertIn("there is no such interface here: it was taken away", again.stderr.strip().splitlines()[-1])

    def test_a_link_that_is_down_is_told(self):
        self.start_both()
        server = self.ctl("server")
        for state, word in (("down", "Down"), ("up", "Up")):
            ip_command("-n", self.hub, "link", "set", "p%d" % self.HOSTS["server"], state)
            wait_for("the server's link is " + word, lambda: server.state()["device"]["link"] == word)
        self.wait_joined("router", 1)

    def test_each_capability_is_needed(self):
        for component in ("router", "server"):
            run = self.pod(component)
            for missing in rendered(component)["securityContext"]["capabilities"]["add"]:
                p = subprocess.run(self.command(component, run, without=missing), capture_output=True, text=True, timeout=60)
                self.assertEqual(p.returncode, 1, p.stderr)
                self.assertIn("CAP_" + missing, p.stderr)

    def test_a_program_is_refused_without_its_address(self):
        run = self.pod("router")
        os.unlink(os.path.join(run, "address"))
        p = self.start("router", self.command("router", run))
        self.assertEqual(p.wait(timeout=60), 2)
        with open(self.path("router.log")) as f:
            self.assertIn("--address: cannot read", f.read())


@unittest.skipUnless(os.geteuid() == 0 and HAVE_DPDK, "network namespaces need root, and this build DPDK")
class ExampleNetwork(NamespaceBed):
    """The node of examples/afxdp-service.yaml: its definition's bridge, made by the CNI plugins as they come, beside a pod network."""

    PODS = {"name": "pods", "type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": {
        "type": "host-local", "ranges": [[{"subnet": "10.244.9.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}

    def example(self):
        """The definition's configuration, and the gateway of the service's device. Its IPAM needs an API server: host-local has the same range."""
        with open(EXAMPLE) as f:
            definition, service = yaml.safe_load_all(f)
        network = json.loads(definition["spec"]["config"])
        ipam = network["ipam"]
        self.assertEqual(ipam["type"], "whereabouts")
        network["ipam"] = {"type": "host-local", "ranges": [[{"subnet": ipam["range"], "rangeStart": ipam["range_start"], "rangeEnd": ipam["range_end"]}]]}
        return network, service["spec"]["device"]["gateway"]

    def attach(self, host, interface, network):
        """Has the plugin make an interface in the namespace of a host; returns its address."""
        config = {"cniVersion": "1.0.0", "name": "data", **network}
        config["ipam"] = {"dataDir": self.path("leases"), **config["ipam"]}
        env = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": host, "CNI_NETNS": "/run/netns/" + self.tag + host, "CNI_IFNAME": interface,
               "CNI_PATH": PLUGINS, "PATH": os.environ["PATH"]}
        made = subprocess.run(["ip", "netns", "exec", self.hub, os.path.join(PLUGINS, config["type"])], env=env, input=json.dumps(config),
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        return json.loads(made.stdout)["ips"][0]["address"].split("/")[0]

    def test_clients_of_the_pod_network_are_served(self):
        network, gateway = self.example()
        subprocess.run(["ip", "netns", "exec", self.hub, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"], check=True)
        address = {}
        for host in ("router", "server", "client"):
            self.add(self.tag + host)
            ip_command("-n", self.tag + host, "link", "set", "lo", "up")
            self.attach(host, "eth0", self.PODS)
        for host in ("router", "server"):
            address[host] = self.attach(host, "net1", network)
        d = self.document([], [], keys=(1,), deviceProfile="AFXDP", workersPerReplica=1)
        d["members"] = [{"address": address["server"], "firstPort": 8000, "workers": 1, "name": "server"}]
        d["routers"] = [{"address": address["router"], "requestPort": 8000, "feedbackPort": 9000, "name": "router"}]
        document = self.write_document(d)
        for host, name, *options in (("router", "bobtail-router"), ("server", "bobtail-serve", "--port=8000", "--workers=1")):
            self.start(host, [*self.inside(host), program(name), "--address=" + address[host], "--driver=dpdk",
                              "--dpdk-port=net_af_xdp0,iface=net1,busy_budget=0", "--dpdk-gateway=" + gateway, "--dpdk-hugepages=off",
                              "--ctl=" + self.path(host + ".sock"), "--key-dir=" + self.path("keys"), "--config=" + document, *options])
        self.wait_joined("router", 1)
        got = self.run_load([*self.inside("client"), program("bobtail-load"), "--target=%s:8000" % address["router"], "--rate=50",
                             "--duration=2s", "--warmup=0", "--timeout=20s", "--output=json"], 90)
        self.assertGreater(got["sent"], 0)
        self.assertEqual(got["completed"], got["sent"], got)


if __name__ == "__main__":
    main()
