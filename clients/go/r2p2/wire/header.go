// SPDX-License-Identifier: Apache-2.0

// Package wire reads and writes R2P2 packets: header, options, FEEDBACK, SACK
// and key tags. It is the Go twin of dataplane/src/wire and is held to it by
// shared vectors. Nothing here keeps state or allocates beyond its results.
package wire

import "encoding/binary"

// Sizes in bytes.
const (
	HeaderSize    = 8
	HeaderMax     = 64 // header with options
	OptionReserve = 32 // room a client leaves for a router's options
	RequestFirst  = 14 // request bytes in REQ0 of a multi-packet request (§4)
	MaxPackets    = 1<<16 - 1
	MTU           = 1500 // default; a configuration value equal on all nodes
)

const magic = 0xCC

// Type of a message.
type Type uint8

// Message types with the paper's names (§2).
const (
	Request     Type = 0
	Reply       Type = 1
	Feedback    Type = 2
	ReqRdy      Type = 3
	Drop        Type = 4
	RaftRequest Type = 5
	RaftReply   Type = 6
	RaftMessage Type = 7
	Sack        Type = 8
	Cancel      Type = 9 // router to server: take a copy of a request back
)

// Policy tells a router which workers may get a request (§3.1).
type Policy uint8

// Policies; a server or router that does not implement one answers DROP.
const (
	Unrestricted    Policy = 0 // any worker
	Sticky          Policy = 1 // the master worker
	ReplicatedWrite Policy = 2
	ReplicatedRead  Policy = 3
)

// Role of the reader decides which types are legal (M-5).
type Role uint8

// Roles.
const (
	RoleClient Role = iota // REPLY REQRDY DROP SACK
	RoleServer             // REQUEST SACK CANCEL
	RoleRouter             // REQUEST FEEDBACK
	RoleRouterRequests
	RoleRouterFeedback
	RoleAny // every type (tools)
)

// Header is a decoded packet. Index is the packet's number within its message
// for packets other than the first.
type Header struct {
	Type    Type
	Policy  Policy
	First   bool
	Last    bool
	Ext     bool // X: the sender understands extensions
	Legacy  bool // 16-byte FEEDBACK of a peer that predates extensions
	ReqID   uint16
	Count   uint16 // First: packets of the message; else this packet's index
	Size    int    // header with options; set by Decode and Append
	Options Options
	// Payload points into the packet given to Decode.
	Payload []byte
}

const (
	flagF = 0x80
	flagL = 0x40
	flagX = 0x20

	raftTypes = 1<<RaftRequest | 1<<RaftReply | 1<<RaftMessage
)

var legalTypes = [...]uint16{
	RoleClient:         1<<Reply | 1<<ReqRdy | 1<<Drop | 1<<Sack,
	RoleServer:         1<<Request | 1<<Sack | 1<<Cancel,
	RoleRouter:         1<<Request | 1<<Feedback,
	RoleRouterRequests: 1 << Request,
	RoleRouterFeedback: 1 << Feedback,
	RoleAny:            0x3ff,
}

// Decode reads the UDP payload p as role would. For every case but M1 and M2
// the fixed fields up to Count are filled, so that a bad REQUEST can be
// answered with DROP (M-6, R-55).
func (h *Header) Decode(p []byte, role Role) Case {
	*h = Header{}
	if len(p) < HeaderSize {
		return M1
	}
	if p[0] != magic {
		return M2
	}
	h.readFixed(p)
	if legalTypes[role]&(1<<h.Type) == 0 {
		if raftTypes&(1<<h.Type) != 0 {
			return M26
		}
		return M5
	}
	if h.Type == Feedback && len(p) == 16 {
		h.readLegacyFeedback(p)
		return OK
	}
	size := int(p[1])
	if size < HeaderSize || size > len(p) {
		return M3
	}
	if h.Policy > ReplicatedRead {
		return M6
	}
	if m := h.checkShape(); m != OK {
		return m
	}
	if size > HeaderSize {
		if size%4 != 0 || size > HeaderMax {
			return OptionSize
		}
		if m := h.Options.decode(p[HeaderSize:size], HeaderSize); m != OK {
			return m
		}
	}
	h.Payload = p[size:]
	return OK
}

func (h *Header) readFixed(p []byte) {
	h.Type, h.Policy = Type(p[2]>>4), Policy(p[2]&15)
	h.First, h.Last, h.Ext = p[3]&flagF != 0, p[3]&flagL != 0, p[3]&flagX != 0
	h.ReqID = binary.BigEndian.Uint16(p[4:])
	h.Count = binary.BigEndian.Uint16(p[6:])
	h.Size = int(p[1])
}

// readLegacyFeedback: only magic and type are set in what the published
// implementation sends.
func (h *Header) readLegacyFeedback(p []byte) {
	h.Legacy, h.First, h.Last, h.Ext = true, true, true, false
	h.Count, h.Size = 1, HeaderSize
	h.ReqID = binary.BigEndian.Uint16(p[8:])
	h.Payload = p[HeaderSize:]
}

func (h *Header) checkShape() Case {
	whole := h.Type != Request && h.Type != Reply && raftTypes&(1<<h.Type) == 0
	switch {
	case whole && !(h.First && h.Last):
		return M7
	case !h.First && h.Count == 0:
		return M9
	case !h.First:
		return OK
	case h.Count == 0:
		return M7
	case h.Last != (h.Count == 1):
		return M8
	}
	return OK
}

// Append writes header and options behind b and sets h.Size. It returns b
// unchanged and false when they need more than 64 bytes.
func (h *Header) Append(b []byte) ([]byte, bool) {
	size := HeaderSize + h.Options.Size()
	if size > HeaderMax {
		return b, false
	}
	h.Size = size
	var flags byte
	if h.First {
		flags |= flagF
	}
	if h.Last {
		flags |= flagL
	}
	if h.Ext {
		flags |= flagX
	}
	b = append(b, magic, byte(size), byte(h.Type)<<4|byte(h.Policy)&15, flags)
	b = binary.BigEndian.AppendUint16(b, h.ReqID)
	b = binary.BigEndian.AppendUint16(b, h.Count)
	return h.Options.append(b, HeaderSize), true
}

// DatagramMax is the largest UDP payload of an IP MTU.
func DatagramMax(mtu int, v4 bool) int {
	if v4 {
		return mtu - 28
	}
	return mtu - 48
}

// Split is how a message is cut: packet 0 carries First bytes at most, the
// others Rest. Count 0 means that it needs more than 65,535 packets.
type Split struct{ Count, First, Rest int }

// SplitRequest cuts a request of n bytes: one packet when it fits in single,
// else 14 bytes in REQ0 and full in each of the others (§4).
func SplitRequest(n, single, full int) Split {
	if n <= single {
		return Split{1, n, full}
	}
	return split(n, RequestFirst, full)
}

// SplitReply cuts a reply of n bytes: first in packet 0, full in the others.
func SplitReply(n, first, full int) Split {
	if n <= first {
		return Split{1, n, full}
	}
	return split(n, first, full)
}

func split(n, first, full int) Split {
	count := 1 + (n-first+full-1)/full
	if count > MaxPackets {
		count = 0
	}
	return Split{count, first, full}
}

// Piece returns the bytes of message that packet i carries.
func (s Split) Piece(message []byte, i int) []byte {
	if i == 0 {
		return message[:s.First]
	}
	from := s.First + (i-1)*s.Rest
	return message[from:min(from+s.Rest, len(message))]
}
