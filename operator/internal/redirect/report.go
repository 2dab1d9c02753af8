// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"fmt"
	"net/netip"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// Report tells of a server's load.
func (n *Node) Report(key VIPKey, server netip.Addr, r Report) error {
	if err := usableAddr("addr", key.Addr); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var entry programs.VIP
	f := familyOf(key.Addr)
	vips := n.m(f, "crab_vips")
	if vips == nil {
		return fmt.Errorf("report for %s:%d: this node knows no IPv6 VIP", key.Addr, key.Port)
	}
	if err := vips.Lookup(key.wire(), &entry); err != nil {
		return fmt.Errorf("report for %s:%d: %w", key.Addr, key.Port, err)
	}
	counters, err := n.loadsOf(f, entry.Id)
	if err != nil {
		return err
	}
	counter, there := counters[server]
	if !there {
		return &FieldError{"backend", fmt.Sprintf("%s is no server of %s:%d", server, key.Addr, key.Port)}
	}
	return n.m(f, "crab_loads").Put(uint32(counter), programs.Load{Open: r.OpenConnections, ReportedNs: monotonic()})
}

// loadsOf finds the load counters of a pool's servers. It remembers them until the
// pool changes: reports come every second, and a pool is 200 KiB to read.
func (n *Node) loadsOf(f family, id uint32) (map[netip.Addr]uint16, error) {
	if known := n.loads[poolID{f, id}]; known != nil {
		return known, nil
	}
	p, err := n.pool(f, id)
	if err != nil {
		return nil, err
	}
	counters := map[netip.Addr]uint16{}
	for i := range p.Backends {
		if b := p.Backend[i]; b.Weight != 0 { // an empty place weighs nothing
			counters[b.Addr] = b.Load
		}
	}
	n.loads[poolID{f, id}] = counters
	return counters, nil
}
