// SPDX-License-Identifier: Apache-2.0

// How much of the pool of addresses is in use, for the operator's metrics.
package redirection

import (
	"net/netip"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// PoolUse is the pool at one moment.
type PoolUse struct {
	Size int
	// Free addresses belong to no Service and to no node.
	Free int
	// Waiting are Services without an address because none was free.
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
	u := PoolUse{Size: s.pool.Size()}
	for _, d := range decisions {
		if d.released || !crabplan.WantsVIP(d.service) {
			continue
		}
		if addr, have := crabplan.Address(d.service); have && s.pool.Contains(addr) {
			taken[addr] = true
		} else if d.accepted.reason == v1alpha1.ReasonPoolExhausted {
			u.Waiting++
		}
	}
	u.Free = u.Size - len(taken)
	return u
}
