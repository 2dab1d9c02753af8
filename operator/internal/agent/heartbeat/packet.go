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
	"net"
	"net/netip"
	"slices"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/ownership"
)

// Layout of a datagram; numbers are in network order.
//
//	0   4  magic
//	4   1  version: 1, or 2 when it names VIPs of IPv6; only who has said that
//	       it reads that one is sent it, and all others are told of IPv4 alone
//	5   1  flags: 1 the sender is able to announce, 2 it takes reports of loads,
//	       4 it holds a newer key than the one that made the tag, 8 it reads
//	       version 2 of heartbeats and reports; others mean nothing
//	6   2  number of IPv4 VIPs
//	8   8  the sender's nonce for this receiver
//	16  8  the receiver's nonce as the sender heard it, 0 for none
//	24  8  sequence number
//	32  1  length of the name
//	33  …  name of the sender's node
//	…   5  per IPv4 VIP: address; 1 when the sender owns it
//	…   2  version 2 only: number of IPv6 VIPs
//	…   17 per IPv6 VIP: the same
//	…   32 HMAC-SHA256 of all before
const (
	magic        = 0x42544842 // BTHB
	versionFour  = 1          // of a datagram with addresses of IPv4 only
	versionBoth  = 2
	headSize     = 33
	countSize    = 2
	ownedSize    = 1 // of a claim, behind its address
	tagSize      = sha256.Size
	maxName      = 253
	flagAble     = 1
	flagReports  = 2
	flagNewerKey = 4
	flagSix      = 8
	claimOwned   = 1
	// MaxVIPs bounds a message. More than 270 of IPv4, or 80 of IPv6, fill a
	// second IP fragment.
	MaxVIPs = 1024
	maxSize = headSize + maxName + countSize + MaxVIPs*(16+ownedSize) + tagSize
	// MinKey is the shortest key that is taken.
	MinKey = 16
)

// Packet is a heartbeat without its tag.
type Packet struct {
	Nonce, Echo, Sequence uint64
	TakesReports          bool
	NewerKey              bool
	ReadsSix              bool // version 2
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

// parseHead reads it, and gives what stands behind it.
func parseHead(b []byte, magic uint32) (head, []byte, Reason) {
	switch {
	case len(b) < headSize+1:
		return head{}, nil, TooShort
	case binary.BigEndian.Uint32(b) != magic:
		return head{}, nil, Malformed
	case b[4] != versionFour && b[4] != versionBoth:
		return head{}, nil, OtherVersion
	}
	h := head{
		magic: magic, version: b[4], flags: b[5], count: int(binary.BigEndian.Uint16(b[6:])),
		nonce: binary.BigEndian.Uint64(b[8:]), echo: binary.BigEndian.Uint64(b[16:]), sequence: binary.BigEndian.Uint64(b[24:]),
	}
	name := int(b[32])
	if name == 0 || name > maxName || len(b) < headSize+name || h.nonce == 0 {
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
	four, six := byFamily(m.VIPs)
	h := head{magic: magic, version: versionFour, count: len(four), nonce: p.Nonce, echo: p.Echo, sequence: p.Sequence, from: m.From}
	if len(six) > 0 {
		h.version = versionBoth
	}
	for flag, set := range map[byte]bool{flagAble: m.Able, flagReports: p.TakesReports, flagNewerKey: p.NewerKey, flagSix: p.ReadsSix} {
		if set {
			h.flags |= flag
		}
	}
	b, err := h.append(make([]byte, 0, headSize+len(m.From)+countSize+len(m.VIPs)*(16+ownedSize)+tagSize))
	if err != nil {
		return nil, err
	}
	b = appendClaims(b, four)
	if len(six) > 0 {
		b = appendClaims(binary.BigEndian.AppendUint16(b, uint16(len(six))), six)
	}
	return append(b, tag(key, b)...), nil
}

// byFamily parts claims, which are in order, and IPv4 comes first.
func byFamily(all []ownership.Claim) (four, six []ownership.Claim) {
	at := slices.IndexFunc(all, func(c ownership.Claim) bool { return !c.VIP.Is4() })
	if at < 0 {
		return all, nil
	}
	return all[:at], all[at:]
}

func appendClaims(b []byte, claims []ownership.Claim) []byte {
	for _, c := range claims {
		b = append(append(b, c.VIP.AsSlice()...), owned(c.Owned))
	}
	return b
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
	h, rest, reason := parseHead(b, magic)
	if reason != "" {
		return Packet{}, reason
	}
	p := Packet{
		Nonce: h.nonce, Echo: h.echo, Sequence: h.sequence,
		TakesReports: h.flags&flagReports != 0, NewerKey: h.flags&flagNewerKey != 0, ReadsSix: h.flags&flagSix != 0,
		Message: ownership.Message{From: h.from, Able: h.flags&flagAble != 0},
	}
	four, rest, ok := takeClaims(rest, h.count, net.IPv4len)
	var six []ownership.Claim
	if ok && h.version == versionBoth {
		if ok = len(rest) >= countSize; ok {
			count := int(binary.BigEndian.Uint16(rest))
			six, rest, ok = takeClaims(rest[countSize:], count, net.IPv6len)
			ok = ok && len(six) > 0
		}
	}
	p.Message.VIPs = append(four, six...)
	if !ok || len(rest) > 0 || len(p.Message.VIPs) > MaxVIPs {
		return Packet{}, Malformed
	}
	return p, ""
}

// takeClaims reads claims of one family; each address stands there once, and they
// are in order.
func takeClaims(b []byte, count, size int) (claims []ownership.Claim, rest []byte, ok bool) {
	entry := size + ownedSize
	if count > MaxVIPs || len(b) < count*entry {
		return nil, nil, false
	}
	for range count {
		addr, _ := netip.AddrFromSlice(b[:size])
		if n := len(claims); n > 0 && !claims[n-1].VIP.Less(addr) || addr.Is4In6() {
			return nil, nil, false
		}
		claims = append(claims, ownership.Claim{VIP: addr, Owned: b[size]&claimOwned != 0})
		b = b[entry:]
	}
	return claims, b, true
}
