// SPDX-License-Identifier: Apache-2.0

package crabplan

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/bits"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Pool is the set of addresses that Services may get, of one family or of both.
type Pool struct {
	ranges []span
	text   string
}

// span is of one family.
type span struct{ first, last netip.Addr }

// maxPool bounds a pool in each family: one /16 of IPv4, one /112 of IPv6.
const maxPool = 1 << 16

// ParsePool reads "192.0.2.0/28,198.51.100.10-198.51.100.20,2001:db8::/120": of a
// range all addresses, of an IPv4 network up to /30 all but the first and the
// last, of an IPv6 network up to /126 all but the first, which its routers have.
func ParsePool(text string) (Pool, error) {
	p := Pool{text: text}
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		s, err := parseSpan(part)
		if err != nil {
			return Pool{}, err
		}
		for _, other := range p.ranges {
			if s.first.Compare(other.last) <= 0 && other.first.Compare(s.last) <= 0 {
				return Pool{}, fmt.Errorf("%q overlaps with another part of the pool: name each address once", part)
			}
		}
		p.ranges = append(p.ranges, s)
		if family := FamilyOf(s.first); p.Size(family) > maxPool {
			return Pool{}, fmt.Errorf("%q holds too many %s addresses, at most %d are allowed: a /16 of IPv4, a /112 of IPv6", text, family, maxPool)
		}
	}
	return p, nil
}

func parseSpan(part string) (span, error) {
	wrong := fmt.Errorf("%q is neither a network such as 192.0.2.0/28 or 2001:db8::/120 nor a range such as 192.0.2.10-192.0.2.20", part)
	if first, last, isRange := strings.Cut(part, "-"); isRange {
		a, errA := netip.ParseAddr(strings.TrimSpace(first))
		b, errB := netip.ParseAddr(strings.TrimSpace(last))
		if errA != nil || errB != nil || a.BitLen() != b.BitLen() || b.Less(a) {
			return span{}, wrong
		}
		return usable(part, span{a, b})
	}
	p, err := netip.ParsePrefix(part)
	if err != nil {
		return span{}, wrong
	}
	if p != p.Masked() {
		return span{}, fmt.Errorf("%q has bits beyond its length: write %s", part, p.Masked())
	}
	s := span{p.Addr(), lastOf(p)}
	if p.Addr().BitLen()-p.Bits() >= 2 {
		s.first = s.first.Next()
		if p.Addr().Is4() {
			s.last = s.last.Prev()
		}
	}
	return usable(part, s)
}

// lastOf is the last address of a network.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

// usable refuses what no Service can have.
func usable(part string, s span) (span, error) {
	for _, a := range []netip.Addr{s.first, s.last} {
		old := a.Is4() && (a.As4()[0] == 0 || a.As4()[0] >= 240)
		if old || a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.Is4In6() || a.Zone() != "" || a.Is6() && a.IsLinkLocalUnicast() {
			return s, fmt.Errorf("%q reaches to %s, which no Service can have", part, a)
		}
	}
	return s, nil
}

// size counts the addresses; more than a pool may have are maxPool + 1.
func (s span) size() int {
	hi, lo := halves(s.last)
	firstHi, firstLo := halves(s.first)
	lo, borrow := bits.Sub64(lo, firstLo, 0)
	hi, _ = bits.Sub64(hi, firstHi, borrow)
	if hi != 0 || lo >= maxPool {
		return maxPool + 1
	}
	return int(lo) + 1
}

// at is the address with a number.
func (s span) at(i int) netip.Addr {
	hi, lo := halves(s.first)
	lo, carry := bits.Add64(lo, uint64(i), 0)
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], hi+carry)
	binary.BigEndian.PutUint64(b[8:], lo)
	return netip.AddrFrom16(b).Unmap()
}

func halves(a netip.Addr) (hi, lo uint64) {
	b := a.As16()
	return binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])
}

// FamilyOf an address.
func FamilyOf(a netip.Addr) corev1.IPFamily {
	if a.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// String is the pool as it was written.
func (p Pool) String() string {
	if p.text == "" {
		return "(empty)"
	}
	return p.text
}

// Size is the number of addresses of a family.
func (p Pool) Size(family corev1.IPFamily) int {
	n := 0
	for _, s := range p.ranges {
		if FamilyOf(s.first) == family {
			n += s.size()
		}
	}
	return n
}

// Contains says whether an address is in the pool.
func (p Pool) Contains(a netip.Addr) bool {
	for _, s := range p.ranges {
		if s.first.Compare(a) <= 0 && a.Compare(s.last) <= 0 {
			return true
		}
	}
	return false
}

// Choose takes a free address of a family for a Service. It begins to look at a
// place that depends on the name: a Service that is made anew mostly gets its old
// address, and an address that was just released is not the next one given away.
func (p Pool) Choose(name string, family corev1.IPFamily, taken func(netip.Addr) bool) (netip.Addr, bool) {
	size := p.Size(family)
	if size == 0 {
		return netip.Addr{}, false
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	start := int(h.Sum32() % uint32(size))
	for i := range size {
		if a := p.at(family, (start+i)%size); !taken(a) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

func (p Pool) at(family corev1.IPFamily, i int) netip.Addr {
	for _, s := range p.ranges {
		if FamilyOf(s.first) != family {
			continue
		}
		n := s.size()
		if i < n {
			return s.at(i)
		}
		i -= n
	}
	return netip.Addr{}
}
