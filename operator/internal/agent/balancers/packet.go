// SPDX-License-Identifier: Apache-2.0

// Package balancers tells userspace balancers (bobtail-crab-lb) how many
// connections the servers of this node have open, in reports they can believe:
// C-64 to C-66.
package balancers

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
)

// Layout of a datagram; numbers are in network order.
//
//	0   2  "CR"
//	2   1  version, 2
//	3   1  1 a report, 2 the balancer's answer, which opens a session
//	4   2  number of loads, 1 to 48; 0 in an answer
//	6   2  0
//	8   8  the balancer's run, 0 when it is not known yet
//	16  8  session, as the balancer opened it; 0 for none
//	24  8  the sender's own number
//	32  8  sequence number; an answer repeats it, and the sender's number
//	40  …  24 per load: address, IPv4 as ::ffff:a.b.c.d; port; 0 (2); open connections
//	…   16 the first half of HMAC-SHA256 of all before
const (
	version    = 2
	kindReport = 1
	kindAnswer = 2
	headSize   = 40
	loadSize   = 24
	tagSize    = 16
	answerSize = headSize + tagSize
	// most loads of one datagram, which fits IPv6's smallest MTU.
	most = 48
)

// head is what both kinds begin with.
type head struct{ run, session, sender, sequence uint64 }

func (h head) append(kind byte, count int) []byte {
	b := make([]byte, 0, headSize+count*loadSize+tagSize)
	b = append(b, 'C', 'R', version, kind)
	b = binary.BigEndian.AppendUint16(b, uint16(count))
	b = append(b, 0, 0)
	for _, n := range []uint64{h.run, h.session, h.sender, h.sequence} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// seal writes a report of up to `most` loads.
func seal(key []byte, h head, all []loads.Load) []byte {
	b := h.append(kindReport, len(all))
	for _, l := range all {
		addr := l.Server.Addr().As16()
		b = append(b, addr[:]...)
		b = binary.BigEndian.AppendUint16(b, l.Server.Port())
		b = append(b, 0, 0)
		b = binary.BigEndian.AppendUint32(b, l.Open)
	}
	return append(b, tag(key, b)...)
}

func tag(key, b []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(b)
	return h.Sum(nil)[:tagSize]
}

// open reads an answer; false when no key of these made it.
func open(keys [][]byte, b []byte) (head, bool) {
	if len(b) != answerSize {
		return head{}, false
	}
	h := head{
		run: binary.BigEndian.Uint64(b[8:]), session: binary.BigEndian.Uint64(b[16:]),
		sender: binary.BigEndian.Uint64(b[24:]), sequence: binary.BigEndian.Uint64(b[32:]),
	}
	if string(b[:8]) != string(h.append(kindAnswer, 0)[:8]) || h.run == 0 || h.session == 0 {
		return head{}, false
	}
	for _, key := range keys {
		if hmac.Equal(tag(key, b[:headSize]), b[headSize:]) {
			return h, true
		}
	}
	return head{}, false
}

// usable addresses are those a report can name.
func usable(server netip.AddrPort) bool {
	a := server.Addr()
	return server.Port() != 0 && a.IsValid() && !a.Is4In6() && !a.IsUnspecified() && !a.IsMulticast() && a.Zone() == ""
}
