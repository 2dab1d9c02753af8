// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"bytes"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// assembly puts a message together from packets in any order. It copies
// what it keeps.
type assembly struct {
	count int      // packets of the message, 0 until the first one is here
	parts [][]byte // by index; nil: missing
	have  int
	bytes int
	full  int       // payload of the packets in the middle, 0 until one is here
	limit int       // bytes
	one   [1][]byte // parts of a message of one packet
}

// minPart bounds how many packets a message within limit can have, so that an
// index cannot make the receiver allocate more than the message could.
const minPart = 512

// add takes one packet. OK and fresh false: an identical duplicate. Any other
// case leaves the assembly as it was.
func (a *assembly) add(h *wire.Header) (m wire.Case, fresh bool) {
	i := int(h.Count)
	if h.First {
		i = 0
	}
	if m := a.check(h, i); m != wire.OK {
		return m, false
	}
	if i < len(a.parts) && a.parts[i] != nil {
		if !bytes.Equal(a.parts[i], h.Payload) {
			if h.First {
				return wire.M11, false
			}
			return wire.M12, false
		}
		return wire.OK, false
	}
	if h.First {
		a.count = int(h.Count)
	}
	if a.parts == nil {
		a.parts = a.one[:0]
	}
	for len(a.parts) <= i {
		a.parts = append(a.parts, nil)
	}
	if i > 0 && !h.Last {
		a.full = len(h.Payload)
	}
	a.parts[i] = append([]byte{}, h.Payload...)
	a.have++
	a.bytes += len(h.Payload)
	return wire.OK, true
}

// place judges where packet i stands among those the message has.
func (a *assembly) place(h *wire.Header, i int) wire.Case {
	switch {
	case h.First && a.count != 0 && a.count != int(h.Count):
		return wire.M11
	case h.First && len(a.parts) > int(h.Count):
		return wire.M9 // packets that came first lie beyond this count
	case h.First:
		return wire.OK
	case a.count != 0 && i >= a.count:
		return wire.M9
	case a.count != 0 && h.Last != (i == a.count-1):
		return wire.M10
	}
	return wire.OK
}

func (a *assembly) check(h *wire.Header, i int) wire.Case {
	if c := a.place(h, i); c != wire.OK {
		return c
	}
	count := a.count
	if h.First {
		count = int(h.Count)
	}
	switch {
	case max(count, i) > a.limit/minPart+2, a.bytes+len(h.Payload) > a.limit:
		return wire.M14
	case i > 0 && !h.Last && a.full != 0 && len(h.Payload) != a.full:
		return wire.M13
	case i > 0 && len(h.Payload) == 0:
		return wire.M13
	}
	return wire.OK
}

func (a *assembly) complete() bool { return a.count != 0 && a.have == a.count }

// missing lists the packets to ask for: packet 0 alone while the count is
// unknown.
func (a *assembly) missing() []int {
	if a.count == 0 {
		return []int{0}
	}
	var out []int
	for i := range a.count {
		if i >= len(a.parts) || a.parts[i] == nil {
			out = append(out, i)
		}
	}
	return out
}

func (a *assembly) message() []byte {
	if a.count == 1 {
		return a.parts[0]
	}
	out := make([]byte, 0, a.bytes)
	for _, p := range a.parts {
		out = append(out, p...)
	}
	return out
}
