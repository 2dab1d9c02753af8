// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package r2p2

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"unsafe"
)

// messageHeader is the kernel's struct mmsghdr.
type messageHeader struct {
	syscall.Msghdr
	bytes uint32 // that were received
}

// messages are the arguments of sendmmsg and recvmmsg.
type messages struct {
	headers [batchSize]messageHeader
	vectors [batchSize]syscall.Iovec
	names   [batchSize]syscall.RawSockaddrInet6 // or ...Inet4, which is shorter
}

func (m *messages) init() {
	for i := range m.headers {
		m.headers[i].Name = (*byte)(unsafe.Pointer(&m.names[i]))
		m.headers[i].Iov = &m.vectors[i]
		m.headers[i].Iovlen = 1
	}
}

// call makes one system call for messages from..to. The socket does not block.
func (m *messages) call(number, fd uintptr, from, to int) (int, syscall.Errno) {
	for {
		n, _, e := syscall.Syscall6(number, fd, uintptr(unsafe.Pointer(&m.headers[from])), uintptr(to-from), syscall.MSG_DONTWAIT, 0, 0)
		if e != syscall.EINTR {
			return int(n), e
		}
	}
}

// receiver reads a socket with recvmmsg.
type receiver struct {
	messages
	slots [batchSize][slotBytes]byte
	got   [batchSize]datagram
	zones map[uint32]string
}

func newReceiver() *receiver {
	r := &receiver{zones: map[uint32]string{}}
	r.messages.init()
	for i := range r.slots {
		r.vectors[i].Base = &r.slots[i][0]
		r.vectors[i].SetLen(slotBytes)
		r.headers[i].Namelen = syscall.SizeofSockaddrInet6
	}
	return r
}

// datagrams are the first n that the kernel gave.
func (r *receiver) datagrams(n int) []datagram {
	for i := range n {
		r.got[i] = datagram{r.slots[i][:r.headers[i].bytes], r.from(&r.names[i])}
		r.headers[i].Namelen = syscall.SizeofSockaddrInet6
	}
	return r.got[:n]
}

// from is an address in its shortest form.
func (r *receiver) from(name *syscall.RawSockaddrInet6) netip.AddrPort {
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&name.Port))[:])
	if name.Family == syscall.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4((*syscall.RawSockaddrInet4)(unsafe.Pointer(name)).Addr), port)
	}
	ip := netip.AddrFrom16(name.Addr).Unmap()
	if name.Scope_id != 0 {
		ip = ip.WithZone(r.zone(name.Scope_id))
	}
	return netip.AddrPortFrom(ip, port)
}

// zone is the name of an interface, its number when it has none, as in package net.
func (r *receiver) zone(index uint32) string {
	if name, known := r.zones[index]; known {
		return name
	}
	name := strconv.Itoa(int(index))
	if i, err := net.InterfaceByIndex(int(index)); err == nil {
		name = i.Name
	}
	r.zones[index] = name
	return name
}

// readAll gives take all packets until the socket is closed, and tells failed of
// errors. What it gives is valid until take returns.
//
// All of it happens within one Read: the kernel tells of a packet once, and a
// new Read would forget what it told since the last one. A call that gave less
// than it might have has emptied the socket.
func (s *socket) readAll(take func([]datagram), failed func()) {
	raw, err := s.udp.SyscallConn()
	if err != nil {
		return
	}
	r := newReceiver()
	for !errors.Is(err, net.ErrClosed) {
		err = raw.Read(func(fd uintptr) bool {
			for {
				n, errno := r.call(syscall.SYS_RECVMMSG, fd, 0, batchSize)
				switch {
				case errno == syscall.EAGAIN:
					return false
				case errno != 0:
					failed()
					continue
				}
				take(r.datagrams(n))
				if n < batchSize {
					return false
				}
			}
		})
	}
}
