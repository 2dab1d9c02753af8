// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// What a SACK is about.
const (
	SackRequest = 0
	SackReply   = 1
)

// SackBitsMax is how many packets one SACK covers.
const SackBitsMax = 1024

const sackHeader = 6

// SackMsg names the missing packets of a message: bit i of Bits (most
// significant first) stands for packet Base+i.
type SackMsg struct {
	What  uint8
	Base  uint16
	NBits int
	Bits  []byte // points into the packet after Decode
}

// Decode reads a payload (M-20, M-25).
func (s *SackMsg) Decode(p []byte) Case {
	*s = SackMsg{}
	if len(p) < sackHeader {
		return M20
	}
	s.What = p[0]
	s.Base = binary.BigEndian.Uint16(p[2:])
	s.NBits = int(binary.BigEndian.Uint16(p[4:]))
	if s.What > SackReply || s.NBits == 0 || s.NBits > SackBitsMax || int(s.Base)+s.NBits > 1<<16 {
		return M20
	}
	want := sackHeader + (s.NBits+7)/8
	if len(p) < want {
		return M20
	}
	s.Bits = p[sackHeader:want]
	if len(p) > want {
		return M25
	}
	return OK
}

// Missing returns the packet indices named as missing, ascending.
func (s *SackMsg) Missing() []int {
	var out []int
	for i := range s.NBits {
		if s.Bits[i>>3]>>(7-i&7)&1 == 1 {
			out = append(out, int(s.Base)+i)
		}
	}
	return out
}

// AppendSack writes a payload that names the given packets, ascending, as far
// as SackBitsMax packets reach from the first.
func AppendSack(b []byte, what uint8, missing []int) []byte {
	base := missing[0]
	nbits := 1
	for _, i := range missing {
		if i-base < SackBitsMax {
			nbits = i - base + 1
		}
	}
	b = append(b, what, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(base))
	b = binary.BigEndian.AppendUint16(b, uint16(nbits))
	at := len(b)
	b = append(b, make([]byte, (nbits+7)/8)...)
	for _, i := range missing {
		if bit := i - base; bit < nbits {
			b[at+bit>>3] |= 1 << (7 - bit&7)
		}
	}
	return b
}
