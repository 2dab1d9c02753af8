// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// Connects are how long clients of this host waited for connections since the state
// was made, by what they dialled: from the first SYN to the SYN-ACK they believed.
// SYNs that nobody answered until they expired, or that were refused, count as
// never answered. A SYN without room for the option is not measured.
func (n *Node) Connects() (map[VIPKey]*ll7.Histogram, error) {
	all := map[VIPKey]*ll7.Histogram{}
	for _, f := range n.known() {
		counts, err := n.connectsOf(f)
		if err != nil {
			return nil, err
		}
		for key, c := range counts {
			if there, err := n.has(f, key); err != nil {
				return nil, err
			} else if !there {
				continue // and not swept yet
			}
			h, err := ll7.FromCounts(c.buckets, c.sum, c.never)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.of("crab_connects"), err)
			}
			all[key] = h
		}
	}
	return all, nil
}

// connectCounts is what the map holds of one VIP.
type connectCounts struct {
	buckets    map[int]uint64
	sum, never uint64
}

func (n *Node) connectsOf(f family) (map[VIPKey]connectCounts, error) {
	out := map[VIPKey]connectCounts{}
	var key programs.ConnectKey
	var count uint64
	it := n.m(f, "crab_connects").Iterate()
	for it.Next(&key, &count) {
		vip := VIPKey{Addr: key.Addr, Port: key.Port}
		c := out[vip]
		if c.buckets == nil {
			c.buckets = map[int]uint64{}
		}
		switch key.Bucket {
		case programs.ConnectSum:
			c.sum = count
		case programs.ConnectNever:
			c.never = count
		default:
			c.buckets[int(key.Bucket)] = count
		}
		out[vip] = c
	}
	// Less than all would look like counts that began anew: better none.
	return out, it.Err()
}

// Since is when this state was made, and with it the counts.
func (n *Node) Since() (time.Time, error) {
	pin, err := os.Stat(filepath.Join(n.root, "crab_connects"))
	if err != nil {
		return time.Time{}, err
	}
	return pin.ModTime(), nil
}

// has says whether a VIP is in the table.
func (n *Node) has(f family, vip VIPKey) (bool, error) {
	var entry programs.VIP
	err := n.m(f, "crab_vips").Lookup(vip.wire(), &entry)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	return err == nil, err
}

// neverConnected counts a SYN that waited in vain, unless its VIP is gone. Nobody else writes that bucket. As in
// the programs, a count that finds no room is lost and harms nothing else.
func (n *Node) neverConnected(f family, vip VIPKey) error {
	if there, err := n.has(f, vip); err != nil || !there {
		return err
	}
	m, key := n.m(f, "crab_connects"), programs.ConnectKey{VIPKey: vip.wire(), Bucket: programs.ConnectNever}
	var count uint64
	if err := m.Lookup(key, &count); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	err := m.Put(key, count+1)
	if errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOMEM) {
		return nil
	}
	return err
}

// sweepConnects takes away what was counted of VIPs that are gone, before another
// Service gets one of them. Only reading the whole map finds it: once for all that
// went, at the next Expire, or when a VIP comes before that.
func (n *Node) sweepConnects(f family) error {
	if n.swept[f] {
		return nil
	}
	there := map[programs.VIPKey]bool{}
	if err := n.eachVIP(f, func(key programs.VIPKey, _ programs.VIP) error { there[key] = true; return nil }); err != nil {
		return err
	}
	var gone []programs.ConnectKey
	var key programs.ConnectKey
	var count uint64
	m := n.m(f, "crab_connects")
	it := m.Iterate()
	for it.Next(&key, &count) {
		if !there[key.VIPKey] {
			gone = append(gone, key)
		}
	}
	for _, key := range gone {
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	n.swept[f] = it.Err() == nil // otherwise the map changed meanwhile: once more
	return aborted(it.Err())
}
