// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

const idBits = 32 // of a VIP's id, in front of the address

func prefixKey(id uint32, p netip.Prefix) programs.PrefixKey {
	p = p.Masked()
	return programs.PrefixKey{Prefixlen: idBits + uint32(p.Bits()), VipId: bits.ReverseBytes32(id), Addr: wireAddr(p.Addr())}
}

func (n *Node) addPrefixes(id uint32, prefixes []netip.Prefix) error {
	for _, p := range prefixes {
		if err := n.maps["crab_prefixes"].Put(prefixKey(id, p), uint32(1)); err != nil {
			return fmt.Errorf("crab_prefixes: %s: %w", p, err)
		}
	}
	return nil
}

// keepPrefixes removes all prefixes of a VIP but these.
func (n *Node) keepPrefixes(id uint32, keep []netip.Prefix) error {
	wanted := map[netip.Prefix]bool{}
	for _, p := range keep {
		wanted[p.Masked()] = true
	}
	all, err := n.prefixes()
	if err != nil {
		return err
	}
	for _, p := range all[id] {
		if wanted[p] {
			continue
		}
		if err := n.maps["crab_prefixes"].Delete(prefixKey(id, p)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("crab_prefixes: %s: %w", p, err)
		}
	}
	return nil
}

// prefixes lists the prefixes by VIP id.
func (n *Node) prefixes() (map[uint32][]netip.Prefix, error) {
	all := map[uint32][]netip.Prefix{}
	var key programs.PrefixKey
	var one uint32
	for it := n.maps["crab_prefixes"].Iterate(); ; {
		if !it.Next(&key, &one) {
			return all, it.Err()
		}
		id := bits.ReverseBytes32(key.VipId)
		all[id] = append(all[id], netip.PrefixFrom(goAddr(key.Addr), int(key.Prefixlen)-idBits))
	}
}

// AllowEcho replaces the addresses a server of this node may echo (C-34).
func (n *Node) AllowEcho(addrs []netip.Addr) error {
	wanted := map[uint32]bool{}
	for i, a := range addrs {
		if err := usableAddr(fmt.Sprintf("allowEcho[%d]", i), a); err != nil {
			return err
		}
		wanted[wireAddr(a)] = true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for a := range wanted {
		if err := n.maps["crab_allowed"].Put(a, uint32(1)); err != nil {
			return fmt.Errorf("crab_allowed: %w", err)
		}
	}
	var stale []uint32
	var addr, one uint32
	it := n.maps["crab_allowed"].Iterate()
	for it.Next(&addr, &one) {
		if !wanted[addr] {
			stale = append(stale, addr)
		}
	}
	for _, a := range stale {
		if err := n.maps["crab_allowed"].Delete(a); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("crab_allowed: %w", err)
		}
	}
	return it.Err()
}
