// SPDX-License-Identifier: Apache-2.0

package crabplan

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strings"
)

// Pool is the set of addresses that Services may get.
type Pool struct {
	ranges []span
	text   string
}

type span struct{ first, last uint32 }

// maxPool bounds a pool: one /16.
const maxPool = 1 << 16

// ParsePool reads "192.0.2.0/28,198.51.100.10-198.51.100.20": of a network up to
// /30 all addresses but the first and the last, of a range all.
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
			if s.first <= other.last && other.first <= s.last {
				return Pool{}, fmt.Errorf("%q overlaps with another part of the pool: name each address once", part)
			}
		}
		p.ranges = append(p.ranges, s)
	}
	if n := p.Size(); n > maxPool {
		return Pool{}, fmt.Errorf("%q holds %d addresses, at most %d are allowed", text, n, maxPool)
	}
	return p, nil
}

func parseSpan(part string) (span, error) {
	wrong := fmt.Errorf("%q is neither an IPv4 network such as 192.0.2.0/28 nor a range such as 192.0.2.10-192.0.2.20", part)
	if first, last, isRange := strings.Cut(part, "-"); isRange {
		a, errA := netip.ParseAddr(strings.TrimSpace(first))
		b, errB := netip.ParseAddr(strings.TrimSpace(last))
		if errA != nil || errB != nil || !a.Is4() || !b.Is4() || b.Less(a) {
			return span{}, wrong
		}
		return usable(part, span{number(a), number(b)})
	}
	p, err := netip.ParsePrefix(part)
	if err != nil || !p.Addr().Is4() {
		return span{}, wrong
	}
	if p != p.Masked() {
		return span{}, fmt.Errorf("%q has bits beyond its length: write %s", part, p.Masked())
	}
	s := span{first: number(p.Addr())}
	s.last = s.first | uint32(uint64(1)<<(32-p.Bits())-1)
	if p.Bits() <= 30 {
		s.first, s.last = s.first+1, s.last-1
	}
	return usable(part, s)
}

// usable refuses what no Service can have.
func usable(part string, s span) (span, error) {
	for _, a := range []netip.Addr{address(s.first), address(s.last)} {
		if a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.As4()[0] == 0 || a.As4()[0] >= 240 {
			return s, fmt.Errorf("%q reaches to %s, which no Service can have", part, a)
		}
	}
	return s, nil
}

func number(a netip.Addr) uint32 { b := a.As4(); return binary.BigEndian.Uint32(b[:]) }

func address(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// String is the pool as it was written.
func (p Pool) String() string {
	if p.text == "" {
		return "(empty)"
	}
	return p.text
}

// Size is the number of addresses.
func (p Pool) Size() int {
	n := 0
	for _, s := range p.ranges {
		n += int(s.last-s.first) + 1
	}
	return n
}

// Contains says whether an address is in the pool.
func (p Pool) Contains(a netip.Addr) bool {
	if !a.Is4() {
		return false
	}
	n := number(a)
	for _, s := range p.ranges {
		if s.first <= n && n <= s.last {
			return true
		}
	}
	return false
}

// Choose takes a free address for a Service. It begins to look at a place that
// depends on the name: a Service that is made anew mostly gets its old address,
// and an address that was just released is not the next one given away.
func (p Pool) Choose(name string, taken func(netip.Addr) bool) (netip.Addr, bool) {
	size := p.Size()
	if size == 0 {
		return netip.Addr{}, false
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	start := int(h.Sum32() % uint32(size))
	for i := range size {
		if a := p.at((start + i) % size); !taken(a) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

func (p Pool) at(i int) netip.Addr {
	for _, s := range p.ranges {
		if n := int(s.last-s.first) + 1; i < n {
			return address(s.first + uint32(i))
		} else {
			i -= n
		}
	}
	return netip.Addr{}
}
