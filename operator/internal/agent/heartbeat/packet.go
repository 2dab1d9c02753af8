// SPDX-License-Identifier: Apache-2.0

// Package heartbeat carries the agents' messages to each other: UDP datagrams
// with a tag made by a key all agents share. An old datagram is no use to anybody:
// what counts as alive must name a number the receiver made up for this sender.
package heartbeat

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/ownership"
)

// Layout of a datagram; numbers are in network order.
//
//	0   4  magic
//	4   1  version
//	5   1  flags: 1 the sender is able to announce
//	6   2  number of VIPs
//	8   8  the sender's nonce for this receiver
//	16  8  the receiver's nonce as the sender heard it, 0 for none
//	24  8  sequence number
//	32  1  length of the name
//	33  …  name of the sender's node
//	…   5  per VIP: address; 1 when the sender owns it
//	…   32 HMAC-SHA256 of all before
const (
	magic      = 0x42544842 // BTHB
	version    = 1
	headSize   = 33
	claimSize  = 5
	tagSize    = sha256.Size
	maxName    = 253
	flagAble   = 1
	claimOwned = 1
	// MaxVIPs bounds a message. More than 270 fill a second IP fragment.
	MaxVIPs = 1024
	maxSize = headSize + maxName + MaxVIPs*claimSize + tagSize
	// MinKey is the shortest key that is taken.
	MinKey = 16
)

// Packet is a datagram without its tag.
type Packet struct {
	Nonce, Echo, Sequence uint64
	Message               ownership.Message
}

// seal writes a datagram.
func seal(key []byte, p Packet) ([]byte, error) {
	m := p.Message
	if len(m.From) == 0 || len(m.From) > maxName {
		return nil, fmt.Errorf("name %q: 1 to %d bytes", m.From, maxName)
	}
	if len(m.VIPs) > MaxVIPs {
		return nil, fmt.Errorf("%d VIPs, at most %d", len(m.VIPs), MaxVIPs)
	}
	b := make([]byte, headSize, headSize+len(m.From)+len(m.VIPs)*claimSize+tagSize)
	binary.BigEndian.PutUint32(b, magic)
	b[4] = version
	if m.Able {
		b[5] = flagAble
	}
	binary.BigEndian.PutUint16(b[6:], uint16(len(m.VIPs)))
	binary.BigEndian.PutUint64(b[8:], p.Nonce)
	binary.BigEndian.PutUint64(b[16:], p.Echo)
	binary.BigEndian.PutUint64(b[24:], p.Sequence)
	b[32] = byte(len(m.From))
	b = append(b, m.From...)
	for _, c := range m.VIPs {
		a := c.VIP.As4()
		b = append(b, a[:]...)
		b = append(b, owned(c.Owned))
	}
	return append(b, tag(key, b)...), nil
}

func owned(o bool) byte {
	if o {
		return claimOwned
	}
	return 0
}

func tag(key, b []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(b)
	return h.Sum(nil)
}

// unseal checks the tag and reads a datagram; the reason is empty when it is good.
func unseal(keys [][]byte, b []byte) (Packet, Reason) {
	if len(b) < headSize+1+tagSize {
		return Packet{}, TooShort
	}
	body, sum := b[:len(b)-tagSize], b[len(b)-tagSize:]
	for _, key := range keys {
		if hmac.Equal(tag(key, body), sum) {
			return parse(body)
		}
	}
	return Packet{}, BadTag
}

// parse reads what stands before the tag.
func parse(b []byte) (Packet, Reason) {
	switch {
	case len(b) < headSize+1:
		return Packet{}, TooShort
	case binary.BigEndian.Uint32(b) != magic:
		return Packet{}, Malformed
	case b[4] != version:
		return Packet{}, OtherVersion
	}
	name, vips := int(b[32]), int(binary.BigEndian.Uint16(b[6:]))
	if name == 0 || name > maxName || vips > MaxVIPs || len(b) != headSize+name+vips*claimSize {
		return Packet{}, Malformed
	}
	p := Packet{
		Nonce: binary.BigEndian.Uint64(b[8:]), Echo: binary.BigEndian.Uint64(b[16:]), Sequence: binary.BigEndian.Uint64(b[24:]),
		Message: ownership.Message{From: string(b[headSize : headSize+name]), Able: b[5]&flagAble != 0},
	}
	if p.Nonce == 0 {
		return Packet{}, Malformed
	}
	var last netip.Addr
	for b = b[headSize+name:]; len(b) > 0; b = b[claimSize:] {
		addr := netip.AddrFrom4([4]byte(b[:4]))
		if last.IsValid() && !last.Less(addr) { // each once, in order
			return Packet{}, Malformed
		}
		last = addr
		p.Message.VIPs = append(p.Message.VIPs, ownership.Claim{VIP: addr, Owned: b[4]&claimOwned != 0})
	}
	return p, ""
}
