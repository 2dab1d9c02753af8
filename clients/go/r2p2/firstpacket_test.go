// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// A message is as long as it may be, and has as many packets as one of that length can need: one more of either is told so.
func TestLargestFirstPacket(t *testing.T) {
	const most = 100 // bytes, and with it no more than two packets
	s := newServer(t, ServerConfig{Handler: upper, MaxMessage: most})
	c := client(t)
	for n, row := range []struct {
		count  uint16
		length int
		want   wire.Type
	}{
		{1, most, wire.Reply}, {1, most + 1, wire.Drop}, {most/minPart + 2, most / 2, wire.ReqRdy}, {most/minPart + 3, most / 2, wire.Drop},
	} {
		h := wire.Header{Type: wire.Request, First: true, Last: row.count == 1, Count: row.count, ReqID: uint16(40 + n)}
		packet, _ := h.Append(nil)
		if _, err := c.WriteToUDPAddrPort(append(packet, strings.Repeat("x", row.length)...), s.Addrs()[0]); err != nil {
			t.Fatal(err)
		}
		if got, _ := receive(t, c); got.Type != row.want || got.ReqID != h.ReqID {
			t.Errorf("%d packets, %d bytes in the first: %+v, want %v", row.count, row.length, got, row.want)
		}
	}
}
