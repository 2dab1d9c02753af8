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

// MaxWatched bounds the servers of one node (crab_watched).
const MaxWatched = 4096

// batch is how many connections are read with one call: looking at each by itself
// would cost more than all the programs do.
const batch = 4096

func serverKey(s netip.AddrPort) programs.VIPKey {
	return VIPKey{s.Addr(), s.Port()}.wire()
}

// Watch replaces the servers of this node whose connections are counted.
func (n *Node) Watch(servers []netip.AddrPort) error {
	if len(servers) > MaxWatched {
		return &FieldError{"servers", fmt.Sprintf("%d to watch, at most %d", len(servers), MaxWatched)}
	}
	wanted := map[programs.VIPKey]bool{}
	for i, s := range servers {
		if err := usableAddr(fmt.Sprintf("servers[%d]", i), s.Addr()); err != nil {
			return err
		}
		if !s.Addr().Is4() {
			return &FieldError{fmt.Sprintf("servers[%d]", i), fmt.Sprintf("%s: connections of IPv6 servers are not counted (C-9, C-62)", s)}
		}
		wanted[serverKey(s)] = true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	have, err := n.watched()
	if err != nil {
		return err
	}
	for key := range have { // first: there must be room for the new ones
		if wanted[key] {
			continue
		}
		if err := n.maps["crab_watched"].Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("crab_watched: %w", err)
		}
	}
	for key := range wanted {
		if have[key] {
			continue
		}
		if err := n.maps["crab_watched"].Put(key, uint32(1)); err != nil {
			return fmt.Errorf("crab_watched: %w", err)
		}
	}
	return nil
}

func (n *Node) watched() (map[programs.VIPKey]bool, error) {
	all := map[programs.VIPKey]bool{}
	var key programs.VIPKey
	var one uint32
	it := n.maps["crab_watched"].Iterate()
	for it.Next(&key, &one) {
		all[key] = true
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("crab_watched: %w", err)
	}
	return all, nil
}

// Connections counts what each watched server has open, and removes what has
// outlived its life: SYN-ACKs without answer, and connections whose client fell
// silent for so long that the server has given them up, too.
func (n *Node) Connections() (map[netip.AddrPort]uint32, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	watched, err := n.watched()
	if err != nil {
		return nil, err
	}
	open, now := make(map[netip.AddrPort]uint32, len(watched)), monotonic()
	for key := range watched {
		open[netip.AddrPortFrom(key.Addr, key.Port)] = 0
	}
	var gone []programs.Conn4
	err = n.eachConn(func(t programs.Conn4, c programs.Conn) {
		server := netip.AddrPortFrom(goAddr(t.Server), goPort(t.ServerPort))
		life := DefaultEcho
		if c.Open != 0 {
			life = DefaultIdle
		}
		if !watched[serverKey(server)] || since(now, c.SeenNs) > life {
			gone = append(gone, t)
		} else if c.Open != 0 {
			open[server]++
		}
	})
	for _, t := range gone { // one that comes to life meanwhile counts again with its next data
		if err := n.maps["crab_conns"].Delete(t); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, fmt.Errorf("crab_conns: %w", err)
		}
	}
	return open, err
}

func (n *Node) eachConn(each func(programs.Conn4, programs.Conn)) error {
	keys, values := make([]programs.Conn4, batch), make([]programs.Conn, batch)
	var at ebpf.MapBatchCursor
	for {
		count, err := n.maps["crab_conns"].BatchLookup(&at, keys, values, nil)
		for i := range count {
			each(keys[i], values[i])
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("crab_conns: %w", err)
		}
	}
}

// In crab_conns addresses and ports lie in network order; Go reads them as machine
// words, because connections are read many at a time.

func goAddr(addr uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.NativeEndian.AppendUint32(nil, addr)))
}

func goPort(port uint16) uint16 {
	return binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, port))
}
