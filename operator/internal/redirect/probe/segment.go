// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"encoding/binary"
	"net/netip"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

const (
	flagSYN = 0x02
	flagRST = 0x04
	flagACK = 0x10

	headerSize = 20
	optionSize = 20 // at most
)

// option is the redirect of one address, padded to 8 bytes, or 20 of IPv6 (C-1, C-7, C-9).
func option(w redirect.Wire, addr netip.Addr) []byte {
	a := addr.AsSlice()
	if w.Kind == 253 || w.Kind == 254 {
		return append([]byte{w.Kind, byte(4 + len(a)), byte(w.ExID >> 8), byte(w.ExID)}, a...)
	}
	return append(append([]byte{w.Kind, byte(2 + len(a))}, a...), 1, 1)
}

// syn is the probe: a SYN with the prober's mark as redirect (C-51).
func syn(from, to netip.AddrPort, mark netip.Addr, seq uint32, w redirect.Wire) []byte {
	b := make([]byte, headerSize, headerSize+4+optionSize)
	binary.BigEndian.PutUint16(b, from.Port())
	binary.BigEndian.PutUint16(b[2:], to.Port())
	binary.BigEndian.PutUint32(b[4:], seq)
	b[13] = flagSYN
	binary.BigEndian.PutUint16(b[14:], 0xffff)
	b = append(b, 2, 4, 0x05, 0xb4) // a maximum segment size, as every SYN has
	b = append(b, option(w, mark)...)
	b[12] = byte(len(b)) / 4 << 4
	binary.BigEndian.PutUint16(b[16:], checksum(from.Addr(), to.Addr(), b))
	return b
}

func checksum(from, to netip.Addr, tcp []byte) uint16 {
	// The pseudo headers of both families have the same sum: the same numbers, and zeros.
	b := append(append(append([]byte{}, from.AsSlice()...), to.AsSlice()...), 0, 6, byte(len(tcp)>>8), byte(len(tcp)))
	b = append(b, tcp...)
	var sum uint32
	for i := 0; i < len(b); i += 2 { // the segment's length is even
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// answer reads what a raw socket gives: an IPv4 packet, or what follows an IPv6
// header; ok when it answers the probe with this sequence number, one way or the other.
func answer(packet []byte, from, to netip.AddrPort, mark netip.Addr, seq uint32, w redirect.Wire) (state redirect.State, ok bool) {
	head := 0
	if to.Addr().Is4() {
		if len(packet) < headerSize || packet[0]>>4 != 4 {
			return 0, false
		}
		head = int(packet[0]&15) * 4
	}
	if len(packet) < head+headerSize {
		return 0, false
	}
	tcp := packet[head:]
	if binary.BigEndian.Uint16(tcp) != to.Port() || binary.BigEndian.Uint16(tcp[2:]) != from.Port() || binary.BigEndian.Uint32(tcp[8:]) != seq+1 {
		return 0, false
	}
	switch tcp[13] & (flagSYN | flagACK | flagRST) {
	case flagRST, flagRST | flagACK:
		return redirect.Down, true
	case flagSYN | flagACK:
		if end := int(tcp[12]>>4) * 4; end <= len(tcp) && end >= headerSize && echoes(tcp[headerSize:end], option(w, mark)) {
			return redirect.UpCRAB, true
		}
		return redirect.UpPlain, true
	}
	return 0, false
}

// echoes tells whether an option area holds exactly our option (C-4, C-51).
func echoes(area, want []byte) bool {
	want = want[:want[1]]
	for len(area) > 0 && area[0] != 0 {
		if area[0] == 1 {
			area = area[1:]
			continue
		}
		if len(area) < 2 || area[1] < 2 || int(area[1]) > len(area) {
			return false
		}
		if size := int(area[1]); area[0] != want[0] {
			area = area[size:]
		} else {
			return string(area[:size]) == string(want)
		}
	}
	return false
}
