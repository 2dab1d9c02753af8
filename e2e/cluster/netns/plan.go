// SPDX-License-Identifier: Apache-2.0

// Package netns wires the cluster's network: one namespace for the control
// plane with a bridge in it, one namespace per node, a veth pair between. The
// machine's own network is never touched: every link is created inside a
// namespace of the cluster and dies with it.
package netns

import "fmt"

// The addresses are private to the cluster's namespaces, so several clusters
// can use the same ones at the same time.
const (
	ControlPlaneIP = "10.99.0.1"
	ClusterCIDR    = "10.244.0.0/16"
	ServiceCIDR    = "10.96.0.0/16"
	APIServiceIP   = "10.96.0.1"
	DNSServiceIP   = "10.96.0.10"
	bridge         = "bobtail0"
)

// The same of a dual-stack cluster's IPv6.
const (
	ControlPlaneIP6 = "fd99::1"
	ClusterCIDR6    = "fd99:244::/48"
	ServiceCIDR6    = "fd99:96::/112"
)

// MaxNodes keeps node addresses and pod ranges inside their /24 and /16.
const MaxNodes = 26

// Node is one node's place in the network.
type Node struct {
	Name    string
	IP      string // on the bridge
	PodCIDR string
	// IP6 and PodCIDR6 are empty unless the cluster is dual-stack.
	IP6, PodCIDR6 string
}

// Plan numbers the nodes a, b, c, ….
func Plan(names []string, dual bool) []Node {
	nodes := make([]Node, len(names))
	for i, name := range names {
		nodes[i] = Node{Name: name, IP: fmt.Sprintf("10.99.0.%d", 11+i), PodCIDR: fmt.Sprintf("10.244.%d.0/24", i)}
		if dual {
			nodes[i].IP6, nodes[i].PodCIDR6 = fmt.Sprintf("fd99::%x", 11+i), fmt.Sprintf("fd99:244:0:%x::/64", i)
		}
	}
	return nodes
}

// NodeNames returns the first n names: a, b, c, ….
func NodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = string(rune('a' + i))
	}
	return names
}

// ControlPlaneBatch is input for `ip -batch -` in the control plane namespace.
func ControlPlaneBatch(dual bool) string {
	s := fmt.Sprintf("link set lo up\nlink add %s type bridge\naddr add %s/24 dev %s\nlink set %s up\n", bridge, ControlPlaneIP, bridge, bridge)
	if dual {
		s += fmt.Sprintf("addr add %s/64 dev %s nodad\n", ControlPlaneIP6, bridge)
	}
	return s
}

// AttachBatch is input for `ip -batch -` in the control plane namespace: it
// creates the pair with its far end already in the node's namespace.
func AttachBatch(n Node, nodePid int) string {
	port := "ve-" + n.Name
	s := fmt.Sprintf("link add %s type veth peer name eth0 netns %d\nlink set %s master %s\nlink set %s up\nroute add %s via %s\n",
		port, nodePid, port, bridge, port, n.PodCIDR, n.IP)
	if n.IP6 != "" {
		s += fmt.Sprintf("route add %s via %s\n", n.PodCIDR6, n.IP6)
	}
	return s
}

// NodeBatch is input for `ip -batch -` in a node's namespace: its address, the
// way out, and the way to the pods of every other node.
func NodeBatch(self Node, all []Node) string {
	s := fmt.Sprintf("link set lo up\naddr add %s/24 dev eth0\nlink set eth0 up\nroute add default via %s\n", self.IP, ControlPlaneIP)
	if self.IP6 != "" {
		s += fmt.Sprintf("addr add %s/64 dev eth0 nodad\nroute add default via %s\n", self.IP6, ControlPlaneIP6)
	}
	for _, other := range all {
		if other.Name == self.Name {
			continue
		}
		s += fmt.Sprintf("route add %s via %s\n", other.PodCIDR, other.IP)
		if self.IP6 != "" {
			s += fmt.Sprintf("route add %s via %s\n", other.PodCIDR6, other.IP6)
		}
	}
	return s
}

// Tap is the device by which a machine of its own is on the bridge.
func Tap(n Node) string { return "tap-" + n.Name }

// MachineBatch is input for `ip -batch -` in the control plane namespace: a machine of its own
// is on the bridge, and its pods are reached through the node that is its way to Services, so
// that answers come back the way the questions went.
func MachineBatch(n Node, gateway string) string {
	tap := Tap(n)
	return fmt.Sprintf("tuntap add dev %s mode tap\nlink set %s master %s\nlink set %s up\nroute add %s via %s\n", tap, tap, bridge, tap, n.PodCIDR, gateway)
}

// WayToMachine is input for `ip -batch -` in a node's namespace: to the machine's pods and to
// the network of its card.
func WayToMachine(n Node, card string) string {
	return fmt.Sprintf("route add %s via %s\nroute add %s via %s\n", n.PodCIDR, n.IP, card, n.IP)
}
