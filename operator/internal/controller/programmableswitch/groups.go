// SPDX-License-Identifier: Apache-2.0

// What replication groups ask of a switch that aggregates: who is counted at which address. Pure.
package programmableswitch

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// groupsOf says what each group gets. An address belongs to the oldest of those that name it. A member that no next hop
// leads to is counted and hears nothing: the others are a quorum as before, and its leader serves it.
func groupsOf(all []switchboard.Group, f switches.Fabric, routes []way) (guests []guest, groups []switches.Group) {
	taken := map[netip.Addr]string{}
	for _, asked := range all[:min(len(all), v1alpha1.MaxSwitchServices)] {
		g := guest{namespace: asked.Namespace, name: asked.Name, address: asked.At.Addr().String()}
		if g.reason, g.message = refusedGroup(asked, f, taken); g.reason != "" {
			guests = append(guests, g)
			continue
		}
		taken[asked.At.Addr()] = g.key()
		one := switches.Group{Name: asked.Key(), Version: asked.Version, At: asked.At, Number: asked.Number, Cluster: asked.Cluster, Epoch: asked.Epoch,
			OwnMAC: f.MAC, Unknown: !asked.Known}
		for _, m := range asked.Members {
			member := switches.GroupMember{ID: m.ID, Votes: m.Votes}
			if hop, known := hopOf(m.Address.Addr().String(), routes); m.Address.IsValid() && known {
				member.Address, member.NextHop = m.Address, hop
				g.workers++
			} else {
				g.unreachable = append(g.unreachable, fmt.Sprintf("member %d (%s)", m.ID, m.Address))
			}
			one.Members = append(one.Members, member)
		}
		if !asked.Known {
			g.reason, g.message = v1alpha1.ReasonReconciling, "no leader has said yet who its members are"
		}
		guests, groups = append(guests, g), append(groups, one)
	}
	return guests, groups
}

func refusedGroup(g switchboard.Group, f switches.Fabric, taken map[netip.Addr]string) (reason, text string) {
	at := g.At.Addr()
	switch {
	case !at.Is4():
		return v1alpha1.ReasonInvalidConfiguration, "`spec.aggregator.switch.address` is no IPv4 address"
	case !slices.ContainsFunc(f.Pool, func(p netip.Prefix) bool { return p.Contains(at) }):
		return v1alpha1.ReasonOutsidePool, fmt.Sprintf("`spec.aggregator.switch.address` %s is in no network of the switch's `spec.addressPool`", at)
	case taken[at] != "":
		return v1alpha1.ReasonAddressTaken, fmt.Sprintf("`spec.aggregator.switch.address` %s is that of ReplicationGroup %s, which is older", at, taken[at])
	}
	return "", ""
}
