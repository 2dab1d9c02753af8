// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
)

// A report tells one peer how many connections servers of the sender's node have
// (C-62). It belongs to the session of the heartbeats and is no sign of life
// itself. Its head is a heartbeat's with another magic number; then follow 10 bytes
// per server: address, port, connections. Version 2 is of servers of IPv6, with 22
// bytes for each.
const (
	reportMagic = 0x42544c52 // BTLR
	loadSize    = 6          // without the address
	// MaxLoads bounds one report, so that it fits a frame of 1,500 bytes whatever
	// the node's name: a lost fragment would cost all of it.
	MaxLoads = 110
	// MaxLoadsSix is the same for servers of IPv6, sent over IPv6.
	MaxLoadsSix = 51
)

// mostLoads of servers of a family.
func mostLoads(six bool) int {
	if six {
		return MaxLoadsSix
	}
	return MaxLoads
}

// Report is such a datagram without its tag.
type Report struct {
	Nonce, Echo, Sequence uint64
	From                  string
	NewerKey              bool
	Loads                 []loads.Load
}

func sealReport(key []byte, r Report) ([]byte, error) {
	six := len(r.Loads) > 0 && r.Loads[0].Server.Addr().Is6()
	if most := mostLoads(six); len(r.Loads) > most {
		return nil, fmt.Errorf("%d loads in a report, at most %d", len(r.Loads), most)
	}
	h := head{magic: reportMagic, version: versionFour, count: len(r.Loads), nonce: r.Nonce, echo: r.Echo, sequence: r.Sequence, from: r.From}
	if six {
		h.version = versionBoth
	}
	if r.NewerKey {
		h.flags |= flagNewerKey
	}
	b, err := h.append(nil)
	if err != nil {
		return nil, err
	}
	for _, l := range r.Loads {
		if l.Server.Addr().Is6() != six {
			return nil, fmt.Errorf("a report of servers of both families: %s and %s", r.Loads[0].Server, l.Server)
		}
		b = append(b, l.Server.Addr().AsSlice()...)
		b = binary.BigEndian.AppendUint16(b, l.Server.Port())
		b = binary.BigEndian.AppendUint32(b, l.Open)
	}
	return append(b, tag(key, b)...), nil
}

// parseReport reads what stands before the tag.
func parseReport(b []byte) (Report, Reason) {
	h, rest, reason := parseHead(b, reportMagic)
	if reason != "" {
		return Report{}, reason
	}
	size, six := net.IPv4len, h.version == versionBoth
	if six {
		size = net.IPv6len
	}
	if h.count > mostLoads(six) || len(rest) != h.count*(size+loadSize) || six && h.count == 0 {
		return Report{}, Malformed
	}
	r := Report{Nonce: h.nonce, Echo: h.echo, Sequence: h.sequence, From: h.from, NewerKey: h.flags&flagNewerKey != 0}
	for ; len(rest) > 0; rest = rest[size+loadSize:] {
		addr, _ := netip.AddrFromSlice(rest[:size])
		server := netip.AddrPortFrom(addr, binary.BigEndian.Uint16(rest[size:]))
		if n := len(r.Loads); n > 0 && r.Loads[n-1].Server.Compare(server) >= 0 || addr.Is4In6() { // each once, in order
			return Report{}, Malformed
		}
		r.Loads = append(r.Loads, loads.Load{Server: server, Open: binary.BigEndian.Uint32(rest[size+2:])})
	}
	return r, ""
}
