// SPDX-License-Identifier: Apache-2.0

package share

import (
	"net/netip"
	"slices"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// Linger is how long a server that has left the plan may still answer as one of the VIP's. Nodes learn of it one after
// the other: a balancer that is behind sends it SYNs, a client's SYN may have been on its way, and the answer is honest.
const Linger = 10 * time.Second

// Lately remembers which servers stood in the plan.
type Lately struct {
	seen map[server]time.Time
}

type server struct {
	vip    redirect.VIPKey
	prefix netip.Prefix
}

// Believe adds the servers that left a moment ago to the sources from which redirects may come (C-91).
func (l *Lately) Believe(now time.Time, vips []redirect.VIP) {
	next := map[server]time.Time{}
	for i := range vips {
		for _, p := range vips[i].Prefixes {
			next[server{vips[i].VIPKey, p}] = now
		}
	}
	for i := range vips {
		vips[i].Prefixes = append(vips[i].Prefixes, l.left(now, vips[i].VIPKey, next)...)
	}
	l.seen = next
}

// left are the servers of a VIP that are in the plan no more, and lately were; next gets them as well.
func (l *Lately) left(now time.Time, vip redirect.VIPKey, next map[server]time.Time) []netip.Prefix {
	var all []netip.Prefix
	for s, last := range l.seen {
		if _, there := next[s]; !there && s.vip == vip && now.Sub(last) <= Linger {
			next[s] = last
			all = append(all, s.prefix)
		}
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	return all
}
