// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package r2p2

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"syscall"
	"unsafe"
)

// sysSendmmsg is the number of sendmmsg, which package syscall has on some
// architectures only.
var sysSendmmsg = map[string]uintptr{"amd64": 307, "arm64": 269}[runtime.GOARCH]

const (
	udpSegment = 103   // UDP_SEGMENT
	trainMost  = 64    // datagrams of a train (UDP_MAX_SEGMENTS)
	trainBytes = 65000 // what fits an IP packet, headers aside
)

// train is packets that leave as one message, which the kernel cuts apart
// (UDP_SEGMENT): to one address, as long as each other but for the last, which
// may be shorter. The path through the kernel is then walked once for all.
type train struct{ first, n int }

// cut is the control message that says how long the datagrams of a train are.
type cut struct {
	syscall.Cmsghdr
	size uint16
	_    [6]byte
}

// sender sends batches with sendmmsg.
type sender struct {
	messages
	trains   [batchSize]train // what the messages consist of
	cuts     [batchSize]cut
	apart    bool // the kernel, or a device, does not cut trains
	sock     *socket
	raw      syscall.RawConn
	attempt  func(fd uintptr) bool // one call; false: the socket has no room now
	from, to int                   // messages to send
	sent     int
	errno    syscall.Errno
}

func (s *sender) init(sock *socket) {
	s.messages.init()
	for i := range s.cuts {
		s.cuts[i].Level, s.cuts[i].Type = syscall.IPPROTO_UDP, udpSegment
		s.cuts[i].SetLen(syscall.SizeofCmsghdr + 2)
	}
	s.sock = sock
	s.raw, _ = sock.udp.SyscallConn() // fails for a nil connection only
	s.attempt = func(fd uintptr) bool {
		s.sent, s.errno = s.call(sysSendmmsg, fd, s.from, s.to)
		return s.errno != syscall.EAGAIN
	}
}

// send sends packets of b from number at on, and says how many it is done with.
func (s *sender) send(b *batch, at int, refused func(error)) int {
	messages, next := 0, at
	for messages < batchSize && next < len(b.packets) && s.place(messages, b.packets[next].addr) {
		n := s.trainAt(b, next)
		s.load(messages, b, train{next, n})
		messages++
		next += n
	}
	if messages == 0 { // an address that only package net can tell the kernel
		s.sendOne(b, at, refused)
		return 1
	}
	s.sendPlaced(messages, b, refused)
	return next - at
}

func (s *sender) sendOne(b *batch, i int, refused func(error)) {
	if err := s.sock.write(b.packet(i), b.packets[i].addr); err != nil {
		refused(err)
	}
}

// trainAt is how many packets from number at on leave together.
func (s *sender) trainAt(b *batch, at int) int {
	first := b.packets[at]
	size := first.to - first.from
	n := 1
	for !s.apart && n < trainMost && at+n < len(b.packets) {
		p := b.packets[at+n]
		length := p.to - p.from
		if p.addr != first.addr || length > size || length == 0 || p.to-first.from > trainBytes {
			break
		}
		n++
		if length < size {
			break
		}
	}
	return n
}

// load makes message i of a train. Its packets lie behind each other.
func (s *sender) load(i int, b *batch, t train) {
	bytes := b.bytes[b.packets[t.first].from:b.packets[t.first+t.n-1].to]
	s.trains[i] = t
	s.vectors[i].Base = unsafe.SliceData(bytes)
	s.vectors[i].SetLen(len(bytes))
	h := &s.headers[i]
	h.Control = nil
	h.SetControllen(0)
	if t.n > 1 {
		s.cuts[i].size = uint16(len(b.packet(t.first)))
		h.Control = (*byte)(unsafe.Pointer(&s.cuts[i]))
		h.SetControllen(int(unsafe.Sizeof(s.cuts[i])))
	}
}

// sendPlaced sends the first n messages. An ICMP error about an earlier packet is
// handed to the next call, so one more try tells the two apart.
func (s *sender) sendPlaced(n int, b *batch, refused func(error)) {
	again := false
	for s.from, s.to = 0, n; s.from < n; {
		if err := s.raw.Write(s.attempt); err != nil { // closed
			s.errno, again = syscall.EBADF, true
		}
		switch {
		case s.errno == 0:
			s.from += s.sent
			again = false
		case !again:
			again = true
		default:
			s.refuse(b, s.trains[s.from], refused)
			s.from++
			again = false
		}
	}
}

// refuse is for a message that the kernel did not take. A train is sent once
// more as single packets; where that works, trains do not (the path takes less
// than a packet may have, or a device has no checksums).
func (s *sender) refuse(b *batch, t train, refused func(error)) {
	if t.n == 1 {
		refused(s.errno)
		return
	}
	failures, why := 0, s.errno
	for i := range t.n {
		s.sendOne(b, t.first+i, func(err error) {
			failures++
			refused(err)
		})
	}
	s.apart = s.apart || failures == 0 && (why == syscall.EINVAL || why == syscall.EIO)
}

// place addresses message i.
func (s *sender) place(i int, to netip.AddrPort) bool {
	ip := to.Addr()
	if ip.Zone() != "" || s.sock.v4 != ip.Unmap().Is4() {
		return false
	}
	name := &s.names[i]
	if s.sock.v4 {
		v4 := (*syscall.RawSockaddrInet4)(unsafe.Pointer(name))
		*v4 = syscall.RawSockaddrInet4{Family: syscall.AF_INET, Addr: ip.Unmap().As4()}
		s.headers[i].Namelen = syscall.SizeofSockaddrInet4
	} else {
		*name = syscall.RawSockaddrInet6{Family: syscall.AF_INET6, Addr: ip.As16()}
		s.headers[i].Namelen = syscall.SizeofSockaddrInet6
	}
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&name.Port))[:], to.Port())
	return true
}
