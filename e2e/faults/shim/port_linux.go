// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// port is a packet socket on the shim's end of one host's link.
type port struct {
	fd      int
	overrun atomic.Uint64 // packets the kernel dropped for want of room
}

const (
	socketBuffer = 32 << 20
	pollEvery    = 100 * time.Millisecond
)

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// openPort must run in the network namespace of the link.
func openPort(link string) (*port, error) {
	dev, err := net.InterfaceByName(link)
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", link, err)
	}
	// Protocol 0 receives nothing until bind says from which link.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("packet socket (needs CAP_NET_RAW): %w", err)
	}
	p := &port{fd: fd}
	timeout := unix.NsecToTimeval(int64(pollEvery))
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, socketBuffer),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: dev.Index}),
	)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("packet socket on %s: %w", link, err)
	}
	return p, nil
}

// read waits for one frame, at most pollEvery; 0 when there was none.
func (p *port) read(buf []byte) (int, error) {
	n, err := unix.Read(p.fd, buf)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ENETDOWN):
		return 0, nil
	}
	return 0, err
}

func (p *port) write(frame []byte) {
	for range 100 {
		_, err := unix.Write(p.fd, frame)
		if err == nil {
			return
		}
		if !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
		time.Sleep(100 * time.Microsecond)
	}
	p.overrun.Add(1)
}

// lost adds what the kernel dropped since the last call.
func (p *port) lost() uint64 {
	var s unix.TpacketStats
	size := uint32(unsafe.Sizeof(s))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(p.fd), unix.SOL_PACKET, unix.PACKET_STATISTICS,
		uintptr(unsafe.Pointer(&s)), uintptr(unsafe.Pointer(&size)), 0)
	if errno == 0 {
		p.overrun.Add(uint64(s.Drops))
	}
	return p.overrun.Load()
}

func (p *port) close() { unix.Close(p.fd) }

// CompleteChecksums makes a link compute UDP checksums itself, as a packet
// socket at its other end would see unfinished ones (veth leaves them to a
// device that does not exist). It must run in the link's namespace.
func CompleteChecksums(link string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	const setTxChecksum = 0x17 // ETHTOOL_STXCSUM
	value := struct{ cmd, data uint32 }{setTxChecksum, 0}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		pad  [16]byte
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:], link)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("turn off transmit checksum offload of %s: %w", link, errno)
	}
	return nil
}
