// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bufio"
	"bytes"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

func pool(t *testing.T, old *programs.Pool, servers []Backend) *programs.Pool {
	t.Helper()
	next := uint16(0)
	p, err := newPool(old, servers, func() (uint16, bool) { next++; return next - 1, true })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// C-25: whoever stays keeps place and load counter; a free place is used again.
func TestPlacesAreKept(t *testing.T) {
	s := servers(4)
	old := pool(t, &programs.Pool{}, s)
	p := pool(t, old, []Backend{s[3], s[1], {Addr: testDIP.Next().Next().Next().Next().Next().Next(), State: UpCRAB}})
	if p.Backend[3] != old.Backend[3] || p.Backend[1] != old.Backend[1] || p.Backend[0].Addr == old.Backend[0].Addr || p.Backends != 4 {
		t.Errorf("places: %v", p.Backend[:5])
	}
	if p.Generation != old.Generation+1 {
		t.Error("the generation did not grow")
	}
}

// C-62: turns follow weights, evenly mixed, whatever the weights are; nobody is left out.
func TestSchedule(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		s := servers(1 + rng.IntN(60))
		total := 0
		for i := range s {
			s[i].Weight = uint16(1 + rng.IntN(1<<rng.IntN(16)))
			total += int(s[i].Weight)
		}
		p := pool(t, &programs.Pool{}, s)
		turns := map[uint16]int{}
		for _, place := range p.Schedule[:p.Scheduled] {
			turns[place]++
		}
		for i, b := range s {
			share, want := float64(turns[uint16(i)])/float64(p.Scheduled), float64(b.Weight)/float64(total)
			if turns[uint16(i)] == 0 || share < want*0.85-0.01 || share > want*1.15+0.01 {
				t.Fatalf("server %d of %d, weight %d of %d: %d turns of %d", i, len(s), b.Weight, total, turns[uint16(i)], p.Scheduled)
			}
		}
	}
	even := pool(t, &programs.Pool{}, []Backend{{Addr: testDIP, Weight: 2, State: UpCRAB}, {Addr: testClient, Weight: 1, State: UpCRAB}})
	if got := fmt.Sprint(even.Schedule[:even.Scheduled]); got != "[0 1 0]" {
		t.Errorf("weights 2 and 1: %s", got)
	}
}

// C-41: equal shares, one table for all balancers, and little disturbance.
func TestMaglev(t *testing.T) {
	s := servers(50)
	p := pool(t, &programs.Pool{}, s)
	share := func(p *programs.Pool) map[netip.Addr]int {
		n := map[netip.Addr]int{}
		for _, place := range p.Maglev[:programs.MaglevSlots] {
			n[p.Backend[place].Addr]++
		}
		return n
	}
	for addr, n := range share(p) {
		if fair := programs.MaglevSlots / 50; n < fair-2 || n > fair+2 {
			t.Errorf("%v has %d slots, fair is %d", addr, n, fair)
		}
	}
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	other := pool(t, &programs.Pool{}, s)
	moved := 0
	for i := range programs.MaglevSlots {
		if p.Backend[p.Maglev[i]].Addr != other.Backend[other.Maglev[i]].Addr {
			moved++
		}
	}
	if moved != 0 {
		t.Errorf("two balancers disagree about %d slots", moved)
	}
	gone := s[7]
	smaller := pool(t, other, append(append([]Backend{}, s[:7]...), s[8:]...))
	for i := range programs.MaglevSlots {
		was := other.Backend[other.Maglev[i]].Addr
		if was != gone.Addr && smaller.Backend[smaller.Maglev[i]].Addr != was {
			moved++
		}
	}
	if moved > programs.MaglevSlots/20 {
		t.Errorf("a server left and %d slots of others moved", moved)
	}
}

// The names here and the programs' list are one list.
func TestReasonsAreTheProgramsOwn(t *testing.T) {
	raw, err := os.ReadFile("../../../dataplane/bpf/crab_reasons.h")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^CRAB_REASON\((\w+), "(\w+)"`).FindAllStringSubmatch(string(raw), -1) {
		if m[2] != strings.ToLower(m[1]) {
			t.Errorf("%s is called %s", m[1], m[2])
		}
		names = append(names, m[2])
	}
	if fmt.Sprint(names) != fmt.Sprint(Reasons) || len(names) > programs.Counters {
		t.Errorf("crab_reasons.h: %v\nhere: %v", names, Reasons)
	}
}

// Every packet that a program drops is counted with a reason: in the lines before, or where a comment says.
func TestEveryDropIsCounted(t *testing.T) {
	files, err := filepath.Glob("../../../dataplane/bpf/crab_*")
	must(t, err)
	drops := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		must(t, err)
		lines := strings.Split(string(raw), "\n")
		for i, line := range lines {
			if !strings.Contains(line, "return TC_ACT_SHOT") && !strings.Contains(line, "XDP_DROP") {
				continue
			}
			drops++
			if before := strings.Join(lines[max(0, i-1):i], ""); !strings.Contains(before, "crab_count(") && !strings.Contains(line, "/* counted there */") {
				t.Errorf("%s:%d: dropped without a reason: %s", filepath.Base(file), i+1, strings.TrimSpace(line))
			}
		}
	}
	if drops < 10 {
		t.Errorf("%d drops were found: this proves nothing", drops)
	}
}

// The bytes in the maps, shared with dataplane/tests/test_crab_layout.c; what is written is read back the same.
func TestLayoutVectors(t *testing.T) {
	for file, samples := range map[string]map[string]record{
		"crab_layout.txt": layoutSamples(func(v uint32) netip.Addr { return wordAddr(v) }),
		"crab_layout6.txt": layoutSamples(func(v uint32) netip.Addr {
			return wordAddr(v, ^v, v^0x0f0f0f0f, v^0xf0f0f0f0)
		}),
	} {
		want := vectorsOf(t, file)
		for name, sample := range samples {
			got, err := sample.MarshalBinary()
			if err != nil || hex.EncodeToString(got) != want[name] {
				t.Errorf("%s: %s\n is %x\nwant %s, %v", file, name, got, want[name], err)
			}
			back := reflect.New(reflect.TypeOf(sample))
			if err := back.Interface().(encoding.BinaryUnmarshaler).UnmarshalBinary(got); err != nil || !reflect.DeepEqual(back.Elem().Interface(), sample) {
				t.Errorf("%s: %s is read as %+v, want %+v, %v", file, name, back.Elem(), sample, err)
			}
			delete(want, name)
		}
		checkPool(t, file, want)
		for name, value := range plainSamples() {
			if hex.EncodeToString(value) != want[name] {
				t.Errorf("%s: %s\n is %x\nwant %s", file, name, value, want[name])
			}
			delete(want, name)
		}
		if len(want) != 0 {
			t.Errorf("%s: vectors nobody reads: %v", file, want)
		}
	}
}

type record interface{ MarshalBinary() ([]byte, error) }

func vectorsOf(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open("../../../dataplane/tests/vectors/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasPrefix(name, "#") {
			all[name] = value
		}
	}
	return all
}

// checkPool finds a pool's parts where the vectors say they are, and reads back what it wrote.
func checkPool(t *testing.T, file string, want map[string]string) {
	t.Helper()
	server, err := hex.DecodeString(want["backend"])
	if err != nil {
		t.Fatal(err)
	}
	size := len(server) - 8
	addr, _ := netip.AddrFromSlice(server[:size])
	p := &programs.Pool{Generation: 1, Backends: 2, Scheduled: 3, Hashed: 4}
	p.Backend[1] = programs.Backend{Addr: addr, Load: 0x0506, Weight: 0x0708, State: 9}
	p.Schedule[0], p.Maglev[0] = 0x1112, 0x2122
	b := p.Bytes(size)
	at := func(name string) int { n, _ := strconv.Atoi(want[name]); return n }
	if len(b) != at("pool.size") || !bytes.Equal(b[at("pool.backend")+len(server):][:len(server)], server) ||
		binary.NativeEndian.Uint16(b[at("pool.schedule"):]) != 0x1112 || binary.NativeEndian.Uint16(b[at("pool.maglev"):]) != 0x2122 {
		t.Errorf("%s: a pool of %d bytes has its parts elsewhere", file, len(b))
	}
	var back programs.Pool
	if err := back.Read(b, size); err != nil || back != *p {
		t.Errorf("%s: a pool is read otherwise than it was written: %v", file, err)
	}
	for name := range want {
		if name == "backend" || strings.HasPrefix(name, "pool.") {
			delete(want, name)
		}
	}
}

func bytesOf[T any](v T) []byte {
	return append([]byte{}, unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v))...)
}

// wordAddr is the address whose words a little-endian program holds as these numbers.
func wordAddr(words ...uint32) netip.Addr {
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// layoutSamples fill every field with a value of its own.
func layoutSamples(addr func(uint32) netip.Addr) map[string]record {
	tuple := programs.Tuple{Client: netip.AddrPortFrom(addr(0x01020304), 0x0a09), Server: netip.AddrPortFrom(addr(0x05060708), 0x0c0b)}
	prefix := netip.PrefixFrom(addr(0x090a0b0c), addr(0).BitLen())
	return map[string]record{
		"vip_key":     programs.VIPKey{Addr: addr(0x01020304), Port: 0x0605},
		"prefix_key":  programs.PrefixKey{VIP: 0x08070605, Prefix: prefix},
		"tuple":       tuple,
		"connect_key": programs.ConnectKey{VIPKey: programs.VIPKey{Addr: addr(0x01020304), Port: 0x0605}, Bucket: 0x0708},
		"flow": programs.Flow{CreatedS: 0x05060708, ACK: 0x01020304, LastNs: 0x1112131415161718, DIP: addr(0x191a1b1c), ISS: 0x1d1e1f20, Ended: 0x21, HopSeen: 0x22,
			Hop: [6]uint8{0x23, 0x24, 0x25, 0x26, 0x27, 0x28}},
		"reverse": programs.Reverse{VIP: addr(0x01020304)},
		"echo":    programs.Echo{LastNs: 0x0102030405060708, VIP: addr(0x11121314), ISS: 0x15161718},
		"opening": programs.Opening{LastNs: 0x0102030405060708, VIP: addr(0x11121314), ISS: 0x15161718, ISN: 0x191a1b1c, Fallback: 0x1d, Answered: 0x1e},
		"relay": programs.Relay{LastNs: 0x0102030405060708, DIP: addr(0x11121314), NextOut: 0x15161718, NextBack: 0x191a1b1c, Place: 0x1d1e, Port: 0x201f,
			Ended: 0x21, Opened: 0x22, Answered: 0x23},
		"relay_back": programs.RelayBack{Client: netip.AddrPortFrom(addr(0x01020304), 0x0605)},
		"fallen":     fallenSample(tuple),
		"tunnel":     programs.Tunnel{From: addr(0x01020304), To: addr(0x05060708)},
		"syn_key":    programs.SYNKey{Tuple: tuple, ISS: 0x0d0e0f10},
		"syn":        programs.SYN{SeenNs: 0x0102030405060708, DIP: addr(0x11121314), Place: 0x1516, Undelivered: 0x17},
	}
}

func fallenSample(who programs.Tuple) (f programs.Fallen) {
	f.Next = 0x2d2e2f30
	for i := range f.Last {
		f.Last[i] = programs.Fell{AtNs: 0x0102030405060708, Who: who, Reason: 0x31323300 + uint32(i)}
	}
	return f
}

// plainSamples are those without an address, whose Go form is generated.
func plainSamples() map[string][]byte {
	return map[string][]byte{
		"meta":    bytesOf(programs.Meta{Magic: programs.LayoutMagic, Layout: programs.LayoutVersion, DsrSeenNs: 0x1112131415161718, Exid: 0x191a, Kind: 0x1b}),
		"vip":     bytesOf(programs.VIP{Id: 0x01020304, Policy: 5, Flags: 6, ReportLifeNs: 0x1112131415161718}),
		"load":    bytesOf(programs.Load{Open: 0x01020304, Assigned: 0x05060708, ReportedNs: 0x1112131415161718}),
		"pending": bytesOf(programs.Pending{FirstNs: 0x0102030405060708, LastNs: 0x1112131415161718, Iss: 0x191a1b1c, Syns: 0x1d1e, Marked: 0x1f, Direct: 0x20}),
	}
}
