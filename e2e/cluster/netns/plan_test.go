// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"net/netip"
	"strings"
	"testing"
)

func TestPlanGivesEveryNodeItsOwnAddressAndPods(t *testing.T) {
	nodes := Plan(NodeNames(MaxNodes), true)
	cluster, cluster6 := netip.MustParsePrefix(ClusterCIDR), netip.MustParsePrefix(ClusterCIDR6)
	seen := map[string]bool{ControlPlaneIP: true, ControlPlaneIP6: true}
	for _, n := range nodes {
		pods, err := netip.ParsePrefix(n.PodCIDR)
		if err != nil || !cluster.Contains(pods.Addr()) {
			t.Errorf("node %s: pods %s, %v", n.Name, n.PodCIDR, err)
		}
		pods6, err := netip.ParsePrefix(n.PodCIDR6)
		if err != nil || !cluster6.Contains(pods6.Addr()) {
			t.Errorf("node %s: pods %s, %v", n.Name, n.PodCIDR6, err)
		}
		for _, ip := range []string{n.IP, n.IP6} {
			if _, err := netip.ParseAddr(ip); err != nil {
				t.Errorf("node %s: %v", n.Name, err)
			}
		}
		for _, key := range []string{n.Name, n.IP, n.PodCIDR, n.IP6, n.PodCIDR6} {
			if seen[key] {
				t.Errorf("%s is used twice", key)
			}
			seen[key] = true
		}
	}
	if nodes[0].Name != "a" || nodes[25].Name != "z" {
		t.Errorf("names run from %s to %s", nodes[0].Name, nodes[25].Name)
	}
}

func TestBatches(t *testing.T) {
	nodes := Plan(NodeNames(3), false)
	b := NodeBatch(nodes[1], nodes)
	for _, want := range []string{"addr add 10.99.0.12/24 dev eth0", "route add 10.244.0.0/24 via 10.99.0.11", "route add 10.244.2.0/24 via 10.99.0.13"} {
		if !strings.Contains(b, want) {
			t.Errorf("%q is missing in\n%s", want, b)
		}
	}
	if strings.Contains(b, "10.244.1.0/24") {
		t.Errorf("a node must not route its own pods away:\n%s", b)
	}
	at := AttachBatch(nodes[1], 4711)
	if !strings.Contains(at, "peer name eth0 netns 4711") || !strings.Contains(at, "route add 10.244.1.0/24 via 10.99.0.12") {
		t.Error(at)
	}
}

func TestBatchesOfBothFamilies(t *testing.T) {
	for _, dual := range []bool{false, true} {
		nodes := Plan(NodeNames(2), dual)
		all := ControlPlaneBatch(dual) + AttachBatch(nodes[1], 1) + NodeBatch(nodes[1], nodes)
		for _, want := range []string{"addr add fd99::1/64", "route add fd99:244:0:1::/64 via fd99::c", "addr add fd99::c/64 dev eth0 nodad", "route add fd99:244:0:0::/64 via fd99::b"} {
			if strings.Contains(all, want) != dual {
				t.Errorf("dual-stack %v: %q in\n%s", dual, want, all)
			}
		}
		if !dual && strings.Contains(all, "::") {
			t.Errorf("IPv6 where nobody asked for it:\n%s", all)
		}
	}
}

// What goes to a machine's pods goes through the node that is its way out, so that answers do.
func TestAMachineIsReachedTheWayItGoesOut(t *testing.T) {
	plan := Plan([]string{"a", "b"}, false)
	if b := MachineBatch(plan[1], plan[0].IP); !strings.Contains(b, "tuntap add dev tap-b mode tap") || !strings.Contains(b, "route add 10.244.1.0/24 via 10.99.0.11") {
		t.Error(b)
	}
	if b := WayToMachine(plan[1], "10.77.0.0/24"); b != "route add 10.244.1.0/24 via 10.99.0.12\nroute add 10.77.0.0/24 via 10.99.0.12\n" {
		t.Error(b)
	}
}
