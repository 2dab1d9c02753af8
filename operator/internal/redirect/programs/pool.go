// SPDX-License-Identifier: Apache-2.0

package programs

import "unsafe"

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

// Backend is struct crab_backend; the address is in network order.
type Backend struct {
	Addr   [4]byte
	Load   uint16
	Weight uint16
	State  uint8
	_      [3]uint8
}

// Pool is struct crab_pool. bpf2go cannot write it: the compiler keeps no type
// of what lies in a map inside a map.
type Pool struct {
	Generation uint32
	Backends   uint32
	Scheduled  uint32
	Hashed     uint32
	Backend    [MaxBackends]Backend
	Schedule   [ScheduleSlots]uint16
	Maglev     [MaglevSlots + 1]uint16
	_          uint32
}

// Bytes is the pool as it lies in the map.
func (p *Pool) Bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}
