// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// clientsNamed is how many clients an event names; the others are a number.
const clientsNamed = 3

// serviceRef is a Service as an event refers to it.
type serviceRef struct {
	name types.NamespacedName
	uid  types.UID
}

// fell is one reason for which clients of a VIP fall back.
type fell struct {
	vip    redirect.VIPKey
	reason string
}

// fallen finds news among the connections that fell back lately. The kernel remembers a few on each CPU, so that the
// clients are examples; how many there were stands in the counters.
type fallen struct {
	last time.Time // of the last look
	told map[fell]time.Time
}

// news are the clients of each VIP and reason that was not told of within tellAgain; what came before the first look is none.
func (f *fallen) news(now time.Time, all []redirect.FellBack, relayed bool) map[fell][]netip.Addr {
	before := f.last
	f.last = now
	if f.told == nil {
		f.told = map[fell]time.Time{}
		return nil
	}
	maps.DeleteFunc(f.told, func(_ fell, at time.Time) bool { return now.Sub(at) >= tellAgain })
	out := map[fell][]netip.Addr{}
	for _, one := range all {
		at, key := now.Add(-one.Ago), fell{one.VIP, one.Reason}
		if _, was := f.told[key]; was || !at.After(before) || relayed && one.Reason == answeredByVIP {
			continue
		}
		if !slices.Contains(out[key], one.Client) {
			out[key] = append(out[key], one.Client)
		}
	}
	for key := range out {
		f.told[key] = now
		slices.SortFunc(out[key], netip.Addr.Compare)
	}
	return out
}

// some names clients, and how many more there were.
func some(clients []netip.Addr) string {
	var names []string
	for _, c := range clients[:min(len(clients), clientsNamed)] {
		names = append(names, c.String())
	}
	if more := len(clients) - clientsNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

// tellFallen makes an event on the Service whose clients on this node fall back, for each reason.
func (r *reporter) tellFallen(now time.Time, o observed) {
	if r.fellBack == nil {
		return
	}
	all, err := r.fellBack()
	if err != nil {
		slog.Error("who falls back is not known", "error", err)
		return
	}
	news := r.fallen.news(now, all, o.relayed)
	for _, key := range slices.SortedFunc(maps.Keys(news), func(a, b fell) int {
		return cmp.Or(a.vip.Addr.Compare(b.vip.Addr), cmp.Compare(a.vip.Port, b.vip.Port), cmp.Compare(a.reason, b.reason))
	}) {
		ref, known := o.services[key.vip]
		if !known {
			continue
		}
		s := &corev1.Service{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{Namespace: ref.name.Namespace, Name: ref.name.Name, UID: ref.uid},
		}
		r.events.Eventf(s, nil, corev1.EventTypeWarning, v1alpha1.ReasonFallingBack, "Redirect", "%s", short(fmt.Sprintf(
			"clients of %s on node %s (%s) fall back to the path of all packets: %s (counter %s)",
			netip.AddrPortFrom(key.vip.Addr, key.vip.Port), r.node, some(news[key]), whyOf(key.reason), key.reason)))
	}
}

// whyOf says what to look for; a reason without a text of its own says its name.
func whyOf(counter string) string {
	for _, r := range whyClientsFallBack {
		if r.counter == counter {
			return r.why
		}
	}
	return counter
}

// references are the Services of the plan's VIPs.
func references(seen snapshot) map[redirect.VIPKey]serviceRef {
	out := map[redirect.VIPKey]serviceRef{}
	for _, v := range seen.plan.VIPs {
		out[redirect.VIPKey{Addr: v.Addr, Port: v.Port}] = serviceRef{v.Service, seen.services[v.Service]}
	}
	return out
}
