// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
)

// A report tells one peer how many connections servers of the sender's node have
// (C-62). It belongs to the session of the heartbeats and is no sign of life
// itself. Its head is a heartbeat's with another magic number and version; then
// follow 10 bytes per server: address, port, connections.
const (
	reportMagic   = 0x42544c52 // BTLR
	reportVersion = 1
	loadSize      = 10
	// MaxLoads bounds one report, so that it fits a frame of 1,500 bytes whatever
	// the node's name: a lost fragment would cost all of it.
	MaxLoads = 110
)

// Report is such a datagram without its tag.
type Report struct {
	Nonce, Echo, Sequence uint64
	From                  string
	NewerKey              bool
	Loads                 []loads.Load
}

func sealReport(key []byte, r Report) ([]byte, error) {
	if len(r.Loads) > MaxLoads {
		return nil, fmt.Errorf("%d loads in a report, at most %d", len(r.Loads), MaxLoads)
	}
	h := head{magic: reportMagic, version: reportVersion, count: len(r.Loads), nonce: r.Nonce, echo: r.Echo, sequence: r.Sequence, from: r.From}
	if r.NewerKey {
		h.flags |= flagNewerKey
	}
	b, err := h.append(nil)
	if err != nil {
		return nil, err
	}
	for _, l := range r.Loads {
		a := l.Server.Addr().As4()
		b = append(b, a[:]...)
		b = binary.BigEndian.AppendUint16(b, l.Server.Port())
		b = binary.BigEndian.AppendUint32(b, l.Open)
	}
	return append(b, tag(key, b)...), nil
}

// parseReport reads what stands before the tag.
func parseReport(b []byte) (Report, Reason) {
	h, rest, reason := parseHead(b, reportMagic, reportVersion, MaxLoads, loadSize)
	if reason != "" {
		return Report{}, reason
	}
	r := Report{Nonce: h.nonce, Echo: h.echo, Sequence: h.sequence, From: h.from, NewerKey: h.flags&flagNewerKey != 0}
	for ; len(rest) > 0; rest = rest[loadSize:] {
		server := netip.AddrPortFrom(netip.AddrFrom4([4]byte(rest[:4])), binary.BigEndian.Uint16(rest[4:]))
		if n := len(r.Loads); n > 0 && r.Loads[n-1].Server.Compare(server) >= 0 { // each once, in order
			return Report{}, Malformed
		}
		r.Loads = append(r.Loads, loads.Load{Server: server, Open: binary.BigEndian.Uint32(rest[6:])})
	}
	return r, ""
}
