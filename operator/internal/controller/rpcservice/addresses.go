// SPDX-License-Identifier: Apache-2.0

// Where pods are reached. Members, routers, joined checks, endpoints and status ask here;
// only the sidecars are read at the pods' own addresses.
package rpcservice

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/netstatus"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// pods are all of the service.
func (s *snapshot) pods() []*corev1.Pod { return slices.Concat(s.servers, s.routers) }

// judgedPeers are the addresses of the pods, the ones of the last document first.
func judgedPeers(s *snapshot) map[string]netstatus.Peer {
	known := map[string]string{}
	if s.live.doc != nil {
		for _, m := range s.live.doc.Members {
			known[m.Name] = m.Address
		}
		for _, r := range s.live.doc.Routers {
			known[r.Name] = r.Address
		}
	}
	pods := slices.DeleteFunc(s.pods(), finished)
	sortByAge(pods)
	return netstatus.Peers(pods, known, s.now)
}

// address is where a pod is reached; empty: not yet.
func (s *snapshot) address(p *corev1.Pod) string {
	if p.Annotations[netstatus.AnnotationNetwork] == "" {
		return p.Status.PodIP
	}
	return s.peers[p.Name].Address
}

// addresses are those of a configuration's pods.
func (s *snapshot) addresses(peers render.Peers) map[string]string {
	out := map[string]string{}
	for _, p := range slices.Concat(peers.Servers, peers.Routers) {
		out[p.Name] = s.address(p)
	}
	return out
}

// endpoints are the pods as clients see them.
func endpoints(s *snapshot) []render.Endpoint {
	var out []render.Endpoint
	for _, p := range s.pods() {
		a, err := netip.ParseAddr(s.address(p))
		if err != nil || finished(p) {
			continue
		}
		out = append(out, render.Endpoint{
			Component: p.Labels[v1alpha1.LabelComponent], Pod: p, Address: a.Unmap(), Ready: conditionStatus(p, corev1.PodReady) == corev1.ConditionTrue && !unlinked(s, p),
		})
	}
	slices.SortFunc(out, func(a, b render.Endpoint) int { return a.Address.Compare(b.Address) })
	return out
}

// slicesSeen are what stands in EndpointSlices of the service.
type slicesSeen struct {
	ours   bool // there are some of ours
	theirs bool // Kubernetes' own name pods
}

func seeSlices(all []discoveryv1.EndpointSlice) slicesSeen {
	var seen slicesSeen
	for i := range all {
		switch by := all[i].Labels[discoveryv1.LabelManagedBy]; {
		case by == render.ManagedBy:
			seen.ours = true
		case len(all[i].Endpoints) > 0:
			seen.theirs = true
		}
	}
	return seen
}

// decideAddressed is the verdict of the condition Addressed.
func decideAddressed(s *snapshot) verdict.Verdict {
	var refused []verdict.Verdict
	n := 0
	for _, p := range s.pods() {
		if networkless(s, p) {
			refused = append(refused, verdict.No(v1alpha1.ReasonNetworkNotMade, fmt.Sprintf(
				"pod %s: node %s has not made its network for %s: see kubectl -n %s describe pod %s", p.Name, p.Spec.NodeName, schedulable, p.Namespace, p.Name)))
		}
		if !live(p) {
			continue
		}
		n++
		if r := s.peers[p.Name].Refusal; !r.None() {
			refused = append(refused, verdict.No(r.Reason, "pod "+p.Name+": "+r.Message))
		}
	}
	if v, ok := verdict.Refusals(refused...); !ok {
		return v
	}
	return verdict.Yes(v1alpha1.ReasonAddressed, fmt.Sprintf("%d running pods are reached at an address of their own", n))
}
