// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"encoding/binary"
	"net"
	"net/netip"
)

const (
	frameSize    = 28
	hardEthernet = 1
	protoIPv4    = 0x0800
	opRequest    = 1
	opReply      = 2
	macSize      = 6
)

// frame is an ARP message of IPv4 on Ethernet.
type frame struct {
	op                   uint16
	senderMAC, targetMAC net.HardwareAddr
	sender, target       netip.Addr
}

// parseARP reads what follows the Ethernet header; false when it is no ARP of IPv4
// on Ethernet. Padding behind is ignored.
func parseARP(b []byte) (frame, bool) {
	if len(b) < frameSize || binary.BigEndian.Uint16(b) != hardEthernet || binary.BigEndian.Uint16(b[2:]) != protoIPv4 ||
		b[4] != macSize || b[5] != 4 {
		return frame{}, false
	}
	return frame{
		op:        binary.BigEndian.Uint16(b[6:]),
		senderMAC: net.HardwareAddr(append([]byte(nil), b[8:14]...)), sender: netip.AddrFrom4([4]byte(b[14:18])),
		targetMAC: net.HardwareAddr(append([]byte(nil), b[18:24]...)), target: netip.AddrFrom4([4]byte(b[24:28])),
	}, true
}

func (f frame) bytes() []byte {
	b := make([]byte, frameSize)
	binary.BigEndian.PutUint16(b, hardEthernet)
	binary.BigEndian.PutUint16(b[2:], protoIPv4)
	b[4], b[5] = macSize, 4
	binary.BigEndian.PutUint16(b[6:], f.op)
	sender, target := f.sender.As4(), f.target.As4()
	copy(b[8:14], f.senderMAC)
	copy(b[14:18], sender[:])
	copy(b[18:24], f.targetMAC)
	copy(b[24:28], target[:])
	return b
}

var (
	broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	noMAC     = make(net.HardwareAddr, macSize)
)

// answer to a request.
func answer(f frame, mac net.HardwareAddr) frame {
	return frame{op: opReply, senderMAC: mac, sender: f.target, targetMAC: f.senderMAC, target: f.sender}
}

// gratuitous are the two forms of an announcement: hosts differ in which they heed.
func gratuitous(vip netip.Addr, mac net.HardwareAddr) [2]frame {
	return [2]frame{
		{op: opRequest, senderMAC: mac, sender: vip, targetMAC: noMAC, target: vip},
		{op: opReply, senderMAC: mac, sender: vip, targetMAC: broadcast, target: vip},
	}
}
