// SPDX-License-Identifier: Apache-2.0

// The addresses of all pods of a service, beside one another: what one annotation
// cannot show is that another pod's says the same, or that it said something else
// before.
package netstatus

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// AnnotationNetwork on a pod is the network at which its peers reach it, as
// namespace/name. A pod without it is reached at its address on the pod network.
const AnnotationNetwork = "bobtail.dev/network"

// late is how long a pod that has its address on the pod network may be without
// network-status. Both are written when its sandbox is made.
const late = 30 * time.Second

// Peer is one pod's address, and what is wrong with it.
type Peer struct {
	// Address is where it is reached; empty: not yet, or nobody can say.
	Address string
	Refusal Refusal
}

// Peers judges the pods of a service, the oldest first. Known are the addresses that
// were accepted before, by pod: a program takes its address when it starts, so these
// stay, whatever becomes of the annotation.
func Peers(pods []*corev1.Pod, known map[string]string, now time.Time) map[string]Peer {
	out, taken := map[string]Peer{}, map[string]string{}
	for _, p := range pods {
		network := p.Annotations[AnnotationNetwork]
		switch address := known[p.Name]; {
		case network == "":
			out[p.Name] = Peer{Address: p.Status.PodIP}
			taken[p.Status.PodIP] = p.Name
		case address != "":
			out[p.Name] = still(p, address)
			taken[address] = p.Name
		}
	}
	for _, p := range pods {
		if _, ok := out[p.Name]; ok {
			continue
		}
		peer := fresh(p, now)
		if other := taken[peer.Address]; peer.Address != "" && other != "" {
			peer = Peer{Refusal: refuse(v1alpha1.ReasonAddressDuplicated, "address %s is that of pod %s already; the network's IPAM gave it twice", peer.Address, other)}
		}
		if peer.Address != "" {
			taken[peer.Address] = p.Name
		}
		out[p.Name] = peer
	}
	return out
}

// fresh judges a pod that was not believed before.
func fresh(p *corev1.Pod, now time.Time) Peer {
	given, refusal := JudgePod(p)
	if refusal.Reason == v1alpha1.ReasonNetworkStatusMissing && p.Status.PodIP != "" && p.Status.StartTime != nil && now.Sub(p.Status.StartTime.Time) >= late {
		refusal = refuse(v1alpha1.ReasonNetworkStatusLate, "annotation %s: still absent %s after the pod's start; is Multus on node %s?",
			AnnotationStatus, late, p.Spec.NodeName)
	}
	if !refusal.None() {
		return Peer{Refusal: refusal}
	}
	return Peer{Address: given.Address().String()}
}

// still keeps an accepted address and says whether the annotation still tells it.
func still(p *corev1.Pod, address string) Peer {
	given, refusal := JudgePod(p)
	a, err := netip.ParseAddr(address)
	if refusal.None() && err == nil && (given.V4 == a || given.V6 == a) {
		return Peer{Address: address}
	}
	told := refusal.Message
	if refusal.None() {
		told = "it tells of " + given.Address().String()
	}
	return Peer{Address: address, Refusal: refuse(v1alpha1.ReasonNetworkStatusEdited,
		"annotation %s was edited after the pod took address %s, where it serves on: %s", AnnotationStatus, address, told)}
}

// JudgePod says what a pod got of the network at which its peers reach it.
func JudgePod(p *corev1.Pod) (Given, Refusal) {
	return Judge(p.Annotations[AnnotationStatus], Wanted{Network: p.Annotations[AnnotationNetwork], Interface: Interface})
}
