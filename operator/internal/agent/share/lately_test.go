// SPDX-License-Identifier: Apache-2.0

package share

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// C-91: the answer of a server that has just left the plan is honest, and must not count as forged; later it is not believed.
func TestServersThatLeftAreBelievedForAWhile(t *testing.T) {
	a, b, c := netip.MustParsePrefix("10.2.0.1/32"), netip.MustParsePrefix("10.2.0.2/32"), netip.MustParsePrefix("10.2.0.3/32")
	one, two := redirect.VIPKey{Addr: netip.MustParseAddr("192.0.2.1"), Port: 80}, redirect.VIPKey{Addr: netip.MustParseAddr("192.0.2.1"), Port: 81}
	start, l := time.Unix(1000, 0), &Lately{}
	for _, step := range []struct {
		at         time.Duration
		plan, want []netip.Prefix
	}{
		{0, []netip.Prefix{a, b, c}, []netip.Prefix{a, b, c}},
		{5 * time.Second, []netip.Prefix{b}, []netip.Prefix{b, a, c}},
		{9 * time.Second, []netip.Prefix{b, c}, []netip.Prefix{b, c, a}},
		{Linger, []netip.Prefix{b}, []netip.Prefix{b, a, c}},
		{Linger + time.Nanosecond, []netip.Prefix{b}, []netip.Prefix{b, c}},
		{19 * time.Second, []netip.Prefix{b}, []netip.Prefix{b, c}},
		{19*time.Second + time.Nanosecond, nil, []netip.Prefix{b}},
		{time.Minute, nil, nil},
	} {
		vips := []redirect.VIP{{VIPKey: one, Prefixes: slices.Clone(step.plan)}, {VIPKey: two}}
		l.Believe(start.Add(step.at), vips)
		if !slices.Equal(vips[0].Prefixes, step.want) || len(vips[1].Prefixes) != 0 {
			t.Errorf("after %s: %v and %v, want %v and none", step.at, vips[0].Prefixes, vips[1].Prefixes, step.want)
		}
	}
	l.Believe(start.Add(2*time.Minute), []redirect.VIP{{VIPKey: one, Prefixes: []netip.Prefix{a}}})
	l.Believe(start.Add(2*time.Minute), nil)
	if len(l.seen) != 0 {
		t.Errorf("servers of a VIP that is gone are remembered: %v", l.seen)
	}
}
