// SPDX-License-Identifier: Apache-2.0

package pipe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// port is a packet socket on a device.
type port struct{ fd int }

// The header that the kernel puts in front of a frame (struct virtio_net_hdr).
const (
	vnetHeader    = 10
	vnetNeedsSum  = 1
	gsoUDP        = 5 // VIRTIO_NET_HDR_GSO_UDP_L4
	longestFrame  = 1 << 16
	wakeUp        = 100 // ms: how often a reader looks whether it is to end
	receiveBuffer = 8 << 20
)

// Attach makes a device of this network namespace the port of that number: frames that
// arrive there go into the machine until Close.
func (p *Pipe) Attach(number uint64, device string) error {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return fmt.Errorf("find the device: %w", err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a packet socket: %w", err)
	}
	all := int(binary.NativeEndian.Uint16([]byte{unix.ETH_P_ALL >> 8, unix.ETH_P_ALL & 0xff}))
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: wakeUp * 1000}),
		unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &unix.PacketMreq{Ifindex: int32(i.Index), Type: unix.PACKET_MR_PROMISC}),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(all), Ifindex: i.Index}),
	)
	if err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("set the packet socket of %s up: %w", device, err)
	}
	to := &port{fd}
	p.mu.Lock()
	p.ports[number] = to
	p.mu.Unlock()
	p.end.Add(1)
	go p.read(number, to)
	return nil
}

func (p *Pipe) read(number uint64, from *port) {
	defer p.end.Done()
	defer func() {
		p.mu.Lock()
		delete(p.ports, number)
		p.mu.Unlock()
		_ = unix.Close(from.fd)
	}()
	buffer := make([]byte, longestFrame+vnetHeader)
	for {
		select {
		case <-p.done:
			return
		default:
		}
		n, _, err := unix.Recvfrom(from.fd, buffer, 0)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ENETDOWN):
			continue
		case err != nil:
			return
		case n < vnetHeader:
			continue
		}
		frames := finished(buffer[:n])
		if frames == nil {
			p.mu.Lock()
			p.counts.Unreadable++
			p.mu.Unlock()
		}
		for _, f := range frames {
			p.arrive(number, f)
		}
	}
}

// finished are frames as a wire would carry them: a kernel that thinks that a device does it
// leaves checksums to be ended, and datagrams to be cut. nil: of another kind than UDP.
func finished(b []byte) [][]byte {
	head, frame := b[:vnetHeader], append([]byte(nil), b[vnetHeader:]...)
	start := int(binary.NativeEndian.Uint16(head[6:]))
	at := start + int(binary.NativeEndian.Uint16(head[8:]))
	size := int(binary.NativeEndian.Uint16(head[4:]))
	switch kind := head[1]; {
	case kind == gsoUDP && size > 0:
		return cut(frame, start, size)
	case kind != 0:
		return nil
	case head[0]&vnetNeedsSum == 0:
		return [][]byte{frame}
	case at+2 > len(frame):
		return nil
	}
	put(frame[at:], sum(frame[start:], 0))
	return [][]byte{frame}
}

// cut makes datagrams of one that holds several; size is that of their payloads.
func cut(frame []byte, udp, size int) (out [][]byte) {
	const ip, udpHeader = 14, 8
	if len(frame) < udp+udpHeader || udp < ip+20 || frame[ip]>>4 != 4 {
		return nil
	}
	for rest := frame[udp+udpHeader:]; len(rest) > 0; {
		n := min(size, len(rest))
		one := append(append([]byte(nil), frame[:udp+udpHeader]...), rest[:n]...)
		rest = rest[n:]
		binary.BigEndian.PutUint16(one[ip+2:], uint16(len(one)-ip))
		binary.BigEndian.PutUint16(one[ip+10:], 0)
		binary.BigEndian.PutUint16(one[ip+10:], ^sum(one[ip:udp], 0))
		binary.BigEndian.PutUint16(one[udp+4:], uint16(len(one)-udp))
		binary.BigEndian.PutUint16(one[udp+6:], 0)
		put(one[udp+6:], sum(one[udp:], uint32(sum(one[ip+12:ip+20], uint32(len(one)-udp+unix.IPPROTO_UDP)))))
		out = append(out, one)
	}
	return out
}

// sum is that of RFC 1071, on top of another.
func sum(b []byte, s uint32) uint16 {
	for n := 0; n < len(b); n += 2 {
		s += uint32(b[n]) << 8
		if n+1 < len(b) {
			s += uint32(b[n+1])
		}
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}

// put writes a checksum of UDP: 0 would say that there is none.
func put(to []byte, sum uint16) {
	if sum = ^sum; sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(to, sum)
}

// send says whether the device took a frame.
func (to *port) send(data []byte) bool {
	_, err := unix.SendmsgN(to.fd, append(make([]byte, vnetHeader), data...), nil, nil, unix.MSG_DONTWAIT)
	return err == nil
}
