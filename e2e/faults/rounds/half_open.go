// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"encoding/binary"
	"net"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
)

// halfOpenRates are how many requests a second a stranger begins, for an equal
// part of the round each.
var halfOpenRates = []int{120, 1000}

// legitShare is how much of every honest load must be answered beside them.
const legitShare = 0.99

// beginOnly sends first packets of requests to a router and never their rest
// (K-15), from the host whose other programs are the clients.
func (h *happening) beginOnly(e event) error {
	return bed.Inside(h.w.net.Namespace(clientHost), func() error {
		c, err := net.Dial("udp", net.JoinHostPort(h.w.v.address(h.w.v.routerHost(e.victim)), "8000"))
		if err != nil {
			return err
		}
		defer c.Close()
		first := append([]byte{0xCC, 8, 0x00, 0x80, 0, 0, 0, 5}, "fourteen bytes"...)
		id := uint16(h.seed)
		for _, rate := range halfOpenRates {
			began, length := time.Now(), e.length/time.Duration(len(halfOpenRates))
			for sent := 0; time.Since(began) < length; {
				for due := int(time.Since(began).Seconds() * float64(rate)); sent < due; sent++ {
					id++
					binary.BigEndian.PutUint16(first[4:], id)
					_, _ = c.Write(first)
				}
				time.Sleep(time.Millisecond)
			}
		}
		return nil
	})
}

// checkAnswered holds that a stranger who never sends the rest of its requests
// costs others nothing, those of one packet and those of several apart.
func (r *runner) checkAnswered(v *verdict, loads []*load) {
	for _, l := range loads {
		share := float64(l.Completed) / float64(max(1, l.Offered))
		v.hold(share >= legitShare, "half-open", "%s: %d of %d requests were answered beside requests that never become whole (K-15, R-63)", l.name, l.Completed, l.Offered)
		r.total.unanswered = max(r.total.unanswered, 1-share)
	}
}
