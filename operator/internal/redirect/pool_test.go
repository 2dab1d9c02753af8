// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
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
	share := func(p *programs.Pool) map[[4]byte]int {
		n := map[[4]byte]int{}
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
		if was != gone.Addr.As4() && smaller.Backend[smaller.Maglev[i]].Addr != was {
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

// The bytes in the maps, shared with dataplane/tests/test_crab_layout.c.
func TestLayoutVectors(t *testing.T) {
	f, err := os.Open("../../../dataplane/tests/vectors/crab_layout.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasPrefix(name, "#") {
			want[name] = value
		}
	}
	for name, got := range layoutSamples() {
		if hex.EncodeToString(got) != want[name] {
			t.Errorf("%s\n is %x\nwant %s", name, got, want[name])
		}
		delete(want, name)
	}
	for name, size := range map[string]uintptr{"pool.size": unsafe.Sizeof(programs.Pool{}), "pool.schedule": unsafe.Offsetof(programs.Pool{}.Schedule),
		"pool.maglev": unsafe.Offsetof(programs.Pool{}.Maglev), "pool.backend": unsafe.Offsetof(programs.Pool{}.Backend)} {
		if fmt.Sprint(size) != want[name] {
			t.Errorf("%s is %d, want %s", name, size, want[name])
		}
		delete(want, name)
	}
	if len(want) != 0 {
		t.Errorf("vectors nobody reads: %v", want)
	}
}

func bytesOf[T any](v T) []byte {
	return append([]byte{}, unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v))...)
}

// layoutSamples fill every field with a value of its own.
func layoutSamples() map[string][]byte {
	tuple := programs.Tuple{Client: 0x01020304, Server: 0x05060708, ClientPort: 0x090a, ServerPort: 0x0b0c}
	syn := programs.SYNKey{Iss: 0x0d0e0f10}
	syn.Tuple.Client, syn.Tuple.Server, syn.Tuple.ClientPort, syn.Tuple.ServerPort = 0x01020304, 0x05060708, 0x090a, 0x0b0c
	return map[string][]byte{
		"meta":       bytesOf(programs.Meta{Magic: programs.LayoutMagic, Layout: programs.LayoutVersion, DsrSeenNs: 0x1112131415161718, Exid: 0x191a, Kind: 0x1b}),
		"vip_key":    bytesOf(programs.VIPKey{Addr: 0x01020304, Port: 0x0506}),
		"vip":        bytesOf(programs.VIP{Id: 0x01020304, Policy: 5, Flags: 6, ReportLifeNs: 0x1112131415161718}),
		"backend":    bytesOf(programs.Backend{Addr: [4]byte{1, 2, 3, 4}, Load: 0x0506, Weight: 0x0708, State: 9}),
		"load":       bytesOf(programs.Load{Open: 0x01020304, Assigned: 0x05060708, ReportedNs: 0x1112131415161718}),
		"prefix_key": bytesOf(programs.PrefixKey{Prefixlen: 0x01020304, VipId: 0x05060708, Addr: 0x090a0b0c}),
		"tuple":      bytesOf(tuple),
		"pending":    bytesOf(programs.Pending{FirstNs: 0x0102030405060708, LastNs: 0x1112131415161718, Iss: 0x191a1b1c, Syns: 0x1d1e, Marked: 0x1f}),
		"flow":       bytesOf(programs.Flow{CreatedNs: 0x0102030405060708, LastNs: 0x1112131415161718, Dip: 0x191a1b1c, Iss: 0x1d1e1f20, Ended: 0x21, HopSeen: 0x22, Hop: [6]uint8{0x23, 0x24, 0x25, 0x26, 0x27, 0x28}}),
		"reverse":    bytesOf(programs.Reverse{Vip: 0x01020304}),
		"echo":       bytesOf(programs.Echo{LastNs: 0x0102030405060708, Vip: 0x11121314, Iss: 0x15161718}),
		"syn_key":    bytesOf(syn),
		"syn":        bytesOf(programs.SYN{SeenNs: 0x0102030405060708, Dip: 0x11121314, Place: 0x1516, Undelivered: 0x17}),
	}
}
