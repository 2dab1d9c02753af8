// SPDX-License-Identifier: Apache-2.0

package crabplan

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// byService sorts the slices by the Service they belong to.
func byService(all []discoveryv1.EndpointSlice) map[types.NamespacedName][]discoveryv1.EndpointSlice {
	out := map[types.NamespacedName][]discoveryv1.EndpointSlice{}
	for _, e := range all {
		if name := e.Labels[discoveryv1.LabelServiceName]; name != "" {
			key := types.NamespacedName{Namespace: e.Namespace, Name: name}
			out[key] = append(out[key], e)
		}
	}
	return out
}

// ofFamily are the slices of one family: of a dual-stack Service each pod stands
// in one of either.
func ofFamily(all []discoveryv1.EndpointSlice, family corev1.IPFamily) []discoveryv1.EndpointSlice {
	var out []discoveryv1.EndpointSlice
	for _, e := range all {
		if string(e.AddressType) == string(family) {
			out = append(out, e)
		}
	}
	return out
}

// stateOf reads an endpoint's conditions; what is left out has the meaning the
// API gives it.
func stateOf(c discoveryv1.EndpointConditions) State {
	ready := c.Ready == nil || *c.Ready
	serving := ready
	if c.Serving != nil {
		serving = *c.Serving
	}
	switch {
	case ready:
		return Ready
	case serving && c.Terminating != nil && *c.Terminating:
		return Draining
	}
	return NotReady
}

// better orders states: an endpoint that is in two slices for a moment counts
// with the better one.
func better(a, b State) bool {
	order := []State{NotReady, Draining, Ready}
	return slices.Index(order, a) > slices.Index(order, b)
}

// portOf is the port of a slice that belongs to a Service's port; 0 when it has none.
func portOf(e *discoveryv1.EndpointSlice, p corev1.ServicePort) int32 {
	for _, q := range e.Ports {
		name := ""
		if q.Name != nil {
			name = *q.Name
		}
		if name == p.Name && q.Port != nil && (q.Protocol == nil || *q.Protocol == corev1.ProtocolTCP) {
			return *q.Port
		}
	}
	return 0
}

// pods are the servers of one port of a Service.
type pods struct {
	backends      []Backend
	excluded, cut int
	other         int32 // a port that excluded ones listen on
}

func podsOf(of []discoveryv1.EndpointSlice, p corev1.ServicePort, o options) pods {
	var out pods
	best := map[netip.Addr]Backend{}
	for i := range of {
		port := portOf(&of[i], p)
		if port == 0 {
			continue
		}
		if port != p.Port {
			out.excluded, out.other = out.excluded+len(of[i].Endpoints), port
			continue
		}
		for _, b := range backendsOf(&of[i], o) {
			if old, twice := best[b.Addr]; !twice || better(b.State, old.State) {
				best[b.Addr] = b
			}
		}
	}
	out.backends, out.cut = bounded(best)
	return out
}

func backendsOf(e *discoveryv1.EndpointSlice, o options) []Backend {
	var out []Backend
	for _, p := range e.Endpoints {
		if len(p.Addresses) == 0 {
			continue
		}
		addr, err := netip.ParseAddr(p.Addresses[0]) // the API server wants one address per endpoint
		if err != nil || string(FamilyOf(addr)) != string(e.AddressType) {
			continue
		}
		b := Backend{Addr: addr, State: stateOf(p.Conditions)}
		if p.NodeName != nil {
			b.Node = *p.NodeName
		}
		b.Weight = o.weight(b.Node)
		out = append(out, b)
	}
	return out
}

// nodesOf are the nodes that have pods of a port. Each weighs what its ready pods
// weigh together.
func nodesOf(of []discoveryv1.EndpointSlice, p corev1.ServicePort, o options, nodes map[string]netip.Addr) ([]Backend, int) {
	pods := map[netip.Addr]Backend{}
	for i := range of {
		if portOf(&of[i], p) == 0 {
			continue
		}
		for _, b := range backendsOf(&of[i], o) {
			if old, twice := pods[b.Addr]; !twice || better(b.State, old.State) {
				pods[b.Addr] = b
			}
		}
	}
	best := map[netip.Addr]Backend{}
	for _, pod := range pods {
		addr, known := nodes[pod.Node]
		if !known {
			continue
		}
		b, there := best[addr]
		if !there {
			b = Backend{Addr: addr, Node: pod.Node, State: pod.State}
		}
		if better(pod.State, b.State) {
			b.State, b.Weight = pod.State, 0
		}
		if pod.State == b.State {
			b.Weight = min(b.Weight+pod.Weight, 1000)
		}
		best[addr] = b
	}
	return bounded(best)
}

// bounded sorts the servers by address and leaves out what a pool has no place
// for, ready ones last. When all that serve are terminating they keep serving,
// as kube-proxy has it.
func bounded(best map[netip.Addr]Backend) ([]Backend, int) {
	if len(best) == 0 {
		return nil, 0
	}
	var out []Backend
	ready := false
	for _, b := range best {
		out, ready = append(out, b), ready || b.State == Ready
	}
	for i := range out {
		if !ready && out[i].State == Draining {
			out[i].State = Ready
		}
	}
	slices.SortFunc(out, func(a, b Backend) int {
		switch {
		case better(a.State, b.State):
			return -1
		case better(b.State, a.State):
			return 1
		}
		return a.Addr.Compare(b.Addr)
	})
	cut := max(0, len(out)-MaxBackends)
	out = out[:len(out)-cut]
	slices.SortFunc(out, func(a, b Backend) int { return a.Addr.Compare(b.Addr) })
	return out, cut
}
