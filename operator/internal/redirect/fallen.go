// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// FellBack is a connection of a client on this node that took the fall-back path.
type FellBack struct {
	Client netip.Addr
	VIP    VIPKey
	Reason string // the counter that counted it
	Ago    time.Duration
}

// FellBack are the last connections that fell back, some of each CPU and family, in no order; counters tell how many
// there were.
func (n *Node) FellBack() (all []FellBack, err error) {
	for _, f := range n.known() {
		var cpus []programs.Fallen
		if err := n.m(f, "crab_fallen").Lookup(uint32(0), &cpus); err != nil {
			return nil, fmt.Errorf("%s: %w", f.of("crab_fallen"), err)
		}
		now := monotonic()
		for _, cpu := range cpus {
			for _, one := range cpu.Last {
				if one.AtNs == 0 || int(one.Reason) >= len(Reasons) {
					continue
				}
				all = append(all, FellBack{one.Who.Client.Addr(), VIPKey{one.Who.Server.Addr(), one.Who.Server.Port()}, Reasons[one.Reason], since(now, one.AtNs)})
			}
		}
	}
	return all, nil
}
