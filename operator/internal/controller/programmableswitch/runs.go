// SPDX-License-Identifier: Apache-2.0

// What experiments ask of a switch that makes load. Pure.
package programmableswitch

import (
	"fmt"
	"net/netip"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// runsOf says what each experiment gets. Targets that are in no network of a next hop get no packets, and a run of which
// one is so is not made: what is measured would be another service's.
func runsOf(all []switchboard.Run, f switches.Fabric, routes []way) (guests []guest, runs []switches.Run) {
	var net netip.Prefix
	for _, p := range f.Pool {
		if p.Bits() == switches.NetBits {
			net = p
			break
		}
	}
	for _, r := range all[:min(len(all), v1alpha1.MaxSwitchServices)] {
		g := guest{namespace: r.Namespace, name: r.Name, workers: len(r.Targets)}
		one := switches.Run{Name: r.Key(), Version: r.Version, Number: r.Number, Packets: r.Packets, Rate: r.Rate, TemplateRate: r.TemplateRate,
			TemplatePort: r.TemplatePort, Fixed: r.Fixed, Net: net, OwnMAC: f.MAC}
		for _, t := range r.Targets {
			hop, known := hopOf(t.Addr().String(), routes)
			if !known {
				g.unreachable = append(g.unreachable, t.String())
				continue
			}
			one.Targets = append(one.Targets, switches.RunTarget{Address: t, NextHop: hop})
		}
		switch {
		case !net.IsValid():
			g.reason, g.message = v1alpha1.ReasonInvalidConfiguration, fmt.Sprintf("the switch's `spec.addressPool` has no network of %d bits: half of each packet's stamp is in the rest of its address", switches.NetBits)
		case len(g.unreachable) > 0:
			g.reason, g.message = v1alpha1.ReasonTargetsUnreachable, fmt.Sprintf("no network of the switch's `spec.nextHops` holds %s", g.unreachable[0])
		default:
			runs = append(runs, one)
		}
		guests = append(guests, g)
	}
	return guests, runs
}
