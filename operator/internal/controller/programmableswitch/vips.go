// SPDX-License-Identifier: Apache-2.0

// What redirected Services ask of a switch: connections to which address go to which pods. Pure.
package programmableswitch

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/crabwords"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// vipsOf says what each redirected Service gets. The plan has them from the oldest on where they exclude each other.
func vipsOf(all []crabplan.VIP, f switches.Fabric, routes []way) (guests []guest, vips []switches.VIP) {
	for _, v := range all {
		at := slices.IndexFunc(guests, func(g guest) bool { return g.namespace == v.Service.Namespace && g.name == v.Service.Name })
		if at < 0 {
			if len(guests) == v1alpha1.MaxSwitchServices {
				continue
			}
			at = len(guests)
			guests = append(guests, guest{namespace: v.Service.Namespace, name: v.Service.Name, address: v.Addr.String()})
		}
		g := &guests[at]
		if !slices.ContainsFunc(f.Pool, func(p netip.Prefix) bool { return p.Contains(v.Addr) }) {
			g.reason, g.message = v1alpha1.ReasonOutsidePool, fmt.Sprintf("the Service's address %s is in no network of the switch's `spec.addressPool`: make the pool of CRAB a part of it", v.Addr)
			continue
		}
		one := switches.VIP{Name: v.Service.String(), Version: v.Revision, At: netip.AddrPortFrom(v.Addr, v.Port), Random: v.Policy == crabwords.Random, OwnMAC: f.MAC}
		for _, b := range v.Backends {
			if b.State != crabplan.Ready {
				continue
			}
			hop, known := hopOf(b.Addr.String(), routes)
			if !known {
				if text := b.Addr.String(); !slices.Contains(g.unreachable, text) {
					g.unreachable = append(g.unreachable, text)
				}
				continue
			}
			one.Servers = append(one.Servers, switches.Server{Address: b.Addr, Weight: int(b.Weight), NextHop: hop})
		}
		g.workers = max(g.workers, len(one.Servers))
		vips = append(vips, one)
	}
	return guests, slices.DeleteFunc(vips, func(v switches.VIP) bool {
		return slices.ContainsFunc(guests, func(g guest) bool { return g.key() == v.Name && g.reason != "" })
	})
}

// strangers ask for a switch whose program cannot do what they want.
func strangers(s *snapshot, program switches.Program) (out []guest) {
	refuse := func(namespace, name, what string) {
		if slices.ContainsFunc(out, func(g guest) bool { return g.namespace == namespace && g.name == name }) || len(out) == v1alpha1.MaxSwitchServices {
			return
		}
		out = append(out, guest{namespace: namespace, name: name, reason: v1alpha1.ReasonOtherProgram,
			message: fmt.Sprintf("the switch runs Bobtail's program %q, which %s; a switch with another pipeline does", program, what)})
	}
	if program != switches.ProgramRouter {
		for _, a := range s.services {
			refuse(a.service.Namespace, a.service.Name, "places no requests")
		}
	}
	if program != switches.ProgramCRAB {
		for _, v := range s.vips {
			refuse(v.Service.Namespace, v.Service.Name, "redirects no connections")
		}
	}
	for _, g := range s.groups {
		if g.Box && program != switches.ProgramBox {
			refuse(g.Namespace, g.Name, "is the box of no replication group")
		} else if !g.Box && program != switches.ProgramAggregator {
			refuse(g.Namespace, g.Name, "aggregates for no replication group")
		}
	}
	if program != switches.ProgramSLOG {
		for _, r := range s.runs {
			refuse(r.Namespace, r.Name, "makes no load")
		}
	}
	return out
}
