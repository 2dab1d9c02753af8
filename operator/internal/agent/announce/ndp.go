// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"encoding/binary"
	"net"
	"net/netip"
)

const (
	ipv6Header   = 40
	nextICMPv6   = 58
	hopLimit     = 255 // what has passed a router cannot have it (RFC 4861)
	solicitation = 135
	advert       = 136
	bodySize     = 24 // of either message, without options
	optionSource = 1
	optionTarget = 2
	optionSize   = 8 // a link-layer address of Ethernet
	flagSolicit  = 0x40
	flagOverride = 0x20
)

var (
	allNodes = netip.AddrFrom16([16]byte{0: 0xff, 1: 0x02, 15: 1})
	nobody   = netip.IPv6Unspecified()
)

// neighbourMessage is a neighbour solicitation or advertisement (RFC 4861), with
// its IPv6 header.
type neighbourMessage struct {
	kind      byte
	src, dst  netip.Addr
	target    netip.Addr
	mac       net.HardwareAddr // nil: the option is missing
	solicited bool
}

// parseNDP reads an IPv6 packet; false when it is no valid message of either kind,
// by the rules of RFC 4861, sections 7.1.1 and 7.1.2.
func parseNDP(b []byte) (neighbourMessage, bool) {
	if len(b) < ipv6Header+bodySize || b[0]>>4 != 6 || b[6] != nextICMPv6 || b[7] != hopLimit {
		return neighbourMessage{}, false
	}
	size := int(binary.BigEndian.Uint16(b[4:]))
	if size < bodySize || len(b) < ipv6Header+size {
		return neighbourMessage{}, false
	}
	m := neighbourMessage{src: netip.AddrFrom16([16]byte(b[8:24])), dst: netip.AddrFrom16([16]byte(b[24:40]))}
	body := b[ipv6Header : ipv6Header+size] // padding of the frame is behind
	if icmpSum(m.src, m.dst, body) != 0 || body[1] != 0 {
		return neighbourMessage{}, false
	}
	m.kind, m.target, m.solicited = body[0], netip.AddrFrom16([16]byte(body[8:24])), body[0] == advert && body[4]&flagSolicit != 0
	mac, ok := linkAddress(body[bodySize:], m.option())
	m.mac = mac
	return m, ok && m.valid()
}

// option that holds the sender's, or the target's, link-layer address.
func (m neighbourMessage) option() byte {
	if m.kind == solicitation {
		return optionSource
	}
	return optionTarget
}

func (m neighbourMessage) valid() bool {
	if m.target.IsMulticast() || m.src.IsMulticast() {
		return false
	}
	switch m.kind {
	case solicitation:
		// Who looks whether an address is free has none to be answered at.
		return m.src != nobody || m.mac == nil && m.dst == solicitedNode(m.target)
	case advert:
		return !m.solicited || !m.dst.IsMulticast()
	}
	return false
}

// claims is the address the sender says is its own: the one it advertises, or asks by.
func (m neighbourMessage) claims() netip.Addr {
	if m.kind == advert {
		return m.target
	}
	return m.src
}

// linkAddress finds the option of a kind; false when the options are damaged.
func linkAddress(options []byte, kind byte) (mac net.HardwareAddr, ok bool) {
	for len(options) > 0 {
		if len(options) < optionSize || options[1] == 0 || int(options[1])*8 > len(options) {
			return nil, false
		}
		if options[0] == kind && options[1] == 1 {
			mac = net.HardwareAddr(append([]byte(nil), options[2:optionSize]...))
		}
		options = options[int(options[1])*8:]
	}
	return mac, true
}

func (m neighbourMessage) bytes() []byte {
	body := make([]byte, bodySize, bodySize+optionSize)
	body[0] = m.kind
	if m.kind == advert {
		body[4] = flagOverride
		if m.solicited {
			body[4] |= flagSolicit
		}
	}
	target := m.target.As16()
	copy(body[8:], target[:])
	if m.mac != nil {
		body = append(append(body, m.option(), 1), m.mac...)
	}
	binary.BigEndian.PutUint16(body[2:], icmpSum(m.src, m.dst, body))
	b := make([]byte, ipv6Header, ipv6Header+len(body))
	b[0], b[6], b[7] = 0x60, nextICMPv6, hopLimit
	binary.BigEndian.PutUint16(b[4:], uint16(len(body)))
	src, dst := m.src.As16(), m.dst.As16()
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
	return append(b, body...)
}

// icmpSum is the checksum of a message whose field for it is empty, and 0 for one
// that holds the right one. Messages have an even length.
func icmpSum(src, dst netip.Addr, body []byte) uint16 {
	from, to := src.As16(), dst.As16()
	b := append(append(append(make([]byte, 0, 40+len(body)), from[:]...), to[:]...), 0, 0, byte(len(body)>>8), byte(len(body)), 0, 0, 0, nextICMPv6)
	b = append(b, body...)
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// solicitedNode is the group in which an address is asked for.
func solicitedNode(a netip.Addr) netip.Addr {
	b := a.As16()
	return netip.AddrFrom16([16]byte{0: 0xff, 1: 0x02, 11: 1, 12: 0xff, 13: b[13], 14: b[14], 15: b[15]})
}

// groupMAC is the Ethernet address of an IPv6 group.
func groupMAC(group netip.Addr) net.HardwareAddr {
	b := group.As16()
	return net.HardwareAddr{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

// answerNDP says who has the target. One that looks whether the address is free
// (RFC 4862) has none yet: all are told, and it must choose another.
func answerNDP(m neighbourMessage, mac net.HardwareAddr) neighbourMessage {
	if m.src == nobody {
		return unsolicited(m.target, mac)
	}
	return neighbourMessage{kind: advert, src: m.target, dst: m.src, target: m.target, mac: mac, solicited: true}
}

// unsolicited tells all nodes of the wire where a VIP is.
func unsolicited(vip netip.Addr, mac net.HardwareAddr) neighbourMessage {
	return neighbourMessage{kind: advert, src: vip, dst: allNodes, target: vip, mac: mac}
}

// solicit asks for an address.
func solicit(from, target netip.Addr, mac net.HardwareAddr) neighbourMessage {
	return neighbourMessage{kind: solicitation, src: from, dst: solicitedNode(target), target: target, mac: mac}
}
