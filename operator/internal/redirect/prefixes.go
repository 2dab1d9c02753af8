// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

func (n *Node) addPrefixes(f family, id uint32, prefixes []netip.Prefix) error {
	for _, p := range prefixes {
		if err := n.m(f, "crab_prefixes").Put(programs.PrefixKey{VIP: id, Prefix: p}, uint32(1)); err != nil {
			return fmt.Errorf("crab_prefixes: %s: %w", p, err)
		}
	}
	return nil
}

// keepPrefixes removes all prefixes of a VIP but these.
func (n *Node) keepPrefixes(f family, id uint32, keep []netip.Prefix) error {
	wanted := map[netip.Prefix]bool{}
	for _, p := range keep {
		wanted[p.Masked()] = true
	}
	all, err := n.prefixes(f)
	if err != nil {
		return err
	}
	for _, p := range all[id] {
		if wanted[p] {
			continue
		}
		if err := remove(n.m(f, "crab_prefixes"), programs.PrefixKey{VIP: id, Prefix: p}); err != nil {
			return fmt.Errorf("crab_prefixes: %s: %w", p, err)
		}
	}
	return nil
}

// remove forgives that the entry is not there.
func remove(m *ebpf.Map, key any) error {
	if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil
}

// prefixes lists the prefixes by VIP id.
func (n *Node) prefixes(f family) (map[uint32][]netip.Prefix, error) {
	all := map[uint32][]netip.Prefix{}
	var key programs.PrefixKey
	var one uint32
	for it := n.m(f, "crab_prefixes").Iterate(); ; {
		if !it.Next(&key, &one) {
			return all, it.Err()
		}
		all[key.VIP] = append(all[key.VIP], key.Prefix)
	}
}

// AllowEcho replaces the addresses a server of this node may echo (C-34).
func (n *Node) AllowEcho(addrs []netip.Addr) error {
	wanted := map[netip.Addr]bool{}
	for i, a := range addrs {
		if err := usableAddr(fmt.Sprintf("allowEcho[%d]", i), a); err != nil {
			return err
		}
		wanted[a] = true
	}
	digests, err := digestsOf(addrs)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(digests) > 0 {
		if err := n.useSix(); err != nil {
			return fmt.Errorf("IPv6: %w", err)
		}
	}
	if err := n.holdDigests(digests); err != nil {
		return fmt.Errorf("crab_digests6: %w", err)
	}
	for a := range wanted {
		if err := n.m(familyOf(a), "crab_allowed").Put(programs.Addr{Addr: a}, uint32(1)); err != nil {
			return fmt.Errorf("crab_allowed: %w", err)
		}
	}
	for _, f := range n.known() {
		if err := keepOnly(n.m(f, "crab_allowed"), new(uint32), func(a programs.Addr) bool { return wanted[a.Addr] }); err != nil {
			return fmt.Errorf("crab_allowed: %w", err)
		}
	}
	return nil
}

// keepOnly removes the entries whose keys nobody wants.
func keepOnly[K any](m *ebpf.Map, value any, wanted func(K) bool) error {
	var stale []K
	var key K
	it := m.Iterate()
	for it.Next(&key, value) {
		if !wanted(key) {
			stale = append(stale, key)
		}
	}
	for _, k := range stale {
		if err := remove(m, k); err != nil {
			return err
		}
	}
	return it.Err()
}

// digestsOf names the IPv6 addresses as marks of the fall-back path do (C-9, C-42).
func digestsOf(addrs []netip.Addr) (map[uint32]netip.Addr, error) {
	all := map[uint32]netip.Addr{}
	for i, a := range addrs {
		if a.Is4() {
			continue
		}
		d := digest(a)
		if other, taken := all[d]; taken && other != a {
			return nil, &FieldError{fmt.Sprintf("allowEcho[%d]", i),
				fmt.Sprintf("%s and %s have one name (%08x) in the mark of the fall-back path: choose another address for one of them (C-9)", other, a, d)}
		}
		all[d] = a
	}
	return all, nil
}

func (n *Node) holdDigests(digests map[uint32]netip.Addr) error {
	m := n.m(six, "crab_digests")
	if m == nil {
		return nil
	}
	wire := func(d uint32) [4]byte { return [4]byte(binary.BigEndian.AppendUint32(nil, d)) }
	for d, a := range digests {
		if err := m.Put(wire(d), programs.Addr{Addr: a}); err != nil {
			return err
		}
	}
	return keepOnly(m, new(programs.Addr), func(d [4]byte) bool {
		_, wanted := digests[binary.BigEndian.Uint32(d[:])]
		return wanted
	})
}
