// SPDX-License-Identifier: Apache-2.0

// Package bed sets a router program up with services and workers, and speaks R2P2 with it.
package bed

import "encoding/binary"

// Where everybody is.
const (
	RouterIP     = 0x0a000001 // 10.0.0.1
	RequestPort  = 8000
	FeedbackPort = 9000
	ClientIP     = 0x0a000101
	RouterMAC    = 0x020000000001
	ClientMAC    = 0x020000000101
	Plain        = 14 + 20 + 8
)

// Ends of a datagram.
type Ends struct {
	Src, Dst         uint32
	SrcPort, DstPort uint16
}

// Frame puts Ethernet, IPv4 and UDP in front of a payload, and fills up to the least that Ethernet carries.
func Frame(e Ends, payload []byte) []byte {
	f := make([]byte, Plain, max(60, Plain+len(payload)))
	put48(f, RouterMAC)
	put48(f[6:], ClientMAC)
	binary.BigEndian.PutUint16(f[12:], 0x0800)
	ip := f[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(ip[2:], uint16(28+len(payload)))
	binary.BigEndian.PutUint16(ip[6:], 0x4000)
	binary.BigEndian.PutUint32(ip[12:], e.Src)
	binary.BigEndian.PutUint32(ip[16:], e.Dst)
	udp := ip[20:]
	binary.BigEndian.PutUint16(udp, e.SrcPort)
	binary.BigEndian.PutUint16(udp[2:], e.DstPort)
	binary.BigEndian.PutUint16(udp[4:], uint16(8+len(payload)))
	f = append(f, payload...)
	SetSums(f)
	for len(f) < 60 {
		f = append(f, 0)
	}
	return f
}

func put48(p []byte, v uint64) {
	binary.BigEndian.PutUint16(p, uint16(v>>32))
	binary.BigEndian.PutUint32(p[2:], uint32(v))
}

func sum(p []byte, s uint32) uint32 {
	for i := 0; i+1 < len(p); i += 2 {
		s += uint32(p[i])<<8 | uint32(p[i+1])
	}
	if len(p)%2 == 1 {
		s += uint32(p[len(p)-1]) << 8
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return s
}

// SetSums writes both checksums.
func SetSums(f []byte) {
	ip := f[14:34]
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum(ip, 0)))
	udp := datagram(f)
	udp[6], udp[7] = 0, 0
	sum := ^udpSum(f)
	if sum == 0 {
		sum = 0xffff // 0 says that there is none
	}
	binary.BigEndian.PutUint16(udp[6:], sum)
}

// datagram is the UDP header and what its length says.
func datagram(f []byte) []byte {
	n := int(binary.BigEndian.Uint16(f[38:]))
	return f[34:min(len(f), 34+max(n, 8))]
}

func udpSum(f []byte) uint16 {
	udp := datagram(f)
	return uint16(sum(udp, sum(f[26:34], 17+uint32(len(udp)))))
}

// Sound: both checksums hold, and the lengths are those of each other.
func Sound(f []byte) bool {
	if len(f) < Plain || sum(f[14:34], 0) != 0xffff {
		return false
	}
	ip, udp := int(binary.BigEndian.Uint16(f[16:])), int(binary.BigEndian.Uint16(f[38:]))
	if ip != udp+20 || 14+ip > len(f) {
		return false
	}
	return binary.BigEndian.Uint16(f[40:]) == 0 || udpSum(f) == 0xffff
}

// EndsOf a frame.
func EndsOf(f []byte) Ends {
	return Ends{binary.BigEndian.Uint32(f[26:]), binary.BigEndian.Uint32(f[30:]),
		binary.BigEndian.Uint16(f[34:]), binary.BigEndian.Uint16(f[36:])}
}

// Payload of a frame, as its UDP length says.
func Payload(f []byte) []byte {
	return f[Plain:min(len(f), 34+int(binary.BigEndian.Uint16(f[38:])))]
}

// Request is a REQ0 with a body.
func Request(id uint16, body []byte) []byte {
	p := []byte{0xcc, 8, 0, 0xe0, byte(id >> 8), byte(id), 0, 1}
	return append(p, body...)
}

// Asking puts a class and its flags into a request, as its first option.
func Asking(request []byte, class, flags uint8) []byte {
	p := append([]byte{}, request[:8]...)
	p[1] += 4
	return append(append(p, 3, 4, class, flags), request[8:]...)
}

// Feedback is what a worker says of itself.
type Feedback struct {
	Flags            uint8
	N                uint16
	Incarnation      uint32
	Received, Served uint64

	Client      uint32 // the pair that it names, where Flags say so
	Port, ReqID uint16
}

// The flags of a FEEDBACK.
const (
	Join    = 1
	Leave   = 2
	Pair    = 4
	Dropped = 8
)

// Bytes of a FEEDBACK, with its R2P2 header.
func (fb Feedback) Bytes() []byte {
	p := make([]byte, 40)
	copy(p, []byte{0xcc, 8, 0x20, 0xe0, 0, 0, 0, 1})
	binary.BigEndian.PutUint16(p[8:], fb.ReqID)
	binary.BigEndian.PutUint16(p[10:], fb.Port)
	binary.BigEndian.PutUint32(p[12:], fb.Client)
	p[16], p[17] = 1, fb.Flags
	binary.BigEndian.PutUint16(p[18:], fb.N)
	binary.BigEndian.PutUint32(p[20:], fb.Incarnation)
	binary.BigEndian.PutUint64(p[24:], fb.Received)
	binary.BigEndian.PutUint64(p[32:], fb.Served)
	return p
}
