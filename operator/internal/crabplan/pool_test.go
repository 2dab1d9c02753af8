// SPDX-License-Identifier: Apache-2.0

package crabplan

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestParsePool(t *testing.T) {
	for _, c := range []struct {
		text, in, out string
		four, six     int
	}{
		{"", "", "192.0.2.1 fd00::1", 0, 0},
		{"192.0.2.0/28", "192.0.2.1 192.0.2.14", "192.0.2.0 192.0.2.15 192.0.1.255 ::ffff:192.0.2.1", 14, 0},
		{"192.0.2.8/31", "192.0.2.8 192.0.2.9", "192.0.2.7 192.0.2.10", 2, 0},
		{"192.0.2.8/32", "192.0.2.8", "192.0.2.9", 1, 0},
		{",192.0.2.8/31", "192.0.2.8 192.0.2.9", "192.0.2.7", 2, 0},
		{" 192.0.2.10-192.0.2.12 , 198.51.100.0/30,", "192.0.2.10 192.0.2.12 198.51.100.1 198.51.100.2", "192.0.2.9 192.0.2.13 198.51.100.0 198.51.100.3 fd00::1", 5, 0},
		{"10.0.0.0/16", "10.0.0.1 10.0.255.254", "10.0.0.0 10.0.255.255", 65534, 0},
		{"fd00::/112", "fd00::1 fd00::ffff", "fd00:: fd00::1:0 192.0.2.1", 0, 65535},
		{"fd00::8/127,fd00::a/128", "fd00::8 fd00::9 fd00::a", "fd00::7 fd00::b", 0, 3},
		{"192.0.2.8/31,fd00::ffff:ffff:ffff:fffe-fd00:0:0:1::1", "192.0.2.9 fd00::ffff:ffff:ffff:ffff fd00:0:0:1::", "fd00::ffff:ffff:ffff:fffd fd00:0:0:1::2", 2, 4},
	} {
		p, err := ParsePool(c.text)
		if four, six := p.Size(corev1.IPv4Protocol), p.Size(corev1.IPv6Protocol); err != nil || four != c.four || six != c.six {
			t.Errorf("%q: %d and %d addresses, %v", c.text, four, six, err)
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
}

func TestParsePoolRefuses(t *testing.T) {
	for text, part := range map[string]string{
		"192.0.2.1/24":        "write 192.0.2.0/24",
		"192.0.2.1":           "neither a network",
		"192.0.2.9-192.0.2.1": "neither",
		"192.0.2.9-x":         "neither",
		"x-192.0.2.9":         "neither",
		"x-y":                 "neither",
		"192.0.2.1-192.0.2.5,192.0.2.5-192.0.2.9": "overlaps",
		"192.0.2.5-192.0.2.9,192.0.2.1-192.0.2.5": "overlaps",
		"fd00::1":                       "neither",
		"fd00::2-fd00::1":               "neither",
		"192.0.2.1-fd00::2":             "neither",
		"fd00::1/64":                    "write fd00::/64",
		"fd00::/64":                     "at most 65536",
		"fd00::/111":                    "at most 65536",
		"fd00::/112,fd00::1:0/127":      "at most 65536",
		"fd00::-fd00::ffff,fd00::8/128": "overlaps",
		"fe80::/112":                    "reaches to fe80::1",
		"ff02::/112":                    "reaches to ff02::1",
		"::/126":                        "reaches to ::1",
		"::ffff:192.0.2.0/120":          "which no Service can have",
		"fd00::1%eth0-fd00::2%eth0":     "which no Service can have",
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
	p := mustPool(t, "192.0.2.0/30,fd00::8/127,198.51.100.7/32,fd00::ffff:ffff:ffff:ffff-fd00:0:0:1::")
	taken := map[netip.Addr]bool{}
	isTaken := func(a netip.Addr) bool { return taken[a] }
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		first, _ := p.Choose("shop/web", family, isTaken)
		for range p.Size(family) {
			a, ok := p.Choose("shop/web", family, isTaken)
			if !ok || taken[a] || !p.Contains(a) || FamilyOf(a) != family {
				t.Fatalf("chose %s, %v with %v taken", a, ok, taken)
			}
			taken[a] = true
		}
		if a, ok := p.Choose("shop/web", family, isTaken); ok {
			t.Errorf("an exhausted pool gave %s", a)
		}
		delete(taken, first)
		if a, _ := p.Choose("shop/web", family, isTaken); a != first {
			t.Errorf("made anew, the Service gets %s and not its %s", a, first)
		}
	}
	if _, ok := mustPool(t, "192.0.2.0/30").Choose("x", corev1.IPv6Protocol, isTaken); ok {
		t.Error("a pool without IPv6 gave an address of it")
	}
}
