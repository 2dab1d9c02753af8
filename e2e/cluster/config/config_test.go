// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
)

func node(i, of int) Node {
	return Node{
		Node: netns.Plan(netns.NodeNames(of), false)[i], Nodes: of, CPUs: 2, MemoryMiB: 24000,
		CgroupRoot: "/bobtail-x/a", NetDir: "/s/net.d", CNIBin: "/cni", OwnCNI: "/s/cni", Runc: "/usr/sbin/runc",
		CACert: "/s/ca.crt", Cert: "/s/k.crt", Key: "/s/k.key", ProxyKube: "/s/proxy",
	}
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	return v
}

func TestNodesTogetherOfferNoMoreThanTheMachineHas(t *testing.T) {
	for _, c := range []struct {
		nodes    int
		cpu, mem string
	}{{1, "0m", "0Mi"}, {2, "1000m", "12000Mi"}, {4, "1500m", "18000Mi"}} {
		r := decode(t, Kubelet(node(0, c.nodes)))["systemReserved"].(map[string]any)
		if r["cpu"] != c.cpu || r["memory"] != c.mem {
			t.Errorf("%d nodes: each reserves %v, want cpu %s memory %s", c.nodes, r, c.cpu, c.mem)
		}
	}
}

// With processors for containers themselves one is reserved, and each node offers the rest.
func TestStaticCPUs(t *testing.T) {
	n := node(0, 2)
	n.StaticCPUs = true
	k := decode(t, Kubelet(n))
	if r := k["systemReserved"].(map[string]any); k["cpuManagerPolicy"] != "static" || r["cpu"] != "300m" || r["memory"] != "12000Mi" {
		t.Errorf("%v %v", k["cpuManagerPolicy"], r)
	}
}

func TestKubeletRefusesStrangers(t *testing.T) {
	k := decode(t, Kubelet(node(0, 2)))
	auth := k["authentication"].(map[string]any)
	if auth["anonymous"].(map[string]any)["enabled"] != false {
		t.Error("anonymous requests must be refused")
	}
	if k["authorization"].(map[string]any)["mode"] != "Webhook" {
		t.Error("the API server must decide on requests")
	}
	if k["failCgroupV1"] != false || k["cgroupRoot"] != "/bobtail-x/a" {
		t.Errorf("control groups: %v %v", k["failCgroupV1"], k["cgroupRoot"])
	}
}

func TestPodRangesAreEachNodesOwn(t *testing.T) {
	a, b := CNI(node(0, 2)), CNI(node(1, 2))
	if !strings.Contains(a, "10.244.0.0/24") || !strings.Contains(b, "10.244.1.0/24") || strings.Contains(b, "10.244.0.0/24") {
		t.Errorf("a: %s\nb: %s", a, b)
	}
}

func TestKubeProxyLeavesTheMachinesLimitsAlone(t *testing.T) {
	p := decode(t, KubeProxy(node(0, 2), ProxyModes[0]))
	if p["conntrack"].(map[string]any)["maxPerCore"] != float64(0) {
		t.Errorf("conntrack: %v", p["conntrack"])
	}
}

func TestKubeProxyRunsInTheModeAskedFor(t *testing.T) {
	for _, mode := range ProxyModes {
		if p := decode(t, KubeProxy(node(0, 2), mode)); p["mode"] != mode {
			t.Errorf("%s: %v", mode, p["mode"])
		}
	}
}

func TestContainerdRunsWithoutResourcePrivilege(t *testing.T) {
	c := Containerd(node(0, 2))
	for _, want := range []string{"restrict_oom_score_adj = true", `BinaryName = "/usr/sbin/runc"`, `sandbox = "` + SandboxImage + `"`, `bin_dirs = ["/cni", "/s/cni"]`} {
		if !strings.Contains(c, want) {
			t.Errorf("%s is missing in\n%s", want, c)
		}
	}
}

func TestCoreDNSManifestIsComplete(t *testing.T) {
	y := CoreDNS("9.9.9")
	for _, placeholder := range []string{"IMAGE", "DNSIP"} {
		if strings.Contains(y, placeholder+"\n") {
			t.Errorf("placeholder %s was left", placeholder)
		}
	}
	for _, want := range []string{"image: localhost/bobtail/embedded-coredns:9.9.9", "clusterIP: 10.96.0.10", "imagePullPolicy: IfNotPresent"} {
		if !strings.Contains(y, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestControlPlaneUsesTheClustersFiles(t *testing.T) {
	pki := func(f string) string { return "/s/pki/" + f }
	for name, args := range map[string][]string{
		"apiserver": APIServer(pki, false), "controller-manager": ControllerManager(pki, false), "scheduler": Scheduler(pki),
	} {
		all := strings.Join(args, " ")
		if !strings.Contains(all, "/s/pki/") || strings.Contains(all, "/var/run/kubernetes") {
			t.Errorf("%s: %s", name, all)
		}
		if strings.Count(all, "--cert-dir=/s/pki/") != 1 {
			t.Errorf("%s would write certificates outside the state folder: %s", name, all)
		}
	}
}

// A dual-stack cluster has both families everywhere, IPv4 first; others have no IPv6.
func TestDualStack(t *testing.T) {
	for _, dual := range []bool{false, true} {
		n := node(0, 2)
		n.Node = netns.Plan([]string{"a"}, dual)[0]
		pki := func(f string) string { return f }
		all := strings.Join(append(APIServer(pki, dual), ControllerManager(pki, dual)...), " ") + CNI(n) + KubeProxy(n, ProxyModes[0]) + NodeIPs(n.Node)
		for _, want := range []string{"10.96.0.0/16,fd99:96::/112", "cluster-cidr=10.244.0.0/16,fd99:244::/48", "fd99:244:0:0::/64", `"10.244.0.0/16,fd99:244::/48"`, `"::/0"`, "10.99.0.11,fd99::b"} {
			if strings.Contains(all, want) != dual {
				t.Errorf("dual-stack %v: %q in\n%s", dual, want, all)
			}
		}
	}
}
