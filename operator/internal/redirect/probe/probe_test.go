// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// C-52: three losses make down, two answers make up, capability changes at once.
func TestHealth(t *testing.T) {
	const d, p, c = redirect.Down, redirect.UpPlain, redirect.UpCRAB
	for _, run := range []struct{ probes, states []redirect.State }{
		{[]redirect.State{c, c, c}, []redirect.State{d, c, c}},
		{[]redirect.State{c, d, c, c}, []redirect.State{d, d, d, c}},
		{[]redirect.State{c, c, p, c}, []redirect.State{d, c, p, c}},
		{[]redirect.State{c, c, d, d, c, d, d, d}, []redirect.State{d, c, c, c, c, c, c, d}},
		{[]redirect.State{p, c, d, d, d, p, p}, []redirect.State{d, c, c, c, d, d, p}},
	} {
		var h Health
		for i, probe := range run.probes {
			if got := h.Observe(probe); got != run.states[i] || got != h.State() {
				t.Errorf("after %v: %v, want %v", run.probes[:i+1], got, run.states[i])
			}
		}
	}
}

var (
	from = netip.MustParseAddrPort("10.0.0.1:4000")
	to   = netip.MustParseAddrPort("10.0.0.2:80")
	wire = redirect.Wire{Kind: 42}
)

func reply(flags byte, ack uint32, options []byte) []byte {
	b := make([]byte, 40)
	b[0] = 0x45
	binary.BigEndian.PutUint16(b[20:], to.Port())
	binary.BigEndian.PutUint16(b[22:], from.Port())
	binary.BigEndian.PutUint32(b[28:], ack)
	b[32], b[33] = byte(20+len(options))/4<<4, flags
	return append(b, options...)
}

// C-51: what each answer means; C-4: garbage means nothing.
func TestAnswer(t *testing.T) {
	exid := redirect.Wire{Kind: 253, ExID: 0x1234}
	for name, c := range map[string]struct {
		packet []byte
		wire   redirect.Wire
		state  redirect.State
		ok     bool
	}{
		"echo":               {reply(flagSYN|flagACK, 8, option(wire, Mark)), wire, redirect.UpCRAB, true},
		"echo behind others": {reply(flagSYN|flagACK, 8, append([]byte{2, 4, 5, 0xb4}, option(wire, Mark)...)), wire, redirect.UpCRAB, true},
		"experimental kind":  {reply(flagSYN|flagACK, 8, option(exid, Mark)), exid, redirect.UpCRAB, true},
		"another address":    {reply(flagSYN|flagACK, 8, option(wire, to.Addr())), wire, redirect.UpPlain, true},
		"the prober's own":   {reply(flagSYN|flagACK, 8, option(wire, from.Addr())), wire, redirect.UpPlain, true},
		"no echo":            {reply(flagSYN|flagACK, 8, nil), wire, redirect.UpPlain, true},
		"length 0":           {reply(flagSYN|flagACK, 8, []byte{42, 0, 0, 0}), wire, redirect.UpPlain, true},
		"length beyond":      {reply(flagSYN|flagACK, 8, []byte{1, 1, 42, 6}), wire, redirect.UpPlain, true},
		"refused":            {reply(flagRST|flagACK, 8, nil), wire, redirect.Down, true},
		"another probe's":    {reply(flagSYN|flagACK, 9, nil), wire, 0, false},
		"data":               {reply(flagACK, 8, nil), wire, 0, false},
		"short":              {reply(flagACK, 8, nil)[:30], wire, 0, false},
		"empty":              {nil, wire, 0, false},
	} {
		if state, ok := answer(c.packet, from, to, Mark, 7, c.wire); state != c.state || ok != c.ok {
			t.Errorf("%s: %v, %v; want %v, %v", name, state, ok, c.state, c.ok)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20000 { // no garbage makes a reader run over the end
		b := reply(flagSYN|flagACK, 8, make([]byte, rng.IntN(11)*4))
		for range 8 {
			b[rng.IntN(len(b))] = byte(rng.IntN(256))
		}
		answer(b[:rng.IntN(len(b)+1)], from, to, Mark, 7, wire)
	}
}

// C-51 against this kernel: a listener without agent is up-plain, a closed port is down.
func TestProbeKernel(t *testing.T) {
	privileged.Need(t, "opens raw sockets")
	for _, local := range []string{"127.0.0.1", "::1"} {
		t.Run(local, func(t *testing.T) { probeKernel(t, netip.MustParseAddr(local)) })
	}
}

func probeKernel(t *testing.T, local netip.Addr) {
	mark := Mark
	if local.Is6() {
		mark = MarkSix
	}
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
	if err != nil {
		t.Skipf("%s: %v", local, err)
	}
	open := l.Addr().(*net.TCPAddr).AddrPort()
	ask := func() redirect.State {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		state, err := Probe(ctx, open.Addr(), mark, open, redirect.Wire{})
		if err != nil {
			t.Fatal(err)
		}
		if same, err := Probe(ctx, netip.Addr{}, mark, open, redirect.Wire{}); err != nil || same != state {
			t.Errorf("from the route's own address: %v, %v", same, err)
		}
		return state
	}
	if state := ask(); state != redirect.UpPlain {
		t.Errorf("a listener is %v", state)
	}
	l.Close()
	if state := ask(); state != redirect.Down {
		t.Errorf("a closed port is %v", state)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if state, err := Probe(ctx, local, mark, netip.AddrPortFrom(local, 1), redirect.Wire{}); err != nil || state != redirect.Down {
		t.Errorf("%v, %v", state, err)
	}
	for _, other := range []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")} {
		if _, err := Probe(ctx, other, mark, open, redirect.Wire{}); other.Is4() != local.Is4() && err == nil {
			t.Errorf("C-9: %s was asked from %s", open, other)
		}
	}
}

// C-9: the option of an IPv6 probe fills 20 bytes, and what a raw socket gives has no IPv6 header.
func TestAnswerSix(t *testing.T) {
	from, to := netip.MustParseAddrPort("[fd00::1]:4000"), netip.MustParseAddrPort("[fd00::2]:80")
	packet := syn(from, to, MarkSix, 7, wire)
	if len(packet) != headerSize+4+20 || checksum(from.Addr(), to.Addr(), packet) != 0 {
		t.Errorf("a probe of %d bytes: %x", len(packet), packet)
	}
	for _, c := range []struct {
		options []byte
		want    redirect.State
	}{{option(wire, MarkSix), redirect.UpCRAB}, {option(redirect.Wire{Kind: 253, ExID: 1}, MarkSix), redirect.UpPlain}, {option(wire, Mark), redirect.UpPlain}, {nil, redirect.UpPlain}} {
		if state, ok := answer(reply(flagSYN|flagACK, 8, c.options)[headerSize:], from, to, MarkSix, 7, wire); !ok || state != c.want {
			t.Errorf("options %x: %v, %v", c.options, state, ok)
		}
	}
}

// C-1, C-7, C-9: the option to the byte, by kind and by family.
func TestOption(t *testing.T) {
	const six = "fd000000000000000000000000000001"
	for _, c := range []struct {
		wire redirect.Wire
		addr string
		want string
	}{
		{redirect.Wire{Kind: 42}, "10.0.0.1", "2a06" + "0a000001" + "0101"},
		{redirect.Wire{Kind: 42}, "fd00::1", "2a12" + six + "0101"},
		{redirect.Wire{Kind: 253, ExID: 0x1234}, "10.0.0.1", "fd081234" + "0a000001"},
		{redirect.Wire{Kind: 254, ExID: 0x1234}, "fd00::1", "fe141234" + six},
	} {
		if got := hex.EncodeToString(option(c.wire, netip.MustParseAddr(c.addr))); got != c.want {
			t.Errorf("%+v, %s: %s, want %s", c.wire, c.addr, got, c.want)
		}
	}
}

// C-51: a probe to the byte, but for its checksum.
func TestSYN(t *testing.T) {
	b := syn(from, to, Mark, 0x01020304, redirect.Wire{Kind: 253, ExID: 0x1234})
	if checksum(from.Addr(), to.Addr(), b) != 0 {
		t.Errorf("the checksum of %x is wrong", b)
	}
	b[16], b[17] = 0, 0
	want := "0fa0" + "0050" + "01020304" + "00000000" + "8002" + "ffff" + "0000" + "0000" + "020405b4" + "fd081234" + hex.EncodeToString(Mark.AsSlice())
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The carry of a checksum is added as often as there is one, and every octet of both addresses counts.
func TestChecksum(t *testing.T) {
	ones := netip.MustParseAddr("255.255.255.255")
	for _, c := range []struct {
		from, to netip.Addr
		tcp      []byte
		want     uint16
	}{
		{from.Addr(), to.Addr(), nil, ^uint16(0x0a00 + 1 + 0x0a00 + 2 + 6)},
		{from.Addr(), to.Addr(), []byte{1, 2}, ^uint16(0x0a00 + 1 + 0x0a00 + 2 + 6 + 2 + 0x0102)},
		{ones, ones, []byte{0xff, 0xff}, ^uint16(6 + 2)},
		{from.Addr(), to.Addr(), make([]byte, 0x102), ^uint16(0x0a00 + 1 + 0x0a00 + 2 + 6 + 0x102)},
	} {
		if got := checksum(c.from, c.to, c.tcp); got != c.want {
			t.Errorf("%s, %s, %x: %#x, want %#x", c.from, c.to, c.tcp, got, c.want)
		}
	}
}

// C-9: addresses of two families are refused before anything is opened, whichever is the other one.
func TestOneFamily(t *testing.T) {
	four, six := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")
	for _, c := range []struct{ local, mark, server netip.Addr }{
		{six, Mark, four}, {four, MarkSix, four}, {six, MarkSix, four}, {four, MarkSix, six}, {six, Mark, six}, {six, MarkSix, netip.MustParseAddr("::ffff:127.0.0.1")},
	} {
		var field *redirect.FieldError
		state, err := Probe(t.Context(), c.local, c.mark, netip.AddrPortFrom(c.server, 80), redirect.Wire{})
		if !errors.As(err, &field) || field.Field != "server" || state != redirect.Down {
			t.Errorf("%s from %s with %s: %v, %v", c.server, c.local, c.mark, state, err)
		}
	}
}

// Headers are as long as they say and no longer than the packet.
func TestAnswerLengths(t *testing.T) {
	headed := func(words byte) []byte { // an IPv4 header with options
		b := reply(flagSYN|flagACK, 8, option(wire, Mark))
		b[0] = 0x40 | words
		return append(append(append([]byte{}, b[:20]...), make([]byte, int(words)*4-20)...), b[20:]...)
	}
	area := func(words byte) []byte {
		b := reply(flagSYN|flagACK, 8, option(wire, Mark))
		b[32] = words << 4
		return b
	}
	six := reply(flagSYN|flagACK, 8, nil)
	six[0] = 0x65
	elsewhere := func(at int) []byte { b := reply(flagSYN|flagACK, 8, nil); b[at]++; return b }
	for name, c := range map[string]struct {
		packet []byte
		state  redirect.State
		ok     bool
	}{
		"IPv4 options":                {headed(8), redirect.UpCRAB, true},
		"no options and not a byte":   {reply(flagRST, 8, nil), redirect.Down, true},
		"a byte less than the header": {reply(flagRST, 8, nil)[:39], 0, false},
		"another version":             {six, 0, false},
		"another port of the server":  {elsewhere(21), 0, false},
		"another port of the prober":  {elsewhere(23), 0, false},
		"options to the end":          {area(7), redirect.UpCRAB, true},
		"options beyond the end":      {area(8), redirect.UpPlain, true},
		"options within the header":   {area(4), redirect.UpPlain, true},
	} {
		if state, ok := answer(c.packet, from, to, Mark, 7, wire); state != c.state || ok != c.ok {
			t.Errorf("%s: %v, %v; want %v, %v", name, state, ok, c.state, c.ok)
		}
	}
}
