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
//	5   1  flags: 1 the sender is able to announce, 2 it takes reports of loads,
//	       4 it holds a newer key than the one that made the tag; others mean nothing
//	6   2  number of VIPs
//	8   8  the sender's nonce for this receiver
//	16  8  the receiver's nonce as the sender heard it, 0 for none
//	24  8  sequence number
//	32  1  length of the name
//	33  …  name of the sender's node
//	…   5  per VIP: address; 1 when the sender owns it
//	…   32 HMAC-SHA256 of all before
const (
	magic        = 0x42544842 // BTHB
	version      = 1
	headSize     = 33
	claimSize    = 5
	tagSize      = sha256.Size
	maxName      = 253
	flagAble     = 1
	flagReports  = 2
	flagNewerKey = 4
	claimOwned   = 1
	// MaxVIPs bounds a message. More than 270 fill a second IP fragment.
	MaxVIPs = 1024
	maxSize = headSize + maxName + MaxVIPs*claimSize + tagSize
	// MinKey is the shortest key that is taken.
	MinKey = 16
)

// Packet is a heartbeat without its tag.
type Packet struct {
	Nonce, Echo, Sequence uint64
	TakesReports          bool
	NewerKey              bool
	Message               ownership.Message
}

// head is what all datagrams begin with.
type head struct {
	magic                 uint32
	version, flags        byte
	count                 int
	nonce, echo, sequence uint64
	from                  string
}

func (h head) append(b []byte) ([]byte, error) {
	if len(h.from) == 0 || len(h.from) > maxName {
		return nil, fmt.Errorf("name %q: 1 to %d bytes", h.from, maxName)
	}
	b = binary.BigEndian.AppendUint32(b, h.magic)
	b = append(b, h.version, h.flags)
	b = binary.BigEndian.AppendUint16(b, uint16(h.count))
	b = binary.BigEndian.AppendUint64(b, h.nonce)
	b = binary.BigEndian.AppendUint64(b, h.echo)
	b = binary.BigEndian.AppendUint64(b, h.sequence)
	b = append(b, byte(len(h.from)))
	return append(b, h.from...), nil
}

// parseHead reads it; behind it stand at most most entries of a size, and nothing else.
func parseHead(b []byte, magic uint32, version byte, most, size int) (head, []byte, Reason) {
	switch {
	case len(b) < headSize+1:
		return head{}, nil, TooShort
	case binary.BigEndian.Uint32(b) != magic:
		return head{}, nil, Malformed
	case b[4] != version:
		return head{}, nil, OtherVersion
	}
	h := head{
		magic: magic, version: version, flags: b[5], count: int(binary.BigEndian.Uint16(b[6:])),
		nonce: binary.BigEndian.Uint64(b[8:]), echo: binary.BigEndian.Uint64(b[16:]), sequence: binary.BigEndian.Uint64(b[24:]),
	}
	name := int(b[32])
	if name == 0 || name > maxName || h.count > most || len(b) != headSize+name+h.count*size || h.nonce == 0 {
		return head{}, nil, Malformed
	}
	h.from = string(b[headSize : headSize+name])
	return h, b[headSize+name:], ""
}

// seal writes a datagram.
func seal(key []byte, p Packet) ([]byte, error) {
	m := p.Message
	if len(m.VIPs) > MaxVIPs {
		return nil, fmt.Errorf("%d VIPs, at most %d", len(m.VIPs), MaxVIPs)
	}
	h := head{magic: magic, version: version, count: len(m.VIPs), nonce: p.Nonce, echo: p.Echo, sequence: p.Sequence, from: m.From}
	for flag, set := range map[byte]bool{flagAble: m.Able, flagReports: p.TakesReports, flagNewerKey: p.NewerKey} {
		if set {
			h.flags |= flag
		}
	}
	b, err := h.append(make([]byte, 0, headSize+len(m.From)+len(m.VIPs)*claimSize+tagSize))
	if err != nil {
		return nil, err
	}
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

// split gives what is signed, and the tag.
func split(b []byte) (body, sum []byte, reason Reason) {
	if len(b) < headSize+1+tagSize {
		return nil, nil, TooShort
	}
	return b[:len(b)-tagSize], b[len(b)-tagSize:], ""
}

// parse reads what stands before the tag.
func parse(b []byte) (Packet, Reason) {
	h, rest, reason := parseHead(b, magic, version, MaxVIPs, claimSize)
	if reason != "" {
		return Packet{}, reason
	}
	p := Packet{
		Nonce: h.nonce, Echo: h.echo, Sequence: h.sequence, TakesReports: h.flags&flagReports != 0, NewerKey: h.flags&flagNewerKey != 0,
		Message: ownership.Message{From: h.from, Able: h.flags&flagAble != 0},
	}
	var last netip.Addr
	for ; len(rest) > 0; rest = rest[claimSize:] {
		addr := netip.AddrFrom4([4]byte(rest[:4]))
		if last.IsValid() && !last.Less(addr) { // each once, in order
			return Packet{}, Malformed
		}
		last = addr
		p.Message.VIPs = append(p.Message.VIPs, ownership.Claim{VIP: addr, Owned: rest[4]&claimOwned != 0})
	}
	return p, ""
}
