// SPDX-License-Identifier: Apache-2.0

package crabplan

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParsePool(t *testing.T) {
	for _, c := range []struct {
		text, in, out string
		size          int
	}{
		{"", "", "192.0.2.1", 0},
		{"192.0.2.0/28", "192.0.2.1 192.0.2.14", "192.0.2.0 192.0.2.15 192.0.1.255", 14},
		{"192.0.2.8/31", "192.0.2.8 192.0.2.9", "192.0.2.7 192.0.2.10", 2},
		{"192.0.2.8/32", "192.0.2.8", "192.0.2.9", 1},
		{" 192.0.2.10-192.0.2.12 , 198.51.100.0/30,", "192.0.2.10 192.0.2.12 198.51.100.1 198.51.100.2", "192.0.2.9 192.0.2.13 198.51.100.0 198.51.100.3 fd00::1", 5},
	} {
		p, err := ParsePool(c.text)
		if err != nil || p.Size() != c.size {
			t.Errorf("%q: %d addresses, %v", c.text, p.Size(), err)
		}
		for _, a := range strings.Fields(c.in) {
			if !p.Contains(netip.MustParseAddr(a)) {
				t.Errorf("%q lacks %s", c.text, a)
			}
		}
		for _, a := range strings.Fields(c.out) {
			if p.Contains(netip.MustParseAddr(a)) {
				t.Errorf("%q has %s", c.text, a)
			}
		}
	}
	for text, part := range map[string]string{
		"192.0.2.1/24":                  "write 192.0.2.0/24",
		"192.0.2.1":                     "neither an IPv4 network",
		"192.0.2.9-192.0.2.1":           "neither",
		"192.0.2.9-x":                   "neither",
		"fd00::/64":                     "neither",
		"fd00::1-fd00::2":               "neither",
		"127.0.0.0/24":                  "reaches to 127.0.0.1",
		"223.255.255.0-224.0.0.1":       "reaches to 224.0.0.1",
		"0.0.0.0/0":                     "reaches to 0.0.0.1",
		"240.0.0.0/24":                  "reaches to 240.0.0.1",
		"10.0.0.0/8":                    "at most 65536",
		"192.0.2.0/24,192.0.2.9/32":     "overlaps",
		"10.0.0.0/17,10.1.0.0-10.9.9.9": "at most 65536",
	} {
		if _, err := ParsePool(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q", text, err, part)
		}
	}
}

func TestChoose(t *testing.T) {
	p := mustPool(t, "192.0.2.0/30,198.51.100.7/32")
	taken := map[netip.Addr]bool{}
	isTaken := func(a netip.Addr) bool { return taken[a] }
	first, _ := p.Choose("shop/web", isTaken)
	for range p.Size() {
		a, ok := p.Choose("shop/web", isTaken)
		if !ok || taken[a] || !p.Contains(a) {
			t.Fatalf("chose %s, %v with %v taken", a, ok, taken)
		}
		taken[a] = true
	}
	if a, ok := p.Choose("shop/web", isTaken); ok {
		t.Errorf("an exhausted pool gave %s", a)
	}
	delete(taken, first)
	if a, _ := p.Choose("shop/web", isTaken); a != first {
		t.Errorf("made anew, the Service gets %s and not its %s", a, first)
	}
	if _, ok := (Pool{}).Choose("x", isTaken); ok {
		t.Error("an empty pool gave an address")
	}
}
