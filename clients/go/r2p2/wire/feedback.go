// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"net/netip"
)

// Flags of a FEEDBACK (§7).
const (
	FeedbackJoin      = 0x01
	FeedbackLeave     = 0x02
	FeedbackPair      = 0x04 // the pair identity is valid
	FeedbackDropped   = 0x08 // that pair was dropped, not served
	FeedbackPeriodic  = 0x10
	FeedbackCancelled = 0x20 // with FeedbackDropped: because its router took it back; no client was told
)

const (
	feedbackLegacySize = 8
	feedbackV1Size     = 32
	feedbackV2Size     = 44
	feedbackV3Size     = 36
)

// FeedbackMsg is the payload of a FEEDBACK: what a worker tells one router.
type FeedbackMsg struct {
	Version     uint8 // 0 legacy, 1 IPv4, 2 IPv6, 3 IPv4 with a signal, or newer
	Flags       uint8
	ReqID       uint16 // of the finished pair
	Client      netip.AddrPort
	N           uint16 // requests the worker takes from this router; 0: send nothing
	Incarnation uint32
	Received    uint64
	Served      uint64
	Signal      FlowSignal // version 3: what a client without tokens is told (F-49)
}

// Decode reads a payload. Version 2 is told by its length, because its version
// byte lies elsewhere; versions above 2 may be longer than what is known (M-25).
func (f *FeedbackMsg) Decode(p []byte) Case {
	*f = FeedbackMsg{}
	n := len(p)
	if n != feedbackLegacySize && n < feedbackV1Size {
		return M21
	}
	f.ReqID = binary.BigEndian.Uint16(p)
	port := binary.BigEndian.Uint16(p[2:])
	if n == feedbackV2Size && p[20] == 2 {
		f.Client = netip.AddrPortFrom(netip.AddrFrom16([16]byte(p[4:20])).Unmap(), port)
		f.readTail(p[20:])
	} else {
		f.Client = netip.AddrPortFrom(netip.AddrFrom4([4]byte(p[4:8])), port)
		if n == feedbackLegacySize {
			f.Flags = FeedbackPair
			return OK
		}
		f.readTail(p[8:])
		if f.Version == 0 || f.Version == 2 {
			return M21
		}
		switch {
		case f.Version == 1 && n > feedbackV1Size, f.Version == 3 && n > feedbackV3Size:
			return M25
		case f.Version == 3 && n < feedbackV3Size:
			return M21
		case f.Version == 3:
			f.Signal = FlowSignal(binary.BigEndian.Uint16(p[feedbackV1Size:]))
		}
	}
	if int64(f.Received-f.Served) < 0 { // serial arithmetic: both counters wrap
		return M22
	}
	return OK
}

func (f *FeedbackMsg) readTail(p []byte) {
	f.Version, f.Flags = p[0], p[1]
	f.N = binary.BigEndian.Uint16(p[2:])
	f.Incarnation = binary.BigEndian.Uint32(p[4:])
	f.Received = binary.BigEndian.Uint64(p[8:])
	f.Served = binary.BigEndian.Uint64(p[16:])
}

// Append writes version 1, or 2 when the client of the pair is IPv6, and sets
// f.Version. Without FeedbackPair the identity bytes are zero.
func (f *FeedbackMsg) Append(b []byte) []byte {
	ip, id, port := netip.IPv4Unspecified(), uint16(0), uint16(0)
	if f.Flags&FeedbackPair != 0 {
		ip, id, port = f.Client.Addr().Unmap(), f.ReqID, f.Client.Port()
	}
	f.Version = 1
	if !ip.Is4() {
		f.Version = 2
	}
	b = binary.BigEndian.AppendUint16(b, id)
	b = binary.BigEndian.AppendUint16(b, port)
	b = append(b, ip.AsSlice()...)
	b = append(b, f.Version, f.Flags)
	b = binary.BigEndian.AppendUint16(b, f.N)
	b = binary.BigEndian.AppendUint32(b, f.Incarnation)
	b = binary.BigEndian.AppendUint64(b, f.Received)
	return binary.BigEndian.AppendUint64(b, f.Served)
}
