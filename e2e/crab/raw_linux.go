// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Segment is a TCP segment written by hand, for attacks and odd SYNs.
type Segment struct {
	Src, Dst netip.AddrPort
	Flags    byte
	Seq, Ack uint32
	Options  []byte // a multiple of 4
	Data     []byte
}

// Bytes is the IP packet with right checksums.
func (s Segment) Bytes() []byte {
	tcp := make([]byte, 20, 60+len(s.Data))
	binary.BigEndian.PutUint16(tcp, s.Src.Port())
	binary.BigEndian.PutUint16(tcp[2:], s.Dst.Port())
	binary.BigEndian.PutUint32(tcp[4:], s.Seq)
	binary.BigEndian.PutUint32(tcp[8:], s.Ack)
	tcp[12] = byte(20+len(s.Options)) / 4 << 4
	tcp[13] = s.Flags
	tcp[14] = 0xff
	tcp = append(append(tcp, s.Options...), s.Data...)
	src, dst := s.Src.Addr().AsSlice(), s.Dst.Addr().AsSlice()
	addrs := append(append([]byte{}, src...), dst...)
	pseudo := append(append([]byte{}, addrs...), 0, 6, byte(len(tcp)>>8), byte(len(tcp)))
	binary.BigEndian.PutUint16(tcp[16:], checksum(append(pseudo, tcp...)))
	if s.Src.Addr().Is6() {
		ip := []byte{0x60, 0, 0, 0, byte(len(tcp) >> 8), byte(len(tcp)), 6, 64}
		return append(append(ip, addrs...), tcp...)
	}

	ip := make([]byte, 20, 20+len(tcp))
	ip[0], ip[8], ip[9] = 0x45, 64, 6
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(tcp)))
	copy(ip[12:], addrs)
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	return append(ip, tcp...)
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		word := uint32(b[i]) << 8
		if i+1 < len(b) {
			word |= uint32(b[i+1])
		}
		sum += word
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// Inject sends segments from the host, whatever source they name.
func (h *Host) Inject(segments ...Segment) error {
	return h.Inside(func() error {
		domain := unix.AF_INET
		if len(segments) > 0 && segments[0].Dst.Addr().Is6() {
			domain = unix.AF_INET6
		}
		fd, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for _, s := range segments {
			var to unix.Sockaddr
			if s.Dst.Addr().Is6() {
				to = &unix.SockaddrInet6{Addr: s.Dst.Addr().As16()}
			} else {
				to = &unix.SockaddrInet4{Addr: s.Dst.Addr().As4()}
			}
			if err := unix.Sendto(fd, s.Bytes(), 0, to); err != nil {
				return err
			}
			h.injected++
		}
		return nil
	})
}
