// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// swept is what one sweep did to a map.
type swept struct{ removed, left int }

// add sums the sweeps of one kind of state, of both families.
func (e *Expired) add(kind string, s swept) {
	if e.swept == nil {
		e.swept = map[string]swept{}
	}
	sum := e.swept[kind]
	e.swept[kind] = swept{sum.removed + s.removed, sum.left + s.left}
}

// bounded are the kinds of state in LRU maps, which do not tell whom they push out, and the
// prefix of their counters (dataplane/bpf/crab_kept.h).
var bounded = map[string]struct{ counter, table string }{
	"flows":   {"client_flow_", "crab_flows_out"},
	"back":    {"client_back_", "crab_flows_in"},
	"pending": {"client_pending_", "crab_pending"},
	"opening": {"server_opening_", "crab_opening"},
	"hashed":  {"server_dsr_", "crab_dsr"},
	"relays":  {"lb_relay_", "crab_relays"},
	"later":   {"server_later_", "crab_later"},
	"ports":   {"lb_relay_back_", "crab_relays_back"},
}

// early are those that a sweep took away before their time, because their map filled up, and the counters of them.
var early = map[string]string{
	"flows_early": "client_flow_early", "relays_early": "lb_relay_early", "hashed_early": "server_dsr_early",
}

// countEvictions compares what had been made before the sweep with what was left by it.
// What is made meanwhile may have been counted as left, and must not pass for pushed out:
// what is missed so is found by the next sweep.
func (n *Node) countEvictions(e *Expired, before map[string]uint64) error {
	e.add("flows", swept{left: e.Flows})
	for kind, b := range bounded {
		if err := n.addCounter(b.counter+"expired", uint64(e.swept[kind].removed)); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	for kind, counter := range early {
		if err := n.addCounter(counter, uint64(e.swept[kind].removed)); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	c, err := n.Counters()
	if err != nil {
		return err
	}
	e.EvictedOf = map[string]uint64{}
	for kind, b := range bounded {
		made, gone, left := before[b.counter+"created"], c[b.counter+"removed"]+c[b.counter+"expired"], e.swept[kind].left
		if kind == "back" || kind == "ports" { // nobody looks through them otherwise
			if left, err = n.leftOf(b.table, above(made, gone)); err != nil {
				return err
			}
		}
		n.evicted[kind] = max(n.evicted[kind], above(made, gone+uint64(left)))
		e.EvictedOf[kind] = n.evicted[kind]
	}
	e.Evicted = e.EvictedOf["flows"]
	n.evicted["syns"] = max(n.evicted["syns"], above(c["lb_syn_redirected"], n.room("crab_syns")))
	e.EvictedOf["syns"] = n.evicted["syns"]
	return nil
}

// above is a-b, and 0 where that would be less: what changes meanwhile is seen half.
func above(a, b uint64) uint64 {
	if a < b {
		return 0
	}
	return a - b
}

// room is how many entries a map of both families holds.
func (n *Node) room(table string) (entries uint64) {
	for _, f := range n.known() {
		entries += uint64(n.m(f, table).MaxEntries())
	}
	return entries
}

// leftOf counts the entries of a map, unless there are so few that none was pushed out: half of the smaller map.
func (n *Node) leftOf(table string, expected uint64) (int, error) {
	room := n.room(table) / uint64(len(n.known()))
	if expected <= room/2 {
		return int(expected), nil
	}
	return n.entries(table)
}

// entries counts those of a map of both families.
func (n *Node) entries(table string) (count int, err error) {
	for _, f := range n.known() {
		m := n.m(f, table)
		key, err := m.NextKeyBytes(nil)
		for i := uint32(0); key != nil && err == nil && i < m.MaxEntries(); i++ {
			count++
			key, err = m.NextKeyBytes(key)
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return 0, fmt.Errorf("%s: %w", f.of(table), err)
		}
	}
	return count, nil
}

// countFrom lets what a former version made, and did not count, count as made.
func (n *Node) countFrom() error {
	c, err := n.Counters()
	if err != nil {
		return err
	}
	for kind, b := range bounded {
		if c[b.counter+"created"] > 0 {
			continue
		}
		there, err := n.entries(b.table)
		if err != nil {
			return err
		}
		if err := n.addCounter(b.counter+"created", uint64(there)); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}
