// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"runtime"
	"sync/atomic"
)

// gather lets the requests leave together that callers send when several replies
// came together. A reader that ends several requests holds what is sent, lets
// their callers run, and then sends all of it; so does the caller that is the
// last of as many as were woken. Nothing waits for a packet that is not under
// way: a reply that came alone holds nothing.
type gather struct {
	holding atomic.Int32 // readers
	awaited atomic.Int32 // callers that were woken and have sent nothing yet
}

// together runs end, which ends requests and says how many.
func (c *Client) together(end func() int) {
	g := &c.gather
	c.turn.Add(1)
	g.holding.Add(1)
	if woken := end(); woken > 1 {
		g.awaited.Store(int32(woken))
		runtime.Gosched()
	}
	g.holding.Add(-1)
	c.flush()
}

// flush sends what waits at any port.
func (c *Client) flush() {
	for _, p := range c.ports {
		p.out.flush()
	}
}

// depart sends what was posted, unless a reader does so soon. It must come
// behind the post: a reader that stops holding looks for packets afterwards.
func (p *clientPort) depart() {
	g := &p.client.gather
	switch {
	case g.holding.Load() == 0:
		p.out.flush()
	case g.awaited.Add(-1) == 0:
		p.client.flush()
	}
}
