// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// What has an address in it has two forms in the maps: 4 bytes in those of IPv4,
// 16 in those of IPv6 (dataplane/bpf/crab_family.h). These are both; ports are in
// the machine's order here, and in the network's there.
type (
	// VIPKey is struct crab_vip_key.
	VIPKey struct {
		Addr netip.Addr
		Port uint16
	}
	// PrefixKey is struct crab_prefix_key.
	PrefixKey struct {
		VIP    uint32
		Prefix netip.Prefix
	}
	// ConnectKey is struct crab_connect_key.
	ConnectKey struct {
		VIPKey
		Bucket uint16
	}
	// Tuple is struct crab_tuple.
	Tuple struct {
		Client, Server netip.AddrPort
	}
	// Flow is struct crab_flow.
	Flow struct {
		CreatedS, ACK  uint32
		LastNs         uint64
		DIP            netip.Addr
		ISS            uint32
		Ended, HopSeen uint8
		Hop            [6]byte
	}
	// Reverse is struct crab_reverse.
	Reverse struct{ VIP netip.Addr }
	// Echo is struct crab_echo.
	Echo struct {
		LastNs uint64
		VIP    netip.Addr
		ISS    uint32
	}
	// Opening is struct crab_opening.
	Opening struct {
		LastNs             uint64
		VIP                netip.Addr
		ISS, ISN           uint32
		Fallback, Answered uint8
	}
	// Relay is struct crab_relay.
	Relay struct {
		LastNs            uint64
		DIP               netip.Addr
		NextOut, NextBack uint32
		Place, Port       uint16
		Ended, Opened     uint8
		Answered          uint8
	}
	// RelayBack is struct crab_relay_back.
	RelayBack struct{ Client netip.AddrPort }
	// SYNKey is struct crab_syn_key.
	SYNKey struct {
		Tuple
		ISS uint32
	}
	// SYN is struct crab_syn.
	SYN struct {
		SeenNs      uint64
		DIP         netip.Addr
		Place       uint16
		Undelivered uint8
	}
	// Fell is struct crab_fell.
	Fell struct {
		AtNs   uint64 // 0: nobody yet
		Who    Tuple
		Reason uint32
	}
	// Fallen is struct crab_fallen, of one CPU.
	Fallen struct {
		Last [16]Fell
		Next uint32
	}
	// Tunnel is struct crab_tunnel.
	Tunnel struct{ From, To netip.Addr }
	// Addr is an address alone.
	Addr struct{ netip.Addr }
)

var native = binary.NativeEndian

const idBits = 32 // of a VIP's id, in front of the address of a prefix

func (k VIPKey) MarshalBinary() ([]byte, error) {
	return append(binary.BigEndian.AppendUint16(k.Addr.AsSlice(), k.Port), 0, 0), nil
}

func (k *VIPKey) UnmarshalBinary(b []byte) error {
	r := reader{b: b, fixed: 4}
	k.Addr, k.Port = r.addr(), r.port()
	return r.end(2)
}

func (k PrefixKey) MarshalBinary() ([]byte, error) {
	b := native.AppendUint32(nil, idBits+uint32(k.Prefix.Bits()))
	return append(binary.BigEndian.AppendUint32(b, k.VIP), k.Prefix.Masked().Addr().AsSlice()...), nil
}

func (k *PrefixKey) UnmarshalBinary(b []byte) error {
	r := reader{b: b, fixed: 8}
	length := r.u32()
	k.VIP = binary.BigEndian.Uint32(r.take(4))
	k.Prefix = netip.PrefixFrom(r.addr(), int(length)-idBits)
	return r.end(0)
}

func (k ConnectKey) MarshalBinary() ([]byte, error) {
	return native.AppendUint16(binary.BigEndian.AppendUint16(k.Addr.AsSlice(), k.Port), k.Bucket), nil
}

func (k *ConnectKey) UnmarshalBinary(b []byte) error {
	r := reader{b: b, fixed: 4}
	k.Addr, k.Port = r.addr(), r.port()
	k.Bucket = native.Uint16(r.take(2))
	return r.end(0)
}

func (t Tuple) MarshalBinary() ([]byte, error) {
	b := append(t.Client.Addr().AsSlice(), t.Server.Addr().AsSlice()...)
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, t.Client.Port()), t.Server.Port()), nil
}

func (t *Tuple) UnmarshalBinary(b []byte) error {
	r := reader{b: b, fixed: 4, addrs: 2}
	t.read(&r)
	return r.end(0)
}

func (t *Tuple) read(r *reader) {
	client, server := r.addr(), r.addr()
	t.Client, t.Server = netip.AddrPortFrom(client, r.port()), netip.AddrPortFrom(server, r.port())
}

func (f Flow) MarshalBinary() ([]byte, error) {
	b := native.AppendUint32(native.AppendUint32(nil, f.CreatedS), f.ACK)
	b = append(native.AppendUint64(b, f.LastNs), f.DIP.AsSlice()...)
	b = append(append(native.AppendUint32(b, f.ISS), f.Ended, f.HopSeen), f.Hop[:]...)
	return pad(b), nil
}

func (f *Flow) UnmarshalBinary(b []byte) error {
	r := reader{b: b, fixed: 28}
	f.CreatedS, f.ACK, f.LastNs, f.DIP, f.ISS, f.Ended, f.HopSeen = r.u32(), r.u32(), r.u64(), r.addr(), r.u32(), r.take(1)[0], r.take(1)[0]
	copy(f.Hop[:], r.take(6))
	return r.end(0)
}

func (t Tunnel) MarshalBinary() ([]byte, error) {
	return append(t.From.AsSlice(), t.To.AsSlice()...), nil
}

func (t *Tunnel) UnmarshalBinary(b []byte) error {
	r := reader{b: b, addrs: 2}
	t.From, t.To = r.addr(), r.addr()
	return r.end(0)
}

func (v Reverse) MarshalBinary() ([]byte, error) {
	return append(v.VIP.AsSlice(), 0, 0, 0, 0), nil
}

func (v *Reverse) UnmarshalBinary(b []byte) error {
	r := reader{b: b, fixed: 4}
	v.VIP = r.addr()
	return r.end(4)
}

func (e Echo) MarshalBinary() ([]byte, error) {
	return pad(native.AppendUint32(append(native.AppendUint64(nil, e.LastNs), e.VIP.AsSlice()...), e.ISS)), nil
}

func (e *Echo) UnmarshalBinary(b []byte) error {
	r := reader{b: b, fixed: 12}
	e.LastNs, e.VIP, e.ISS = r.u64(), r.addr(), r.u32()
	return r.end(0)
}

func (o Opening) MarshalBinary() ([]byte, error) {
	b := native.AppendUint32(append(native.AppendUint64(nil, o.LastNs), o.VIP.AsSlice()...), o.ISS)
	return pad(append(native.AppendUint32(b, o.ISN), o.Fallback, o.Answered, 0, 0)), nil
}

func (o *Opening) UnmarshalBinary(b []byte) error {
	r := reader{b: b, fixed: 20}
	o.LastNs, o.VIP, o.ISS, o.ISN, o.Fallback, o.Answered = r.u64(), r.addr(), r.u32(), r.u32(), r.take(1)[0], r.take(1)[0]
	return r.end(2)
}

func (v Relay) MarshalBinary() ([]byte, error) {
	b := append(native.AppendUint64(nil, v.LastNs), v.DIP.AsSlice()...)
	b = native.AppendUint16(native.AppendUint32(native.AppendUint32(b, v.NextOut), v.NextBack), v.Place)
	return pad(append(binary.BigEndian.AppendUint16(b, v.Port), v.Ended, v.Opened, v.Answered, 0, 0, 0, 0, 0)), nil
}

func (v *Relay) UnmarshalBinary(b []byte) error {
	r := reader{b: b, fixed: 28}
	v.LastNs, v.DIP, v.NextOut, v.NextBack = r.u64(), r.addr(), r.u32(), r.u32()
	v.Place, v.Port = native.Uint16(r.take(2)), r.port()
	v.Ended, v.Opened, v.Answered = r.take(1)[0], r.take(1)[0], r.take(1)[0]
	return r.end(5)
}

func (v RelayBack) MarshalBinary() ([]byte, error) {
	return append(binary.BigEndian.AppendUint16(v.Client.Addr().AsSlice(), v.Client.Port()), 0, 0), nil
}

func (v *RelayBack) UnmarshalBinary(b []byte) error {
	r := reader{b: b, fixed: 4}
	v.Client = netip.AddrPortFrom(r.addr(), r.port())
	return r.end(2)
}

func (k SYNKey) MarshalBinary() ([]byte, error) {
	b, err := k.Tuple.MarshalBinary()
	return native.AppendUint32(b, k.ISS), err
}

func (k *SYNKey) UnmarshalBinary(b []byte) error {
	r := reader{b: b, fixed: 8, addrs: 2}
	k.read(&r)
	k.ISS = r.u32()
	return r.end(0)
}

func (s SYN) MarshalBinary() ([]byte, error) {
	b := append(native.AppendUint64(nil, s.SeenNs), s.DIP.AsSlice()...)
	return pad(append(native.AppendUint16(b, s.Place), s.Undelivered, 0)), nil
}

func (s *SYN) UnmarshalBinary(b []byte) error {
	r := reader{b: b, fixed: 12}
	s.SeenNs, s.DIP, s.Place, s.Undelivered = r.u64(), r.addr(), native.Uint16(r.take(2)), r.take(1)[0]
	return r.end(1)
}

func (f Fallen) MarshalBinary() ([]byte, error) {
	var b []byte
	for _, one := range f.Last {
		who, err := one.Who.MarshalBinary()
		if err != nil {
			return nil, err
		}
		b = native.AppendUint32(append(native.AppendUint64(b, one.AtNs), who...), one.Reason)
	}
	return pad(native.AppendUint32(b, f.Next)), nil
}

func (f *Fallen) UnmarshalBinary(b []byte) error {
	r := reader{b: b, fixed: 16*len(f.Last) + 8, addrs: 2 * len(f.Last)}
	for i := range f.Last {
		f.Last[i].AtNs = r.u64()
		f.Last[i].Who.read(&r)
		f.Last[i].Reason = r.u32()
	}
	f.Next = r.u32()
	return r.end(4)
}

func (a Addr) MarshalBinary() ([]byte, error) { return a.AsSlice(), nil }

func (a *Addr) UnmarshalBinary(b []byte) error {
	r := reader{b: b}
	a.Addr = r.addr()
	return r.end(0)
}

// pad fills a value up as the compiler aligns it.
func pad(b []byte) []byte {
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// reader takes a record apart: fixed bytes beside its addresses, one of them unless addrs says otherwise.
type reader struct {
	b            []byte
	fixed, addrs int
	size         int // of an address
	short        bool
}

func (r *reader) take(n int) []byte {
	if len(r.b) < n {
		r.short = true
		return make([]byte, n)
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) u32() uint32  { return native.Uint32(r.measured(4)) }
func (r *reader) u64() uint64  { return native.Uint64(r.measured(8)) }
func (r *reader) port() uint16 { return binary.BigEndian.Uint16(r.measured(2)) }

// measured takes, after the size of an address has been found from that of the whole.
func (r *reader) measured(n int) []byte {
	if r.size == 0 {
		r.size = 4
		if len(r.b) >= r.fixed+16*max(r.addrs, 1) {
			r.size = 16
		}
	}
	return r.take(n)
}

func (r *reader) addr() netip.Addr {
	r.measured(0)
	a, _ := netip.AddrFromSlice(r.take(r.size))
	return a
}

// end says whether the record was a whole one; unused bytes at its end are padding.
func (r *reader) end(unused int) error {
	if r.short || len(r.b) < unused || len(r.b) > unused+4 {
		return fmt.Errorf("a record of another size than this program's: %d bytes too many", len(r.b)-unused)
	}
	return nil
}
