// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// Mark is the address that agents of a cluster name in their probes: the IPv4 dummy
// address (RFC 7600), which is nobody's.
var Mark = netip.AddrFrom4([4]byte{192, 0, 0, 8})

// Probe asks one server (C-51): UpCRAB when it echoes, UpPlain when it answers
// without echo, Down when it refuses or stays silent until ctx ends. An error is the
// prober's own trouble and says nothing of the server. It needs CAP_NET_RAW; the
// kernel, which knows nothing of the SYN, ends the half-open connection by RST.
// The redirect names the address mark, which must be allowed to be echoed on the
// server's node (C-34) and be no VIP with the server's port: this host's own client
// programs would take the answer for a forged one.
func Probe(ctx context.Context, local, mark netip.Addr, server netip.AddrPort, w redirect.Wire) (redirect.State, error) {
	if !local.Is4() || !mark.Is4() || !server.Addr().Is4() {
		return redirect.Down, &redirect.FieldError{Field: "server", Reason: "probes are IPv4 (C-9)"}
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
		return redirect.Down, fmt.Errorf("raw socket: %w", err)
	}
	defer unix.Close(fd)
	from, seq := netip.AddrPortFrom(local, port), rand.Uint32()
	if err := unix.Send(fd, syn(from, server, mark, seq, w), 0); err != nil {
		if errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EPERM) {
			return redirect.Down, nil // nobody there is an answer
		}
		return redirect.Down, fmt.Errorf("send: %w", err)
	}
	return wait(ctx, fd, from, server, mark, seq, w)
}

// reserve keeps a port from other users of this host while the probe is under way.
func reserve(local netip.Addr) (uint16, func(), error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, err
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Addr: local.As4()})
	var name unix.Sockaddr
	if err == nil {
		name, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return 0, nil, err
	}
	return uint16(name.(*unix.SockaddrInet4).Port), func() { unix.Close(fd) }, nil
}

// open gives a raw socket that hears this server only.
func open(local, server netip.Addr) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return -1, err
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Addr: local.As4()})
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrInet4{Addr: server.As4()})
	}
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20_000})
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func wait(ctx context.Context, fd int, from, server netip.AddrPort, mark netip.Addr, seq uint32, w redirect.Wire) (redirect.State, error) {
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
		if state, ok := answer(buf[:n], from, server, mark, seq, w); ok {
			return state, nil
		}
	}
	return redirect.Down, nil
}
