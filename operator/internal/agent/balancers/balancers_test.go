// SPDX-License-Identifier: Apache-2.0

package balancers

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
)

// datagram of the file that the balancer's test in C reads, too.
type datagram struct {
	Name, Verdict, Hex, Answer, Key string
	Run, Session, Sender, Sequence  string
	Opened                          string
	Loads                           []struct {
		Server netip.AddrPort
		Open   uint32
	}
}

func number(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func octets(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// C-64: what the balancer takes is what is written here, and its answers are read.
func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("../../../../dataplane/tests/vectors/crab_reports.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Run       string
		Keys      []string
		Datagrams []datagram
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	keys := [][]byte{octets(t, file.Keys[0]), octets(t, file.Keys[1])}
	believed, answers := 0, 0
	for _, d := range file.Datagrams {
		if d.Key == "" {
			continue
		}
		h := head{number(t, d.Run), number(t, d.Session), number(t, d.Sender), number(t, d.Sequence)}
		var all []loads.Load
		for _, l := range d.Loads {
			all = append(all, loads.Load{Server: l.Server, Open: l.Open})
		}
		if got := hex.EncodeToString(seal(octets(t, d.Key), h, all)); got != d.Hex {
			t.Errorf("%s:\n%s, want\n%s", d.Name, got, d.Hex)
		}
		if d.Verdict == "believed" {
			believed++
		}
		if d.Answer == "" {
			continue
		}
		answers++
		s := session{head: h, first: h.sequence}
		if !s.hear(keys, octets(t, d.Answer)) || s.run != number(t, file.Run) || s.session != number(t, d.Opened) {
			t.Errorf("%s: the answer opens %+v", d.Name, s)
		}
	}
	if believed < 5 || answers < 5 {
		t.Errorf("%d believed, %d answers: the file lacks some", believed, answers)
	}
}

var (
	key   = []byte("0123456789abcdef")
	mine  = netip.MustParseAddrPort("10.0.0.31:80")
	mine6 = netip.MustParseAddrPort("[fd00::31]:80")
)

// answer opens a session with a sender's report.
func answer(key, report []byte, run, number uint64) []byte {
	h := head{run, number, binary.BigEndian.Uint64(report[24:]), binary.BigEndian.Uint64(report[32:])}
	b := h.append(kindAnswer, 0)
	return append(b, tag(key, b)...)
}

// C-66: only an answer to this round's reports, of this key, in one piece, once.
func TestHears(t *testing.T) {
	fresh := func() (*session, []byte) {
		s := &session{head: head{sender: 7}}
		return s, answer(key, s.round(key, []loads.Load{{Server: mine}})[0], 5, 6)
	}
	s, good := fresh()
	for bit := range len(good) * 8 {
		bad := append([]byte(nil), good...)
		bad[bit/8] ^= 1 << (bit % 8)
		if s.hear([][]byte{key}, bad) {
			t.Fatalf("bit %d is not looked at", bit)
		}
	}
	for n := range len(good) {
		if s.hear([][]byte{key}, good[:n]) {
			t.Fatalf("%d bytes are taken", n)
		}
	}
	if s.hear([][]byte{[]byte("another key of it")}, good) || s.hear([][]byte{key}, append(good, 0)) {
		t.Error("another key's, or a byte too long")
	}
	if !s.hear([][]byte{[]byte("another key of it"), key}, good) || s.run != 5 || s.session != 6 {
		t.Errorf("the previous key's answer: %+v", s)
	}
	if s.hear([][]byte{key}, good) {
		t.Error("a second answer in a round")
	}
	s, old := fresh()
	s.round(key, []loads.Load{{Server: mine}})
	if s.hear([][]byte{key}, old) {
		t.Error("an answer of the round before")
	}
	s, _ = fresh()
	other := &session{head: head{sender: 8}}
	if s.hear([][]byte{key}, answer(key, other.round(key, []loads.Load{{Server: mine}})[0], 5, 6)) {
		t.Error("an answer to somebody else")
	}
}

// C-64: more loads than a datagram holds are several, each with a number of its own, and none outgrows IPv6's least MTU.
func TestManyLoads(t *testing.T) {
	var all []loads.Load
	for i := range 2*most + 1 {
		all = append(all, loads.Load{Server: netip.AddrPortFrom(mine.Addr(), uint16(i+1))})
	}
	s := &session{}
	parts := s.round(key, all)
	if len(parts) != 3 || len(parts[0]) != headSize+most*loadSize+tagSize || len(parts[0]) > 1280-48 || len(parts[2]) != headSize+loadSize+tagSize {
		t.Fatalf("%d parts", len(parts))
	}
	for i, p := range parts {
		if n := binary.BigEndian.Uint64(p[32:]); n != uint64(i+1) {
			t.Errorf("part %d has number %d", i, n)
		}
	}
	if !s.hear([][]byte{key}, answer(key, parts[1], 1, 2)) {
		t.Error("an answer to the middle one is not heard")
	}
}

func TestParse(t *testing.T) {
	all, err := Parse(" 10.0.0.20:8470, [fd00::20]:8470 ,")
	if err != nil || len(all) != 2 || all[1] != netip.MustParseAddrPort("[fd00::20]:8470") {
		t.Errorf("%v, %v", all, err)
	}
	if all, err := Parse(""); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	for _, bad := range []string{"10.0.0.20", "lb:8470", "10.0.0.20:0", "0.0.0.0:1", "224.0.0.1:1", "[::ffff:10.0.0.1]:1", "[fe80::1%eth0]:1",
		"10.0.0.20:1,10.0.0.20:1", strings.Repeat("10.0.0.20:1,", Most+1)} {
		if all, err := Parse(bad); err == nil {
			t.Errorf("%s: %v", bad, all)
		}
	}
}

// lb is a balancer's socket.
type lb struct {
	*net.UDPConn
	from *net.UDPAddr
}

func listen(t *testing.T) *lb {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		c, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &lb{UDPConn: c}
}

func (l *lb) next(t *testing.T) []byte {
	t.Helper()
	b := make([]byte, 2048)
	_ = l.SetReadDeadline(time.Now().Add(time.Minute))
	n, from, err := l.ReadFromUDP(b)
	if err != nil {
		t.Fatal(err)
	}
	l.from = from
	return b[:n]
}

// C-64 to C-66 from socket to socket: the first report opens a session, in which the loads are told at once and in each
// round; keys are read anew; what fails is counted and ends nothing.
func TestTells(t *testing.T) {
	dir, there := t.TempDir(), listen(t)
	var broken atomic.Bool
	teller := New(Options{Addresses: []netip.AddrPort{there.LocalAddr().(*net.UDPAddr).AddrPort()}, KeyDir: dir,
		Connections: func() (map[netip.AddrPort]uint32, error) {
			if broken.Load() {
				return nil, errors.New("no map")
			}
			return map[netip.AddrPort]uint32{mine: 3, mine6: 4, netip.MustParseAddrPort("10.0.0.9:80"): 5}, nil
		}})
	teller.Set([]netip.AddrPort{mine, mine6, netip.MustParseAddrPort("10.0.0.8:80")})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { teller.Run(ctx) })
	defer running.Wait()
	defer cancel()
	until(t, "a round without a key is counted", func() bool { return teller.Counters().NoKey > 0 })
	write(t, dir, "key", string(key)+"\n")

	first := there.next(t)
	if want := seal(key, head{sender: binary.BigEndian.Uint64(first[24:]), sequence: 1}, []loads.Load{{Server: mine, Open: 3}, {Server: mine6, Open: 4}}); string(first) != string(want) {
		t.Errorf("%x, want %x", first, want)
	}
	_, _ = there.WriteToUDP([]byte("nonsense"), there.from)
	_, _ = there.WriteToUDP(answer(key, first, 5, 6), there.from)
	second := there.next(t)
	for binary.BigEndian.Uint64(second[8:]) == 0 { // a round may have come between
		_, _ = there.WriteToUDP(answer(key, second, 5, 6), there.from)
		second = there.next(t)
	}
	if binary.BigEndian.Uint64(second[8:]) != 5 || binary.BigEndian.Uint64(second[16:]) != 6 {
		t.Errorf("not in the session: %x", second)
	}
	if c := teller.Counters(); c.Sessions != 1 || c.Refused < 1 || c.Refused > 1000 || c.Sent < 2 {
		t.Errorf("%+v", c)
	}
	write(t, dir, "key", "the next key, sixteen")
	until(t, "the next key signs", func() bool {
		b := there.next(t)
		return string(tag([]byte("the next key, sixteen"), b[:len(b)-tagSize])) == string(b[len(b)-tagSize:])
	})
	write(t, dir, "key", "short")
	failed := teller.Counters().NoKey
	until(t, "a key that is too short is counted", func() bool { return teller.Counters().NoKey > failed })
	there.next(t) // signed by the last good one
	broken.Store(true)
	until(t, "a round without a count is counted", func() bool { return teller.Counters().NotCounted > 0 })
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within a minute: %s", what)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestKeys(t *testing.T) {
	dir := t.TempDir()
	if _, err := readKeys(dir); err == nil {
		t.Error("no key is no error")
	}
	write(t, dir, "key", string(key)+"\r\n")
	write(t, dir, "previous", "")
	if keys, err := readKeys(dir); err != nil || len(keys) != 1 || string(keys[0]) != string(key) {
		t.Errorf("%q, %v", keys, err)
	}
	write(t, dir, "previous", strings.Repeat("p", maxKey))
	if keys, err := readKeys(dir); err != nil || len(keys) != 2 {
		t.Errorf("%q, %v", keys, err)
	}
	for _, bad := range []string{"fifteen bytes..", strings.Repeat("p", maxKey+1)} {
		write(t, dir, "previous", bad)
		if _, err := readKeys(dir); err == nil || !strings.Contains(err.Error(), "previous must hold a key of 16 to 64 bytes") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// So many balancers are told and no more; each is one that can be reached, and stands there once.
func TestCheck(t *testing.T) {
	many := make([]netip.AddrPort, Most+1)
	for i := range many {
		many[i] = netip.AddrPortFrom(mine.Addr(), uint16(i+1))
	}
	for _, c := range []struct {
		all  []netip.AddrPort
		want string
	}{
		{many[:Most], ""},
		{many, "65 balancers, at most 64 can be told"},
		{[]netip.AddrPort{mine, mine6, mine}, "10.0.0.31:80 stands in the list twice"},
		{[]netip.AddrPort{mine, netip.MustParseAddrPort("0.0.0.0:80")}, "0.0.0.0:80 is not the address and port of a host"},
	} {
		got := ""
		if err := Check(c.all); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.all, got, c.want)
		}
	}
}
