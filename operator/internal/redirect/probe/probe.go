// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// Mark is the address that agents of a cluster name in their probes: the IPv4 dummy
// address (RFC 7600), which is nobody's.
var Mark = netip.AddrFrom4([4]byte{192, 0, 0, 8})

// MarkSix is the same in probes over IPv6: an address of the prefix whose packets
// routers discard (RFC 6666).
var MarkSix = netip.AddrFrom16([16]byte{0: 1, 15: 8})

// Probe asks one server (C-51): UpCRAB when it echoes, UpPlain when it answers
// without echo, Down when it refuses or stays silent until ctx ends. An error is the
// prober's own trouble and says nothing of the server. It needs CAP_NET_RAW; the
// kernel, which knows nothing of the SYN, ends the half-open connection by RST.
// Without a local address the probe bears the one that the route to the server gives.
// The redirect names the address mark, which must be allowed to be echoed on the
// server's node (C-34) and be no VIP with the server's port: this host's own client
// programs would take the answer for a forged one.
func Probe(ctx context.Context, local, mark netip.Addr, server netip.AddrPort, w redirect.Wire) (redirect.State, error) {
	if !local.IsValid() {
		var err error
		if local, err = source(server); err != nil {
			return unreachable(err)
		}
	}
	if size := server.Addr().BitLen(); local.BitLen() != size || mark.BitLen() != size || server.Addr().Is4In6() {
		return redirect.Down, &redirect.FieldError{Field: "server", Reason: fmt.Sprintf("%s is of another family than %s or %s (C-9)", server, local, mark)}
	}
	if w.Kind == 0 {
		w.Kind = 42
	}
	port, release, err := reserve(local)
	if err != nil {
		return redirect.Down, fmt.Errorf("reserve a port: %w", err)
	}
	defer release()
	fd, err := open(local, server.Addr())
	if err != nil {
		return unreachable(err)
	}
	defer unix.Close(fd)
	from, seq := netip.AddrPortFrom(local, port), rand.Uint32()
	if err := unix.Send(fd, syn(from, server, mark, seq, w), 0); err != nil {
		return unreachable(fmt.Errorf("send: %w", err))
	}
	return wait(ctx, fd, func(packet []byte) (redirect.State, bool) { return answer(packet, from, server, mark, seq, w) })
}

// unreachable: nobody there is an answer, and not the prober's own trouble.
func unreachable(err error) (redirect.State, error) {
	if errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EPERM) {
		return redirect.Down, nil
	}
	return redirect.Down, err
}

// source is the address that a packet to the server would have; none is sent.
func source(server netip.AddrPort) (netip.Addr, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(server))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("route: %w", err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

func domain(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func sockaddr(a netip.Addr) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Addr: a.As16()}
}

// reserve keeps a port from other users of this host while the probe is under way.
func reserve(local netip.Addr) (uint16, func(), error) {
	fd, err := unix.Socket(domain(local), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, err
	}
	err = unix.Bind(fd, sockaddr(local))
	var name unix.Sockaddr
	if err == nil {
		name, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return 0, nil, err
	}
	port := 0
	switch n := name.(type) {
	case *unix.SockaddrInet4:
		port = n.Port
	case *unix.SockaddrInet6:
		port = n.Port
	}
	return uint16(port), func() { unix.Close(fd) }, nil
}

// open gives a raw socket that hears this server only.
func open(local, server netip.Addr) (int, error) {
	fd, err := unix.Socket(domain(local), unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil { // %v: the right that is missing is the prober's trouble, not an answer
		return -1, fmt.Errorf("raw socket: %v; CAP_NET_RAW is needed", err)
	}
	err = unix.Bind(fd, sockaddr(local))
	if err == nil {
		err = unix.Connect(fd, sockaddr(server))
	}
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20_000})
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("raw socket: %w", err)
	}
	return fd, nil
}

// wait reads packets until one is an answer; Down when none is before ctx ends.
func wait(ctx context.Context, fd int, judge func(packet []byte) (redirect.State, bool)) (redirect.State, error) {
	deadline, has := ctx.Deadline()
	if !has {
		deadline = time.Now().Add(DefaultTimeout)
	}
	buf := make([]byte, 2048)
	for ctx.Err() == nil && time.Now().Before(deadline) {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			continue // the time is up again, or an ICMP error: the server is silent
		}
		if state, ok := judge(buf[:n]); ok {
			return state, nil
		}
	}
	return redirect.Down, nil
}
