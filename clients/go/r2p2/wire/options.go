// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
)

// Has is a set of known option kinds, one bit per kind.
type Has uint16

// Known options (R-55 to, F-49).
const (
	HasForwarded Has = 1 << 1 // the client as the router saw it
	HasTag       Has = 1 << 2
	HasClass     Has = 1 << 3
	HasTrace     Has = 1 << 4
	HasRouterID  Has = 1 << 5
	HasCopy      Has = 1 << 6
	HasSession   Has = 1 << 7
	HasFlow      Has = 1 << 8 // F-49
)

const (
	kindPad       = 0
	kindForwarded = 1
	kindTag       = 2
	kindClass     = 3
	kindTrace     = 4
	kindRouterID  = 5
	kindCopy      = 6
	kindSession   = 7
	kindFlow      = 8
	kindKnownMax  = kindFlow
	kindCritical  = 0x80 // an unknown kind with this bit must be understood

	lenForwarded4 = 8
	lenForwarded6 = 20
)

// lengths of whole options by kind; forwarded-for has two.
var lengths = [...]int{kindTag: 12, kindClass: 4, kindTrace: 10, kindRouterID: 6, kindCopy: 6, kindSession: 18, kindFlow: 4}

// Class flags.
const (
	ClassNonDroppable = 0x01
	ClassDegraded     = 0x02
)

// Options of a header. A field counts only when its bit is set in Present.
type Options struct {
	Present    Has
	Forwarded  netip.AddrPort
	Trace      uint64
	RouterID   uint32
	Copy       uint32     // which of its router's copies a REQUEST is, or a CANCEL names; never 0
	Session    uint64     // who asks for a replicated write,
	Sequence   uint64     // and which of its writes it is
	Flow       FlowSignal // of a REQUEST, FlowAsk; of REPLY and DROP, what the client is told
	Class      uint8
	ClassFlags uint8
	KeyID      uint8
	TagFlags   uint8
	Tag        [8]byte
	tagOffset  int // of the tag's 8 bytes in the packet
}

func (o *Options) decode(p []byte, offset int) Case {
	for at := 0; at < len(p); {
		kind := p[at]
		if kind == kindPad {
			at++
			continue
		}
		if len(p)-at < 2 || p[at+1] < 2 || int(p[at+1]) > len(p)-at {
			return OptionTruncated
		}
		length := int(p[at+1])
		if kind <= kindKnownMax {
			bit := Has(1) << kind
			if o.Present&bit != 0 {
				return OptionDuplicate
			}
			o.Present |= bit
			if m := o.read(kind, p[at+2:at+length], length, offset+at+2); m != OK {
				return m
			}
		} else if kind&kindCritical != 0 {
			return OptionCritical
		}
		at += length
	}
	return OK
}

func (o *Options) read(kind byte, v []byte, length, offset int) Case {
	if kind == kindForwarded {
		if length != lenForwarded4 && length != lenForwarded6 {
			return OptionLength
		}
		ip, _ := netip.AddrFromSlice(v[2:])
		o.Forwarded = netip.AddrPortFrom(ip.Unmap(), binary.BigEndian.Uint16(v))
		return OK
	}
	if length != lengths[kind] {
		return OptionLength
	}
	switch kind {
	case kindTag:
		o.KeyID, o.TagFlags, o.tagOffset = v[0], v[1], offset+2
		copy(o.Tag[:], v[2:])
	case kindClass:
		o.Class, o.ClassFlags = v[0], v[1]
	case kindTrace:
		o.Trace = binary.BigEndian.Uint64(v)
	case kindCopy:
		o.Copy = binary.BigEndian.Uint32(v)
	case kindSession:
		o.Session, o.Sequence = binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])
	case kindFlow:
		o.Flow = FlowSignal(binary.BigEndian.Uint16(v))
	default:
		o.RouterID = binary.BigEndian.Uint32(v)
	}
	return OK
}

// Size is how many bytes of a header the options take: a multiple of 4.
func (o *Options) Size() int {
	if o.Present == 0 {
		return 0
	}
	n := 0
	if o.Present&HasForwarded != 0 {
		n = lenForwarded6
		if o.Forwarded.Addr().Unmap().Is4() {
			n = lenForwarded4
		}
	}
	for kind := kindTag; kind <= kindKnownMax; kind++ {
		if o.Present&(1<<kind) != 0 {
			n += lengths[kind]
		}
	}
	return (n + 3) &^ 3
}

// append writes the options in order of kind, as every implementation does, so
// that equal options give equal bytes.
func (o *Options) append(b []byte, offset int) []byte {
	start := len(b)
	if o.Present&HasForwarded != 0 {
		ip := o.Forwarded.Addr().Unmap().AsSlice()
		b = append(b, kindForwarded, byte(4+len(ip)))
		b = binary.BigEndian.AppendUint16(b, o.Forwarded.Port())
		b = append(b, ip...)
	}
	if o.Present&HasTag != 0 {
		b = append(b, kindTag, byte(lengths[kindTag]), o.KeyID, o.TagFlags)
		o.tagOffset = offset + len(b) - start
		b = append(b, o.Tag[:]...)
	}
	if o.Present&HasClass != 0 {
		b = append(b, kindClass, byte(lengths[kindClass]), o.Class, o.ClassFlags)
	}
	if o.Present&HasTrace != 0 {
		b = append(b, kindTrace, byte(lengths[kindTrace]))
		b = binary.BigEndian.AppendUint64(b, o.Trace)
	}
	if o.Present&HasRouterID != 0 {
		b = append(b, kindRouterID, byte(lengths[kindRouterID]))
		b = binary.BigEndian.AppendUint32(b, o.RouterID)
	}
	if o.Present&HasCopy != 0 {
		b = append(b, kindCopy, byte(lengths[kindCopy]))
		b = binary.BigEndian.AppendUint32(b, o.Copy)
	}
	if o.Present&HasSession != 0 {
		b = append(b, kindSession, byte(lengths[kindSession]))
		b = binary.BigEndian.AppendUint64(b, o.Session)
		b = binary.BigEndian.AppendUint64(b, o.Sequence)
	}
	if o.Present&HasFlow != 0 {
		b = append(b, kindFlow, byte(lengths[kindFlow]))
		b = binary.BigEndian.AppendUint16(b, uint16(o.Flow))
	}
	for (len(b)-start)%4 != 0 {
		b = append(b, kindPad)
	}
	return b
}

// RouterID is the number a Transparent router writes for its request address:
// FNV-1a over the 16 address bytes and the big-endian port.
func RouterID(request netip.AddrPort) uint32 {
	h := fnv.New32a()
	_, _ = h.Write(endpoint(nil, request))
	return h.Sum32()
}

// endpoint appends the address as 16 bytes, IPv4 mapped, and the port.
func endpoint(b []byte, a netip.AddrPort) []byte {
	ip := a.Addr().As16()
	b = append(b, ip[:]...)
	return binary.BigEndian.AppendUint16(b, a.Port())
}
