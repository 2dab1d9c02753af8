// SPDX-License-Identifier: Apache-2.0

package hostfacts

import (
	"encoding/binary"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// vfDisabled is IFLA_VF_LINK_STATE_DISABLE.
const vfDisabled = 2

// Links asks the kernel for the virtual functions of a card. It needs no right, but the
// network namespace that the card is in.
func Links(name string) map[int]VirtualLink {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return nil
	}
	out := map[int]VirtualLink{}
	for _, vf := range l.Attrs().Vfs {
		out[vf.ID] = VirtualLink{MAC: vf.Mac.String(), Down: vf.LinkState == vfDisabled}
	}
	return out
}

// The generic netlink family "netdev" (include/uapi/linux/netdev.h).
const (
	netdevDevGet      = 1
	netdevIfIndex     = 1
	netdevXDPFeatures = 3
	xdpBasic          = 1 << 0
	xdpZeroCopy       = 1 << 3
	nlaTypeMask       = 0x3fff
)

// header of a generic message: command, version, and two bytes that must be zero. That of
// the library is two bytes long and sends what lies behind it in memory; newer families
// refuse such a message now and then.
type header [4]byte

func (h header) Len() int          { return len(h) }
func (h header) Serialize() []byte { return h[:] }

// XDP asks the kernel what the driver of an interface can. Kernels before 6.3 do not tell.
func XDP(name string) XDPFeatures {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return XDPFeatures{}
	}
	family, err := netlink.GenlFamilyGet("netdev")
	if err != nil {
		return XDPFeatures{}
	}
	request := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	request.AddData(header{netdevDevGet, 1})
	request.AddData(nl.NewRtAttr(netdevIfIndex, nl.Uint32Attr(uint32(l.Attrs().Index)))) // #nosec G115 -- of a device
	answers, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return XDPFeatures{}
	}
	return featuresOf(slices.Concat(answers...))
}

// featuresOf reads an answer behind its generic header.
func featuresOf(answer []byte) XDPFeatures {
	if len(answer) < nl.SizeofGenlmsg {
		return XDPFeatures{}
	}
	attributes, err := nl.ParseRouteAttr(answer[nl.SizeofGenlmsg:])
	if err != nil {
		return XDPFeatures{}
	}
	for _, a := range attributes {
		if a.Attr.Type&nlaTypeMask == netdevXDPFeatures && len(a.Value) >= 8 {
			bits := binary.NativeEndian.Uint64(a.Value)
			return XDPFeatures{Native: bits&xdpBasic != 0, ZeroCopy: bits&xdpZeroCopy != 0}
		}
	}
	return XDPFeatures{}
}
