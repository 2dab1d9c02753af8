// SPDX-License-Identifier: Apache-2.0

// Package crabplan says what CRAB should do for a cluster: which addresses are
// balanced, onto which servers, and which Services it cannot serve and why. It
// is pure; operator and agents call it with what they have seen, and come to the
// same answer.
package crabplan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// Bounds of a node's tables (dataplane/bpf/crab_layout.h).
const (
	MaxVIPs     = v1alpha1.MaxNodeVIPs
	MaxBackends = 4096
)

// Input is what the plan is made from. Services that CRAB has nothing to do
// with, and slices of other Services, do no harm.
type Input struct {
	Services []corev1.Service
	Slices   []discoveryv1.EndpointSlice
	Nodes    []corev1.Node
	// Pool holds the addresses Services may get. One outside of it is refused
	// even if it stands in a status: whoever may write that could otherwise
	// have the nodes announce any address.
	Pool Pool
}

// Plan is in order of address and port, and of Service; the same input gives
// the same plan.
type Plan struct {
	VIPs     []VIP
	Refusals []Refusal
}

// Kind says whose address a VIP is.
type Kind string

const (
	// LoadBalancer is an address of the pool, announced by one of the nodes.
	LoadBalancer Kind = "LoadBalancer"
	// NodePort is an address of a node. Whoever does not know redirects is
	// served by kube-proxy there.
	NodePort Kind = "NodePort"
)

// VIP is one address and port that clients dial.
type VIP struct {
	Addr    netip.Addr
	Port    uint16
	Kind    Kind
	Service types.NamespacedName
	// Revision changes with the Service, not with its pods; agents acknowledge it.
	Revision string
	// Policy is one of crabwords.Policies.
	Policy string
	// Backends are all servers, by address. They listen on Port.
	Backends []Backend
	// KeepsClients says that servers must see their clients' addresses: externalTrafficPolicy: Local.
	KeepsClients bool
	// Node has the address; of a NodePort only.
	Node string
	// Local says that Node has a ready pod itself: it redirects nobody.
	Local bool
	// Switch redirects connections in the place of a node; empty: none does.
	Switch string
	// Excluded counts endpoints that listen on another port (C-6); Cut those for
	// which the pool has no place.
	Excluded, Cut int
}

// State is what the API server says of a server.
type State string

const (
	// Ready servers take connections, if probes agree.
	Ready State = "Ready"
	// Draining servers get no new connection.
	Draining State = "Draining"
	// NotReady servers get none either. They are in the plan so that redirects
	// from them are believed on every node before one node sends the first there.
	NotReady State = "NotReady"
)

// Backend is one server: a pod, or for a NodePort a node with pods.
type Backend struct {
	Addr   netip.Addr
	Node   string
	Weight uint16
	State  State
}

// ByLoad says that the policy needs to know how many connections servers have (C-62).
func (v VIP) ByLoad() bool { return v.Policy == "PowerOfTwo" || v.Policy == "Least" }

// Prefixes are the sources from which redirects of this VIP may come (C-91).
func (v VIP) Prefixes() []netip.Prefix {
	out := make([]netip.Prefix, len(v.Backends))
	for i, b := range v.Backends {
		out[i] = netip.PrefixFrom(b.Addr, b.Addr.BitLen())
	}
	return out
}

// Refusal says that CRAB does not serve a Service, or not in one respect.
type Refusal struct {
	Service types.NamespacedName
	// Rule is the reason of the condition bobtail.dev/Accepted.
	Rule string
	// Message says what is wrong and what to do.
	Message string
}

// Make makes the plan. Of Services that exclude each other the older one wins.
func Make(in Input) Plan {
	services := slices.DeleteFunc(slices.Clone(in.Services), func(s corev1.Service) bool { return !Concerns(&s) })
	slices.SortFunc(services, func(a, b corev1.Service) int { return Older(&a, &b) })
	nodes, endpoints := NodeAddresses(in.Nodes), byService(in.Slices)
	var p Plan
	taken := map[netip.Addr]string{}
	for name, addrs := range nodes {
		for _, addr := range addrs {
			taken[addr] = "node " + name
		}
	}
	// What a Service has beside IPv4 comes after all that has no other family: it must not push others out.
	beside := make([][]VIP, len(services))
	for i := range services {
		s := &services[i]
		vips, refused := planService(s, endpoints[Name(s)], in.Pool, nodes, taken)
		p.Refusals = append(p.Refusals, refused...)
		vips, beside[i] = firstFamily(vips)
		p.add(s, vips)
	}
	for i, vips := range beside {
		p.add(&services[i], vips)
	}
	slices.SortFunc(p.VIPs, func(a, b VIP) int { return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Port, b.Port)) })
	slices.SortStableFunc(p.Refusals, func(a, b Refusal) int { return cmp.Compare(a.Service.String(), b.Service.String()) })
	return p
}

// firstFamily parts IPv6 entries from the IPv4 ones of a Service that has both.
func firstFamily(vips []VIP) (first, beside []VIP) {
	for _, v := range vips {
		if v.Addr.Is4() {
			first = append(first, v)
		} else {
			beside = append(beside, v)
		}
	}
	if len(first) == 0 {
		return beside, nil
	}
	return first, beside
}

// add is for all of these entries or none.
func (p *Plan) add(s *corev1.Service, vips []VIP) {
	if len(p.VIPs)+len(vips) <= MaxVIPs {
		p.VIPs = append(p.VIPs, vips...)
		return
	}
	family := "IPv4"
	if vips[0].Addr.Is6() {
		family = "IPv6"
	}
	p.Refusals = append(p.Refusals, refuse(s, v1alpha1.ReasonTableFull, fmt.Sprintf(
		"the nodes' tables hold %d addresses with their ports, %d are taken, and this Service needs %d more for %s: use fewer ports, or fewer redirected node ports",
		MaxVIPs, len(p.VIPs), len(vips), family)))
}

// planService plans for one Service and marks the addresses it takes.
func planService(s *corev1.Service, of []discoveryv1.EndpointSlice, pool Pool, nodes Nodes, taken map[netip.Addr]string) ([]VIP, []Refusal) {
	options, refused := readOptions(s)
	if len(refused) > 0 {
		return nil, refused
	}
	var vips []VIP
	if WantsVIP(s) {
		add, no := loadBalancer(s, of, options, pool, taken)
		vips, refused = append(vips, add...), append(refused, no...)
	}
	if WantsRedirect(s) {
		add, no := nodePorts(s, of, options, nodes)
		vips, refused = append(vips, add...), append(refused, no...)
	}
	revision := Revision(s)
	for i := range vips {
		vips[i].Service, vips[i].Policy, vips[i].Revision = Name(s), options.policy, revision
		if vips[i].Kind == LoadBalancer {
			vips[i].Switch = s.Annotations[v1alpha1.AnnotationSwitch]
		}
	}
	return vips, refused
}

// Older orders Services by age, and by name those of one second.
func Older(a, b *corev1.Service) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(Name(a).String(), Name(b).String()))
}

// Name is the name of a Service.
func Name(s *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

func refuse(s *corev1.Service, rule, message string) Refusal {
	return Refusal{Service: Name(s), Rule: rule, Message: message}
}

// Nodes are the addresses of each node by its name, one of each family it has.
type Nodes map[string]map[corev1.IPFamily]netip.Addr

// NodeAddresses are the first InternalIP of each family of each node.
func NodeAddresses(nodes []corev1.Node) Nodes {
	out := Nodes{}
	for _, n := range nodes {
		for _, a := range n.Status.Addresses {
			addr, err := netip.ParseAddr(a.Address)
			if a.Type != corev1.NodeInternalIP || err != nil || addr.Is4In6() {
				continue
			}
			if out[n.Name] == nil {
				out[n.Name] = map[corev1.IPFamily]netip.Addr{}
			}
			if _, have := out[n.Name][FamilyOf(addr)]; !have {
				out[n.Name][FamilyOf(addr)] = addr
			}
		}
	}
	return out
}

// Of are the addresses of one family, by node.
func (n Nodes) Of(family corev1.IPFamily) map[string]netip.Addr {
	out := map[string]netip.Addr{}
	for name, addrs := range n {
		if addr, have := addrs[family]; have {
			out[name] = addr
		}
	}
	return out
}
