// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package r2p2

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"unsafe"
)

// A train is of one address and one length, but for a shorter last one; it ends before
// an empty packet and at what the kernel takes at once.
func TestTrains(t *testing.T) {
	here, there := netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")
	for name, c := range map[string]struct {
		lengths []int
		to      map[int]netip.AddrPort // of some packets
		apart   bool
		at      int
		want    int
	}{
		"one":                  {[]int{9}, nil, false, 0, 1},
		"all alike":            {[]int{9, 9, 9}, nil, false, 0, 3},
		"from the second on":   {[]int{9, 9, 9}, nil, false, 1, 2},
		"a shorter last":       {[]int{9, 9, 8, 8}, nil, false, 0, 3},
		"a longer one":         {[]int{9, 10, 9}, nil, false, 0, 1},
		"an empty one":         {[]int{9, 0, 9}, nil, false, 0, 1},
		"another address":      {[]int{9, 9, 9}, map[int]netip.AddrPort{2: there}, false, 0, 2},
		"no trains":            {[]int{9, 9, 9}, nil, true, 0, 1},
		"as many as there may": {slices.Repeat([]int{9}, trainMost), nil, false, 0, trainMost},
		"one more":             {slices.Repeat([]int{9}, trainMost+1), nil, false, 0, trainMost},
		"as long as it may be": {slices.Repeat([]int{trainBytes / 50}, 51), nil, false, 0, 50},
		"a byte longer":        {slices.Repeat([]int{trainBytes/50 + 1}, 51), nil, false, 0, 49},
		"long from the 2nd on": {slices.Repeat([]int{trainBytes / 50}, 52), nil, false, 1, 50},
	} {
		b := &batch{}
		at := 0
		for i, n := range c.lengths {
			to, other := c.to[i]
			if !other {
				to = here
			}
			b.packets = append(b.packets, outgoing{addr: to, from: at, to: at + n})
			at += n
		}
		if got := (&sender{apart: c.apart}).trainAt(b, c.at); got != c.want {
			t.Errorf("%s: %d packets leave together, want %d", name, got, c.want)
		}
	}
}

// controlMessage is one that carries a number of four bytes, or the first of them.
func controlMessage(level, kind int32, number syscall.Errno, bytes int) []byte {
	out := make([]byte, syscall.CmsgSpace(4))
	h := (*syscall.Cmsghdr)(unsafe.Pointer(&out[0]))
	h.Level, h.Type = level, kind
	h.SetLen(syscall.CmsgLen(bytes))
	binary.NativeEndian.PutUint32(out[syscall.CmsgLen(0):], uint32(number))
	return out
}

// Only the extended error of the socket's own family says that a packet was too long.
func TestTooLong(t *testing.T) {
	v4 := controlMessage(syscall.IPPROTO_IP, ipRecvErr, syscall.EMSGSIZE, 4)
	other := controlMessage(syscall.IPPROTO_IP, ipRecvErr, syscall.ECONNREFUSED, 4)
	for name, c := range map[string]struct {
		control []byte
		want    bool
	}{
		"nothing": {nil, false}, "IPv4": {v4, true}, "IPv6": {controlMessage(syscall.IPPROTO_IPV6, ipv6RecvErr, syscall.EMSGSIZE, 4), true},
		"another error":      {other, false},
		"behind another":     {slices.Concat(other, v4), true},
		"cut off":            {controlMessage(syscall.IPPROTO_IP, ipRecvErr, syscall.EMSGSIZE, 3), false},
		"another of IPv4":    {controlMessage(syscall.IPPROTO_IP, ipRecvErr+1, syscall.EMSGSIZE, 4), false},
		"another of IPv6":    {controlMessage(syscall.IPPROTO_IPV6, ipv6RecvErr+1, syscall.EMSGSIZE, 4), false},
		"IPv4's of IPv6":     {controlMessage(syscall.IPPROTO_IPV6, ipRecvErr, syscall.EMSGSIZE, 4), false},
		"IPv6's of IPv4":     {controlMessage(syscall.IPPROTO_IP, ipv6RecvErr, syscall.EMSGSIZE, 4), false},
		"that of a stranger": {controlMessage(syscall.SOL_SOCKET, ipRecvErr, syscall.EMSGSIZE, 4), false},
	} {
		if got := tooLong(c.control); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
