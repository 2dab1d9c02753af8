// SPDX-License-Identifier: Apache-2.0

package shim

import "encoding/binary"

// Class says what a frame carries, by its R2P2 header (docs/reference/protocol.md §1).
type Class int

// Classes. Everything that is IP but no R2P2 packet is ICMP or OtherIP.
const (
	Req0 Class = iota
	ReqN
	Reply
	Feedback
	ReqRdy
	Drop
	Sack
	OtherUDP
	ICMP
	OtherIP
	classes
)

var classNames = [classes]string{"REQ0", "REQn", "REPLY", "FEEDBACK", "REQRDY", "DROP", "SACK", "other-udp", "icmp", "other-ip"}

func (c Class) String() string { return classNames[c] }

// R2P2 holds of the classes that the protocol itself sends.
func (c Class) R2P2() bool { return c <= Sack }

const (
	etherHeader = 14
	ipv6Header  = 40
	udpHeader   = 8
	protoUDP    = 17
	protoICMP   = 1
	protoICMPv6 = 58
	firstHops   = 64 // what the kernels of the bed begin with
)

// packet is a frame taken apart as far as faults need it.
type packet struct {
	frame    []byte
	from, to int
	class    Class
	udp      int // offset of the UDP header, 0 when there is none
	hops     int // TTL or hop limit, 0 when not IP
}

// payload is the UDP payload, nil when the frame has none.
func (p *packet) payload() []byte {
	if p.udp == 0 {
		return nil
	}
	return p.frame[p.udp+udpHeader:]
}

// classify fills in class and udp. Anything it cannot read is OtherIP: faults
// then still apply, nothing is dropped by mistake.
func classify(p *packet) {
	p.class = OtherIP
	f := p.frame
	if len(f) < etherHeader+1 {
		return
	}
	proto, at := 0, 0
	switch binary.BigEndian.Uint16(f[12:]) {
	case 0x0800:
		if len(f) < etherHeader+20 {
			return
		}
		proto, at, p.hops = int(f[etherHeader+9]), etherHeader+4*int(f[etherHeader]&15), int(f[etherHeader+8])
	case 0x86DD:
		if len(f) < etherHeader+ipv6Header {
			return
		}
		proto, at, p.hops = int(f[etherHeader+6]), etherHeader+ipv6Header, int(f[etherHeader+7])
	}
	switch {
	case proto == protoICMP || proto == protoICMPv6:
		p.class = ICMP
	case proto == protoUDP && len(f) >= at+udpHeader:
		p.class, p.udp = OtherUDP, at
		// Short frames are padded; the datagram ends where its length says.
		if n := at + int(binary.BigEndian.Uint16(f[at+4:])); n >= at+udpHeader && n <= len(f) {
			p.frame = f[:n]
		}
		p.class = classOf(p.payload())
	}
}

func classOf(r2p2 []byte) Class {
	if len(r2p2) < 8 || r2p2[0] != 0xCC {
		return OtherUDP
	}
	switch r2p2[2] >> 4 {
	case 0:
		if r2p2[3]&0x80 != 0 {
			return Req0
		}
		return ReqN
	case 1:
		return Reply
	case 2:
		return Feedback
	case 3:
		return ReqRdy
	case 4:
		return Drop
	case 8:
		return Sack
	}
	return OtherUDP
}

// fixChecksum computes the UDP checksum anew after the payload was changed.
func fixChecksum(p *packet) {
	f, at := p.frame, p.udp
	binary.BigEndian.PutUint16(f[at+6:], 0)
	var sum uint32
	if binary.BigEndian.Uint16(f[12:]) == 0x0800 {
		sum = sum16(sum, f[etherHeader+12:etherHeader+20])
	} else {
		sum = sum16(sum, f[etherHeader+8:etherHeader+40])
	}
	sum += protoUDP + uint32(len(f)-at)
	sum = sum16(sum, f[at:])
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	check := ^uint16(sum)
	if check == 0 {
		check = 0xffff
	}
	binary.BigEndian.PutUint16(f[at+6:], check)
}

func sum16(sum uint32, b []byte) uint32 {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}
