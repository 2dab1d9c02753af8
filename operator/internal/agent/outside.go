// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/devices"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// outsideVIP is an address that is announced on a wire whose networks do not have
// it. Hosts look for an address there only if they have its network: others send
// to their router, which knows nothing of it. That may be meant, so it is told and
// not refused.
type outsideVIP struct {
	service  types.NamespacedName
	uid      types.UID
	addr     netip.Addr
	device   string
	networks string
}

// outside are those that this node announces.
func (a *agent) outside(seen snapshot) []outsideVIP {
	networks, err := devices.Networks(a.uplink.Index)
	if err != nil {
		return nil // nothing can be said
	}
	return outside(seen, a.keeper.Owned(), a.uplink.Name, networks)
}

func outside(seen snapshot, owned []netip.Addr, device string, networks []netip.Prefix) []outsideVIP {
	var names []string
	for _, n := range networks {
		names = append(names, n.Masked().String())
	}
	slices.Sort(names)
	var out []outsideVIP
	for _, v := range seen.plan.VIPs {
		in := func(n netip.Prefix) bool { return n.Contains(v.Addr) }
		again := func(o outsideVIP) bool { return o.addr == v.Addr }
		if v.Kind != crabplan.LoadBalancer || !slices.Contains(owned, v.Addr) || slices.ContainsFunc(networks, in) || slices.ContainsFunc(out, again) {
			continue
		}
		out = append(out, outsideVIP{v.Service, seen.services[v.Service], v.Addr, device, strings.Join(slices.Compact(names), ", ")})
	}
	return out
}

// tellOutside makes an event on the Service of each VIP that was not outside before.
func (r *reporter) tellOutside(all []outsideVIP) {
	for _, o := range all {
		if slices.Contains(r.written.outside, o) {
			continue
		}
		s := &corev1.Service{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{Namespace: o.service.Namespace, Name: o.service.Name, UID: o.uid},
		}
		r.events.Eventf(s, nil, corev1.EventTypeWarning, v1alpha1.EventOutsideUplink, "Announce", "%s", fmt.Sprintf(
			"node %s announces on %s, and %s is in none of its networks (%s): only hosts that have its network on that wire find it; take addresses of the nodes' network into crab.vipPool, or let crab.uplink name another device",
			r.node, o.device, o.addr, o.networks))
	}
}
