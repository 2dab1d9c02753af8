// SPDX-License-Identifier: Apache-2.0

package model

import (
	"hash/crc32"

	"github.com/bobtail-dev/bobtail/hack/p4/syntax"
)

// hashAlgorithm is a hash function that both architectures have, by its bits: CRC-16 (0x8005, reflected, from 0) or the
// CRC-32 of Ethernet.
func (b *builder) hashAlgorithm(x *syntax.Expr) int {
	n := b.constantExpr(x, bits(8))
	if n != 16 && n != 32 {
		b.fail(x.Pos, "this hash function is not in the subset: there are CRC-16 and CRC-32")
	}
	return int(n)
}

// digest is the hash of a list of fields, each of whole bytes.
func (b *builder) digest(x *syntax.Expr, algorithm int) (*Expr, func(m *Machine) uint64) {
	list, _ := b.fieldList(x)
	fields := list.List
	for _, f := range fields {
		if f.T.Width%8 != 0 {
			b.fail(x.Pos, "a hash of %d bits: want whole bytes", f.T.Width)
		}
	}
	return list, func(m *Machine) uint64 {
		var data []byte
		for _, f := range fields {
			v := f.Eval(m)
			for at := f.T.Width - 8; at >= 0; at -= 8 {
				data = append(data, byte(v>>at))
			}
		}
		if algorithm == 16 {
			return uint64(CRC16(data))
		}
		return uint64(crc32.ChecksumIEEE(data))
	}
}

// CRC16 is the function of HashAlgorithm.crc16 and CRC16.
func CRC16(data []byte) uint16 {
	crc := uint16(0)
	for _, c := range data {
		crc ^= uint16(c)
		for range 8 {
			if crc&1 != 0 {
				crc = crc>>1 ^ 0xa001
			} else {
				crc >>= 1
			}
		}
	}
	return crc
}

// hashCall is hash(result, algorithm, base, list, max) of v1model, with base 0 and all of the function's numbers.
func (b *builder) hashCall(x *syntax.Expr) *Node {
	b.wantArgs(x.Pos, "hash", x.Args, 5)
	to := b.expr(x.Args[0], nil)
	algorithm := b.hashAlgorithm(x.Args[1])
	if to.Place == nil || to.Sliced || to.T.Kind != KBits || to.T.Width != algorithm {
		b.fail(x.Pos, "hash wants a variable of bit<%d>", algorithm)
	}
	if b.constantExpr(x.Args[2], nil) != 0 || b.constantExpr(x.Args[4], nil) != uint64(1)<<algorithm {
		b.fail(x.Pos, "hash with a base or fewer numbers than its function has is not in the subset")
	}
	list, digest := b.digest(x.Args[3], algorithm)
	slot := to.Place.Slot
	n := effect(x.Pos, "hash", func(m *Machine) { m.S[slot] = digest(m) }, list)
	n.Writes = []int{slot}
	b.note(slot)
	return n
}
