// SPDX-License-Identifier: Apache-2.0

// How much of the pool of addresses is in use, for the operator's metrics.
package redirection

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// PoolUse is the pool at one moment, by family.
type PoolUse map[corev1.IPFamily]FamilyUse

// FamilyUse is that of one family.
type FamilyUse struct {
	Size int
	// Free addresses belong to no Service and to no node.
	Free int
	// Waiting are Services that cannot be served because none was free.
	Waiting int
}

func poolUse(s snapshot, decisions []decision) PoolUse {
	taken := map[netip.Addr]bool{}
	for _, n := range s.nodes {
		for _, a := range n.Status.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil && s.pool.Contains(addr) {
				taken[addr] = true
			}
		}
	}
	u := PoolUse{}
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		u[family] = familyUse(s, decisions, family, taken)
	}
	return u
}

func familyUse(s snapshot, decisions []decision, family corev1.IPFamily, taken map[netip.Addr]bool) FamilyUse {
	u := FamilyUse{Size: s.pool.Size(family)}
	var without []decision
	for _, d := range decisions {
		if d.released || !crabplan.WantsVIP(d.service) || !slices.Contains(crabplan.Families(d.service), family) {
			continue
		}
		if addr, have := crabplan.Address(d.service, family); have { // of this pool: decide leaves no other
			taken[addr] = true
		} else {
			without = append(without, d)
		}
	}
	u.Free = u.Size
	for addr := range taken {
		if crabplan.FamilyOf(addr) == family {
			u.Free--
		}
	}
	for _, d := range without { // one that requires both families may wait for the other one
		if d.accepted.Reason == v1alpha1.ReasonPoolExhausted && u.Free == 0 {
			u.Waiting++
		}
	}
	return u
}
