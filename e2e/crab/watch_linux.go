// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Frame is one TCP packet that crossed a link of the bridge.
type Frame struct {
	At       time.Time
	ToHost   bool // towards the host on that link
	Src, Dst netip.AddrPort
	Flags    byte
	Seq, Ack uint32
	Options  []byte
	Data     int
}

// Watch listens on the bridge's end of a host's link, outside of its programs.
type Watch struct {
	fd     int
	mu     sync.Mutex
	frames []Frame
	done   chan struct{}
}

const (
	finFlag = 0x01
	synFlag = 0x02
	rstFlag = 0x04
	ackFlag = 0x10
)

// Watch the link of a host from now on.
func (b *Bed) Watch(host string) *Watch {
	b.t.Helper()
	w := &Watch{done: make(chan struct{})}
	hub := &Host{bed: b, NS: b.ns("hub")}
	b.must(hub.Inside(func() (err error) {
		proto := int(binary.NativeEndian.Uint16([]byte{0, 3})) // ETH_P_ALL
		if w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		_ = unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 8<<20)
		_ = unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
		index, err := ifindex("v" + host)
		if err != nil {
			return err
		}
		return unix.Bind(w.fd, &unix.SockaddrLinklayer{Protocol: uint16(proto), Ifindex: index})
	}))
	stop := make(chan struct{})
	go w.read(stop)
	b.t.Cleanup(func() { close(stop); <-w.done; unix.Close(w.fd) })
	return w
}

func (w *Watch) read(stop chan struct{}) {
	defer close(w.done)
	buf := make([]byte, 1<<17)
	for {
		select {
		case <-stop:
			return
		default:
		}
		n, from, err := unix.Recvfrom(w.fd, buf, 0)
		if err != nil {
			continue
		}
		if f, ok := parseFrame(buf[:n]); ok {
			if ll, isLL := from.(*unix.SockaddrLinklayer); isLL {
				f.ToHost = ll.Pkttype == unix.PACKET_OUTGOING
			}
			w.mu.Lock()
			w.frames = append(w.frames, f)
			w.mu.Unlock()
		}
	}
}

func parseFrame(raw []byte) (Frame, bool) {
	if len(raw) < 54 {
		return Frame{}, false
	}
	src, size, tcp := 26, 4, raw[14+int(raw[14]&15)*4:]
	switch {
	case raw[12] == 8 && raw[13] == 0 && raw[23] == 6:
	case raw[12] == 0x86 && raw[13] == 0xdd && raw[20] == 6 && len(raw) >= 74:
		src, size, tcp = 22, 16, raw[54:]
	default:
		return Frame{}, false
	}
	head := int(tcp[12]>>4) * 4
	if len(tcp) < head || head < 20 {
		return Frame{}, false
	}
	addr := func(at int, port []byte) netip.AddrPort {
		a, _ := netip.AddrFromSlice(raw[at : at+size])
		return netip.AddrPortFrom(a, binary.BigEndian.Uint16(port))
	}
	return Frame{
		At: time.Now(), Src: addr(src, tcp), Dst: addr(src+size, tcp[2:]), Flags: tcp[13],
		Seq: binary.BigEndian.Uint32(tcp[4:]), Ack: binary.BigEndian.Uint32(tcp[8:]),
		Options: append([]byte(nil), tcp[20:head]...), Data: len(tcp) - head,
	}, true
}

// Frames seen so far that keep selects; nil selects all.
func (w *Watch) Frames(keep func(Frame) bool) []Frame {
	time.Sleep(300 * time.Millisecond) // what is still in the socket
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Frame
	for _, f := range w.frames {
		if keep == nil || keep(f) {
			all = append(all, f)
		}
	}
	return all
}

// String is a line of the excerpt in docs/concepts/crab.md.
func (f Frame) String() string {
	var names []string
	for i, n := range []string{"FIN", "SYN", "RST", "PSH", "ACK"} {
		if f.Flags&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	s := fmt.Sprintf("%-17s > %-17s %-7s", f.Src, f.Dst, strings.Join(names, ","))
	if f.Flags&synFlag != 0 && len(f.Options) >= 8 {
		s += " first option " + hex.EncodeToString(f.Options[:8])
	}
	if f.Data > 0 {
		s += fmt.Sprintf(" %d bytes", f.Data)
	}
	return strings.TrimRight(s, " ")
}
