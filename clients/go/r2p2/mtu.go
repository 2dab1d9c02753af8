// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// Packets carry don't-fragment, so one that is larger than the network
// takes never leaves; and every packet of a message but the last must be full
// (M-13), so both ends must mean the same size. Overlay networks take less than
// Ethernet's 1500 bytes, which is why the size is read and not assumed. The
// upper bound is what the buffers of Bobtail's routers hold.
const (
	minMTU = 576
	maxMTU = wire.MTU
)

// checkMTU judges a configured MTU; 0 asks for the automatic one.
func checkMTU(mtu int) error {
	if mtu != 0 && (mtu < minMTU || mtu > maxMTU) {
		return fmt.Errorf("r2p2: MTU must be 0, which reads it from the network interface, or %d..%d; got %d", minMTU, maxMTU, mtu)
	}
	return nil
}

// mtuOf is the MTU of a host address: that of its interface, or of the default
// route where that leaves from the address and allows less, because some pod
// networks put their limit on the route.
func mtuOf(local netip.Addr) int {
	mtu := interfaceMTU(local)
	if from, route := routeMTU(netip.Addr{}, anywhere(local)); route > 0 && from == local {
		mtu = smaller(mtu, route)
	}
	return clampMTU(mtu)
}

// mtuToward is the MTU of a client of these targets: the smallest of the routes
// to them, and of the interfaces whose addresses the routes leave from. local
// may be invalid or unspecified, then the kernel chooses it.
func mtuToward(local netip.Addr, targets []netip.AddrPort) int {
	mtu := 0
	for _, to := range targets {
		from, route := routeMTU(local, to)
		mtu = smaller(mtu, route)
		if from.IsValid() {
			mtu = smaller(mtu, interfaceMTU(from))
		}
	}
	return clampMTU(mtu)
}

// smaller of two MTUs, where 0 is an unknown one.
func smaller(a, b int) int {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// clampMTU brings an MTU into bounds; an unknown one is Ethernet's.
func clampMTU(mtu int) int {
	if mtu == 0 {
		return maxMTU
	}
	return min(max(mtu, minMTU), maxMTU)
}

// anywhere is an address of documentation (RFC 5737, RFC 3849), of the family
// of local: only the default route leads there.
func anywhere(local netip.Addr) netip.AddrPort {
	if local.Unmap().Is4() {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), 9)
	}
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}), 9)
}

// interfaceMTU is the MTU of the interface that has an address, 0 if none has.
// A loopback interface has every address of its network.
func interfaceMTU(ip netip.Addr) int {
	interfaces, err := net.Interfaces()
	if err != nil {
		return 0
	}
	ip = ip.Unmap().WithZone("")
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addresses {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && (p.Addr() == ip || i.Flags&net.FlagLoopback != 0 && p.Contains(ip)) {
				return i.MTU
			}
		}
	}
	return 0
}

// routeMTU asks the kernel which address it would send from, and, where it
// says so, what the route takes; 0 if unknown. Connecting a UDP socket sends
// nothing.
func routeMTU(local netip.Addr, to netip.AddrPort) (from netip.Addr, mtu int) {
	network := "udp6"
	if to.Addr().Unmap().Is4() {
		network = "udp4"
	}
	var bind *net.UDPAddr
	if local.IsValid() && !local.IsUnspecified() {
		bind = net.UDPAddrFromAddrPort(netip.AddrPortFrom(local.Unmap(), 0))
	}
	c, err := net.DialUDP(network, bind, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return netip.Addr{}, 0
	}
	defer c.Close()
	return plain(c.LocalAddr().(*net.UDPAddr).AddrPort()).Addr(), connectedMTU(c, network == "udp4")
}
