// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

const defaultReportLife = 3 * time.Second

func (k VIPKey) wire() programs.VIPKey {
	return programs.VIPKey{Addr: k.Addr, Port: k.Port}
}

// SetVIP puts or replaces one entry of the VIP table.
func (n *Node) SetVIP(v VIP) error {
	if err := v.Validate(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f := familyOf(v.Addr)
	if f == six {
		if err := n.useSix(); err != nil {
			return fmt.Errorf("IPv6: %w", err)
		}
	}
	entry, err := n.entry(v.VIPKey)
	if err != nil {
		return err
	}
	entry.Policy, entry.Flags = uint8(v.Policy), uint8(v.Roles)
	entry.ReportLifeNs = uint64(defaultReportLife)
	if v.ReportLife != 0 {
		entry.ReportLifeNs = uint64(v.ReportLife)
	}
	// What may be answered is widened before anybody is sent there and narrowed
	// after; the pool is in place before the entry that points at it.
	if err := n.addPrefixes(f, entry.Id, v.Prefixes); err != nil {
		return err
	}
	if err := n.setPool(f, entry.Id, v); err != nil {
		return err
	}
	if err := n.noteBalanced(v); err != nil {
		return err
	}
	if err := n.m(f, "crab_vips").Put(v.VIPKey.wire(), entry); err != nil {
		return fmt.Errorf("crab_vips: %w", err)
	}
	return n.keepPrefixes(f, entry.Id, v.Prefixes)
}

// entry finds the entry of a VIP, or one with an id that is free.
func (n *Node) entry(key VIPKey) (programs.VIP, error) {
	var entry programs.VIP
	f := familyOf(key.Addr)
	err := n.m(f, "crab_vips").Lookup(key.wire(), &entry)
	if !errors.Is(err, ebpf.ErrKeyNotExist) {
		return entry, err
	}
	if err := n.sweepConnects(f); err != nil {
		return entry, err
	}
	taken := make([]bool, programs.MaxVIPs)
	if err := n.eachVIP(f, func(_ programs.VIPKey, e programs.VIP) error { taken[e.Id] = true; return nil }); err != nil {
		return entry, err
	}
	for id, t := range taken {
		if !t {
			return programs.VIP{Id: uint32(id)}, n.m(f, "crab_rr").Put(uint32(id), uint64(0))
		}
	}
	return entry, &FieldError{"addr", fmt.Sprintf("the table is full: %d VIPs", programs.MaxVIPs)}
}

func (n *Node) eachVIP(f family, each func(programs.VIPKey, programs.VIP) error) error {
	var key programs.VIPKey
	var entry programs.VIP
	for it := n.m(f, "crab_vips").Iterate(); ; {
		if !it.Next(&key, &entry) {
			return it.Err()
		}
		if err := each(key, entry); err != nil {
			return err
		}
	}
}

// pool reads the pool of a VIP; an empty one when it has none.
func (n *Node) pool(f family, id uint32) (*programs.Pool, error) {
	p := &programs.Pool{}
	inner, err := n.innerPool(f, id)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("crab_pools[%d]: %w", id, err)
	}
	defer inner.Close()
	raw, err := inner.LookupBytes(uint32(0))
	if err != nil {
		return nil, fmt.Errorf("pool %d: %w", id, err)
	}
	if err := p.Read(raw, f.addrSize); err != nil {
		return nil, fmt.Errorf("pool %d: %w", id, err)
	}
	return p, nil
}

// innerPool opens the map in a place of crab_pools. Each is pinned as well:
// opening a map by what lies in another one takes CAP_SYS_ADMIN, which an agent
// does not have.
func (n *Node) innerPool(f family, id uint32) (*ebpf.Map, error) {
	inner, err := ebpf.LoadPinnedMap(n.poolPin(f, id), nil)
	if !errors.Is(err, fs.ErrNotExist) {
		return inner, err
	}
	err = n.m(f, "crab_pools").Lookup(id, &inner)
	if errors.Is(err, unix.EPERM) { // made before pools were pinned: as if it were new
		err = ebpf.ErrKeyNotExist
	}
	return inner, err
}

func (n *Node) poolPin(f family, id uint32) string {
	name := strconv.FormatUint(uint64(id), 10)
	if f == six {
		name = "ip6-" + name
	}
	return filepath.Join(n.root, poolFolder, name)
}

// setPool hangs a new map into the place of the old one (C-63).
func (n *Node) setPool(f family, id uint32, v VIP) error {
	if v.Roles&RoleBalance == 0 {
		return n.dropPool(f, id)
	}
	old, err := n.pool(f, id)
	if err != nil {
		return err
	}
	next, err := newPool(old, v.Backends, n.loadTaker(f))
	if err != nil {
		return err
	}
	inner, err := ebpf.NewMap(n.specs[f.of("crab_balance")].Maps[f.of("crab_pools")].InnerMap.Copy())
	if err != nil {
		return fmt.Errorf("new pool: %w", err)
	}
	defer inner.Close()
	delete(n.loads, poolID{f, id})
	if err := inner.Put(uint32(0), next.Bytes(f.addrSize)); err != nil {
		return fmt.Errorf("new pool: %w", err)
	}
	pin := n.poolPin(f, id)
	_ = os.Remove(pin + nextPin) // of a process that was killed here
	if err := inner.Pin(pin + nextPin); err != nil {
		return fmt.Errorf("pin pool %d: %w", id, err)
	}
	if err := n.m(f, "crab_pools").Put(id, inner); err != nil {
		return fmt.Errorf("crab_pools[%d]: %w", id, err)
	}
	return os.Rename(pin+nextPin, pin)
}

func (n *Node) dropPool(f family, id uint32) error {
	delete(n.loads, poolID{f, id})
	if err := remove(n.m(f, "crab_pools"), id); err != nil {
		return fmt.Errorf("crab_pools[%d]: %w", id, err)
	}
	if err := os.Remove(n.poolPin(f, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// loadTaker looks up which load counters are in use when the first one is taken.
func (n *Node) loadTaker(f family) func() (uint16, bool) {
	var taken []bool
	next := 0
	return func() (uint16, bool) {
		if taken == nil {
			taken = make([]bool, programs.MaxLoads)
			if n.eachVIP(f, func(_ programs.VIPKey, e programs.VIP) error { return n.markLoads(f, e.Id, taken) }) != nil {
				return 0, false
			}
		}
		for ; next < len(taken); next++ {
			if !taken[next] {
				taken[next] = true
				return uint16(next), n.m(f, "crab_loads").Put(uint32(next), programs.Load{}) == nil
			}
		}
		return 0, false
	}
}

func (n *Node) markLoads(f family, id uint32, taken []bool) error {
	p, err := n.pool(f, id)
	if err != nil {
		return err
	}
	for i := range p.Backends {
		if p.Backend[i].Weight != 0 { // an empty place weighs nothing
			taken[p.Backend[i].Load] = true
		}
	}
	return nil
}

// DeleteVIP forgets an entry; live connections keep their translation.
func (n *Node) DeleteVIP(key VIPKey) error {
	if err := usableAddr("addr", key.Addr); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f := familyOf(key.Addr)
	vips := n.m(f, "crab_vips")
	if vips == nil {
		return nil
	}
	var entry programs.VIP
	err := vips.Lookup(key.wire(), &entry)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := vips.Delete(key.wire()); err != nil {
		return err
	}
	n.swept[f] = false
	return errors.Join(n.dropPool(f, entry.Id), n.keepPrefixes(f, entry.Id, nil))
}

// VIPs lists the table.
func (n *Node) VIPs() ([]VIP, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []VIP
	for _, f := range n.known() {
		some, err := n.vips(f)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func (n *Node) vips(f family) (all []VIP, err error) {
	prefixes, err := n.prefixes(f)
	if err != nil {
		return nil, err
	}
	err = n.eachVIP(f, func(key programs.VIPKey, e programs.VIP) error {
		p, err := n.pool(f, e.Id)
		if err != nil {
			return err
		}
		v := VIP{
			VIPKey: VIPKey{key.Addr, key.Port}, Roles: Role(e.Flags), Policy: Policy(e.Policy),
			Prefixes: prefixes[e.Id], ReportLife: time.Duration(e.ReportLifeNs),
		}
		for i := range p.Backends {
			if b := p.Backend[i]; b.Weight != 0 {
				v.Backends = append(v.Backends, Backend{b.Addr, b.Weight, State(b.State)})
			}
		}
		all = append(all, v)
		return nil
	})
	return all, err
}

// monotonic is the programs' clock.
func monotonic() uint64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return uint64(t.Nano())
}

// Balanced are the addresses of those that this node balances.
func Balanced(vips []VIP) []netip.Addr {
	var addrs []netip.Addr
	for _, v := range vips {
		if v.Roles&RoleBalance != 0 {
			addrs = append(addrs, v.Addr)
		}
	}
	return addrs
}
