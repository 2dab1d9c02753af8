// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"net"
)

// uplink is struct crab_uplink (dataplane/bpf/crab_uplink.h): the device by which answers of this host's pods to its own
// clients come in.
type uplink struct {
	Index uint32
	MAC   [6]byte
	_     [2]byte
}

// useUplink tells the pods' programs of the device; one without an Ethernet address is none, and they translate by themselves.
func (n *Node) useUplink(ifindex int) error {
	device, err := net.InterfaceByIndex(ifindex)
	if err != nil {
		return err
	}
	var u uplink
	if len(device.HardwareAddr) == len(u.MAC) {
		u = uplink{Index: uint32(ifindex), MAC: [6]byte(device.HardwareAddr)}
	}
	return n.maps["crab_uplink"].Put(uint32(0), u)
}

// leaveUplink: nothing on that device would translate what comes in.
func (n *Node) leaveUplink(ifindex int) error {
	var u uplink
	if err := n.maps["crab_uplink"].Lookup(uint32(0), &u); err != nil || u.Index != uint32(ifindex) {
		return err
	}
	return n.maps["crab_uplink"].Put(uint32(0), uplink{})
}
