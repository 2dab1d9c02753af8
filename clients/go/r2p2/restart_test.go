// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// K-16: a client of the published implementation that is restarted counts from 1
// again, on the same port. Another request under a name that is done runs, the
// same one is the network's copy.
func TestRestartedClientWithoutExtensions(t *testing.T) {
	s := newServer(t, ServerConfig{})
	c, w := client(t), s.Addrs()[0]
	request := func(id uint16, ext bool, body string) {
		t.Helper()
		h := wire.Header{Type: wire.Request, First: true, Last: true, Ext: ext, ReqID: id, Count: 1}
		b, _ := h.Append(nil)
		if _, err := c.WriteToUDPAddrPort(append(b, body...), w); err != nil {
			t.Fatal(err)
		}
	}
	answered := func(id uint16, body string) {
		t.Helper()
		if h, _ := receive(t, c); h.Type != wire.Reply || h.ReqID != id || string(h.Payload) != body {
			t.Fatalf("%+v, want the reply %q to %d", h, body, id)
		}
	}
	request(1, false, "first")
	answered(1, "FIRST")
	request(1, false, "other")
	answered(1, "OTHER")
	request(1, false, "other")
	request(2, true, "next")
	answered(2, "NEXT") // and none to the copy before it
	request(2, true, "again")
	request(3, true, "last")
	answered(3, "LAST") // X begins anywhere: no other life
}
