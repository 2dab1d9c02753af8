// SPDX-License-Identifier: Apache-2.0

// What replication groups ask of a switch that aggregates, or is their box: who is at which address. Pure.
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
		if asked.Box {
			continue
		}
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

// boxesOf says what each group gets of a switch that is its box. A member that no next hop leads to hears nothing of
// requests, and asks the others for them.
func boxesOf(all []switchboard.Group, f switches.Fabric, routes []way) (guests []guest, boxes []switches.Box) {
	taken := map[netip.Addr]string{}
	for _, asked := range all[:min(len(all), v1alpha1.MaxSwitchServices)] {
		if !asked.Box {
			continue
		}
		g := guest{namespace: asked.Namespace, name: asked.Name, address: asked.At.Addr().String()}
		if g.reason, g.message = refusedGroup(asked, f, taken); g.reason != "" {
			guests = append(guests, g)
			continue
		}
		taken[asked.At.Addr()] = g.key()
		one := switches.Box{Name: asked.Key(), Version: asked.Version, At: asked.At, FeedbackPort: asked.FeedbackPort, Cluster: asked.Cluster, Limit: asked.Limit,
			Unknown: !asked.Known}
		for _, m := range asked.Members {
			if hop, known := hopOf(m.Address.Addr().String(), routes); m.Address.IsValid() && known {
				one.Members = append(one.Members, switches.GroupMember{ID: m.ID, Address: m.Address, NextHop: hop})
				g.workers++
			} else {
				g.unreachable = append(g.unreachable, fmt.Sprintf("member %d (%s)", m.ID, m.Address))
			}
		}
		if !asked.Known {
			g.reason, g.message = v1alpha1.ReasonReconciling, "the group has not begun yet"
		}
		guests, boxes = append(guests, g), append(boxes, one)
	}
	return guests, boxes
}

func refusedGroup(g switchboard.Group, f switches.Fabric, taken map[netip.Addr]string) (reason, text string) {
	at, field := g.At.Addr(), "spec.aggregator.switch.address"
	if g.Box {
		field = "spec.box.switch.address"
	}
	switch {
	case !at.Is4():
		return v1alpha1.ReasonInvalidConfiguration, fmt.Sprintf("`%s` is no IPv4 address", field)
	case !slices.ContainsFunc(f.Pool, func(p netip.Prefix) bool { return p.Contains(at) }):
		return v1alpha1.ReasonOutsidePool, fmt.Sprintf("`%s` %s is in no network of the switch's `spec.addressPool`", field, at)
	case taken[at] != "":
		return v1alpha1.ReasonAddressTaken, fmt.Sprintf("`%s` %s is that of ReplicationGroup %s, which is older", field, at, taken[at])
	}
	return "", ""
}
