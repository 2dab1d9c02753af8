// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"net/netip"
)

// Buckets of crab_connects that are none of ll7's (crab_connect_bucket).
const (
	ConnectNever = 0xfffe
	ConnectSum   = 0xffff
)

// Bounds and marks of dataplane/bpf/crab_layout.h.
const (
	LayoutVersion = 1
	LayoutMagic   = 0x43524142
	MaxVIPs       = 1024
	MaxBackends   = 4096
	MaxLoads      = 16384
	ScheduleSlots = 8192
	MaglevSlots   = 65537
	Counters      = 128
)

// Backend is struct crab_backend.
type Backend struct {
	Addr   netip.Addr // invalid: the place is free
	Load   uint16
	Weight uint16
	State  uint8
}

// Pool is struct crab_pool. bpf2go cannot write it: the compiler keeps no type of
// what lies in a map inside a map.
type Pool struct {
	Generation uint32
	Backends   uint32
	Scheduled  uint32
	Hashed     uint32
	Backend    [MaxBackends]Backend
	Schedule   [ScheduleSlots]uint16
	Maglev     [MaglevSlots + 1]uint16
}

// poolHead are the numbers in front, backendRest what follows an address, poolTail the padding.
const (
	poolHead    = 16
	backendRest = 8
	poolTail    = 4
)

// Bytes is the pool as it lies in the map; addrSize is 4 or 16.
func (p *Pool) Bytes(addrSize int) []byte {
	b := make([]byte, 0, poolSize(addrSize))
	for _, n := range []uint32{p.Generation, p.Backends, p.Scheduled, p.Hashed} {
		b = native.AppendUint32(b, n)
	}
	empty := make([]byte, addrSize)
	for i := range p.Backend {
		s := &p.Backend[i]
		if s.Addr.IsValid() {
			b = append(b, s.Addr.AsSlice()...)
		} else {
			b = append(b, empty...)
		}
		b = append(native.AppendUint16(native.AppendUint16(b, s.Load), s.Weight), s.State, 0, 0, 0)
	}
	for _, place := range p.Schedule {
		b = native.AppendUint16(b, place)
	}
	for _, place := range p.Maglev {
		b = native.AppendUint16(b, place)
	}
	return append(b, make([]byte, poolTail)...)
}

func poolSize(addrSize int) int {
	return poolHead + MaxBackends*(addrSize+backendRest) + 2*ScheduleSlots + 2*(MaglevSlots+1) + poolTail
}

// Read takes the pool out of the map's bytes.
func (p *Pool) Read(b []byte, addrSize int) error {
	if len(b) != poolSize(addrSize) {
		return fmt.Errorf("a pool of %d bytes; this program's has %d", len(b), poolSize(addrSize))
	}
	for i, to := range []*uint32{&p.Generation, &p.Backends, &p.Scheduled, &p.Hashed} {
		*to = native.Uint32(b[4*i:])
	}
	b = b[poolHead:]
	for i := range p.Backend {
		s := &p.Backend[i]
		rest := b[addrSize:]
		s.Load, s.Weight, s.State = native.Uint16(rest), native.Uint16(rest[2:]), rest[4]
		if s.Weight != 0 { // an empty place weighs nothing
			s.Addr, _ = netip.AddrFromSlice(b[:addrSize])
		}
		b = rest[backendRest:]
	}
	for i := range p.Schedule {
		p.Schedule[i] = native.Uint16(b[2*i:])
	}
	b = b[2*ScheduleSlots:]
	for i := range p.Maglev {
		p.Maglev[i] = native.Uint16(b[2*i:])
	}
	return nil
}
