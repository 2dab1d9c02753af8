// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// M-14: what a message of the most bytes can need is taken, as packets and as bytes, and no more; the first packet of a
// request may be shorter than those in the middle, and empty.
func TestAssemblyBounds(t *testing.T) {
	const limit = 10 * minPart
	part := func(first, last bool, n uint16, bytes int) *wire.Header {
		return &wire.Header{Type: wire.Request, First: first, Last: last, Count: n, Payload: make([]byte, bytes)}
	}
	for _, c := range []struct {
		name   string
		before *wire.Header
		then   *wire.Header
		want   wire.Case
	}{
		{"as many packets as there may be", nil, part(true, false, 12, 1), wire.OK},
		{"a packet more", nil, part(true, false, 13, 1), wire.M14},
		{"the last number there may be", nil, part(false, false, 12, 1), wire.OK},
		{"a number beyond", nil, part(false, false, 13, 1), wire.M14},
		{"all bytes in one packet", nil, part(true, true, 1, limit), wire.OK},
		{"a byte more", nil, part(true, true, 1, limit+1), wire.M14},
		{"all bytes in two", part(true, false, 2, limit/2), part(false, true, 1, limit/2), wire.OK},
		{"a byte more in two", part(true, false, 2, limit/2), part(false, true, 1, limit/2+1), wire.M14},
		{"a first one of another size", part(false, false, 1, 1000), part(true, false, 3, wire.RequestFirst), wire.OK},
		{"an empty first one", part(false, false, 1, 1000), part(true, false, 3, 0), wire.OK},
		{"an empty one behind it", part(true, false, 3, wire.RequestFirst), part(false, false, 1, 0), wire.M13},
		{"a last one of another size", part(false, false, 1, 1000), part(false, true, 2, 7), wire.OK},
		{"another size in the middle", part(false, false, 1, 1000), part(false, false, 2, 7), wire.M13},
		{"a first one whose count is behind", part(false, false, 4, 100), part(true, false, 4, 14), wire.M9},
		{"a first one whose count is just enough", part(false, true, 4, 100), part(true, false, 5, 14), wire.OK},
	} {
		a := &assembly{limit: limit}
		if c.before != nil {
			if m, fresh := a.add(c.before); m != wire.OK || !fresh {
				t.Fatalf("%s: %v before it", c.name, m)
			}
		}
		bytes := a.bytes
		if m, fresh := a.add(c.then); m != c.want || fresh != (m == wire.OK) || (a.bytes == bytes+len(c.then.Payload)) != fresh && len(c.then.Payload) > 0 {
			t.Errorf("%s: %v, want %v; %d bytes are kept", c.name, m, c.want, a.bytes)
		}
	}
}
