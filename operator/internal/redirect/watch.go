// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// MaxWatched bounds the servers of one node (crab_watched).
const MaxWatched = 4096

// batch is how many connections are read with one call: looking at each by itself
// would cost more than all the programs do.
const batch = 4096

// Watch replaces the servers of this node whose connections are counted.
func (n *Node) Watch(servers []netip.AddrPort) error {
	if len(servers) > MaxWatched {
		return &FieldError{"servers", fmt.Sprintf("%d to watch, at most %d", len(servers), MaxWatched)}
	}
	wanted := map[family]map[programs.VIPKey]bool{four: {}, six: {}}
	for i, s := range servers {
		if err := usableAddr(fmt.Sprintf("servers[%d]", i), s.Addr()); err != nil {
			return err
		}
		wanted[familyOf(s.Addr())][VIPKey{s.Addr(), s.Port()}.wire()] = true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(wanted[six]) > 0 {
		if err := n.useSix(); err != nil {
			return fmt.Errorf("IPv6: %w", err)
		}
	}
	for _, f := range n.known() {
		if err := n.watch(f, wanted[f]); err != nil {
			return fmt.Errorf("%s: %w", f.of("crab_watched"), err)
		}
	}
	return nil
}

// watch is Watch of one family.
func (n *Node) watch(f family, wanted map[programs.VIPKey]bool) error {
	have, err := n.watched(f)
	if err != nil {
		return err
	}
	m := n.m(f, "crab_watched")
	for key := range have { // first: there must be room for the new ones
		if wanted[key] {
			continue
		}
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	for key := range wanted {
		if have[key] {
			continue
		}
		if err := m.Put(key, uint32(1)); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) watched(f family) (map[programs.VIPKey]bool, error) {
	all := map[programs.VIPKey]bool{}
	var key programs.VIPKey
	var one uint32
	it := n.m(f, "crab_watched").Iterate()
	for it.Next(&key, &one) {
		all[key] = true
	}
	return all, it.Err()
}

// Connections counts what each watched server has open, and removes what has
// outlived its life: SYN-ACKs without answer, and connections whose client fell
// silent for so long that the server has given them up, too.
func (n *Node) Connections() (map[netip.AddrPort]uint32, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	open := map[netip.AddrPort]uint32{}
	for _, f := range n.known() {
		watched, err := n.watched(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.of("crab_watched"), err)
		}
		for key := range watched {
			open[netip.AddrPortFrom(key.Addr, key.Port)] = 0
		}
	}
	silence := cmp.Or(n.idle, DefaultIdle)
	if err := countConns(n.m(four, "crab_conns"), silence, server4, open); err != nil {
		return nil, fmt.Errorf("crab_conns: %w", err)
	}
	if conns := n.m(six, "crab_conns"); conns != nil {
		if err := countConns(conns, silence, server6, open); err != nil {
			return nil, fmt.Errorf("crab_conns6: %w", err)
		}
	}
	return open, nil
}

// countConns adds up the connections of one family, but those of so long a silence; keys of open are watched.
func countConns[K any](m *ebpf.Map, silence time.Duration, serverOf func(K) netip.AddrPort, open map[netip.AddrPort]uint32) error {
	now := monotonic()
	var gone []K
	err := eachConn(m, func(key K, c programs.Conn) {
		server := serverOf(key)
		life := DefaultEcho
		if c.Open != 0 {
			life = silence
		}
		if _, watched := open[server]; !watched || since(now, c.SeenNs) > life {
			gone = append(gone, key)
		} else if c.Open != 0 {
			open[server]++
		}
	})
	for _, key := range gone { // one that comes to life meanwhile counts again with its next data
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return err
}

func eachConn[K any](m *ebpf.Map, each func(K, programs.Conn)) error {
	keys, values := make([]K, batch), make([]programs.Conn, batch)
	var at ebpf.MapBatchCursor
	for {
		count, err := m.BatchLookup(&at, keys, values, nil)
		for i := range count {
			each(keys[i], values[i])
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// In crab_conns addresses and ports lie in network order; Go reads them as machine
// words, because connections are read many at a time.

func server4(t programs.Conn4) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(binary.NativeEndian.AppendUint32(nil, t.Server))), goPort(t.ServerPort))
}

func server6(t programs.Conn6) netip.AddrPort {
	var b [16]byte
	for i, word := range t.Server.Word {
		binary.NativeEndian.PutUint32(b[4*i:], word)
	}
	return netip.AddrPortFrom(netip.AddrFrom16(b), goPort(t.ServerPort))
}

func goPort(port uint16) uint16 {
	return binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, port))
}
