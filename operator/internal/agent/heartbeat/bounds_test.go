// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/ownership"
)

var keyA, keyB, keyC = []byte("key a, the first"), []byte("key b, the second"), []byte("key c, the third")

// held are the names of the keys of a ring, those that are gone with the time since when.
func held(r *keyring) string {
	var out []string
	for _, k := range r.keys {
		name := string(k.key[4:5])
		if k.gone != 0 {
			name += " gone " + k.gone.String()
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}

// A key that was taken away lingers for its time and no longer, from when it went, also where that was the first moment;
// one that comes back is in force again.
func TestKeysThatGo(t *testing.T) {
	r := newKeyring([][]byte{keyA})
	for _, c := range []struct {
		at   time.Duration
		keys [][]byte
		want string
	}{
		{0, [][]byte{keyB}, "b, a gone 1ns"}, {5, [][]byte{keyB}, "b, a gone 1ns"}, {KeyLinger, [][]byte{keyB}, "b, a gone 1ns"}, {KeyLinger + 1, [][]byte{keyB}, "b"},
		{2 * KeyLinger, [][]byte{keyC, keyB, keyA}, "c, b, a"}, {3 * KeyLinger, [][]byte{keyA}, "a, c gone 15m0s, b gone 15m0s"},
		{4*KeyLinger - 1, [][]byte{keyB}, "b, a gone 19m59.999999999s, c gone 15m0s"}, {4 * KeyLinger, [][]byte{keyB}, "b, a gone 19m59.999999999s"},
	} {
		if r.set(c.at, c.keys); held(r) != c.want {
			t.Errorf("at %v: %s, want %s", c.at, held(r), c.want)
		}
	}
	body := []byte("body")
	for _, c := range []struct {
		at   time.Duration
		key  []byte
		want int
	}{{4 * KeyLinger, keyB, 0}, {4 * KeyLinger, keyA, 1}, {4 * KeyLinger, keyC, -1}, {5*KeyLinger - 1, keyA, -1}, {6 * KeyLinger, keyB, 0}} {
		if got := r.opens(c.at, body, tag(c.key, body)); got != c.want {
			t.Errorf("at %v, %s: opened by key %d, want %d", c.at, c.key, got, c.want)
		}
	}
}

// A peer is signed to with the newest key that it has shown to hold; who has shown none, or one that is gone from here,
// with the oldest in force. That there is a newer one is said.
func TestKeysThatAreSignedWith(t *testing.T) {
	r := newKeyring([][]byte{keyA})
	r.set(1, [][]byte{keyC, keyB}) // newest first; a lingers
	for _, c := range []struct {
		peer  string
		at    int
		newer bool
		key   []byte
		says  bool
	}{
		{"stranger", -1, false, keyB, true}, {"new", 0, false, keyC, false}, {"late", 1, false, keyB, true}, {"last", 2, false, keyA, true},
		{"late, and has the newer", 1, true, keyC, false}, {"last, and has the newer", 2, true, keyB, true}, {"new, and has a newer than all", 0, true, keyC, false},
	} {
		if c.at >= 0 {
			r.learn(c.peer, c.at, c.newer)
		}
		if got, newer := r.sign(c.peer); !bytes.Equal(got, c.key) || newer != c.says {
			t.Errorf("%s: %s, a newer one %v", c.peer, got, newer)
		}
	}
	r.set(2*KeyLinger, [][]byte{keyC})
	if got, newer := r.sign("last"); !bytes.Equal(got, keyC) || newer {
		t.Errorf("what it showed is gone: %s, %v", got, newer)
	}
	r.keep(map[string]bool{"late": true})
	if len(r.peers) != 1 {
		t.Errorf("%d peers are remembered", len(r.peers))
	}
}

// A datagram is as short as one with a name of one letter, and as long as the name and the claims that may be in it.
func TestLengthsOfADatagram(t *testing.T) {
	for name, good := range map[string]bool{"": false, "n": true, strings.Repeat("n", maxName): true, strings.Repeat("n", maxName+1): false} {
		b, err := seal(key, Packet{Nonce: 1, Message: ownership.Message{From: name}})
		if (err == nil) != good {
			t.Errorf("a name of %d: %v", len(name), err)
		}
		if err != nil {
			continue
		}
		if p, reason := unseal([][]byte{key}, b); reason != "" || p.Message.From != name {
			t.Errorf("a name of %d: %q", len(name), reason)
		}
	}
	b, err := seal(key, Packet{Nonce: 1, Message: ownership.Message{From: "n"}})
	if err != nil {
		t.Fatal(err)
	}
	for less, want := range map[int]Reason{0: "", 1: TooShort} {
		if _, _, reason := split(b[:len(b)-less]); reason != want {
			t.Errorf("%d bytes less: %q", less, reason)
		}
		if _, reason := parse(b[:len(b)-tagSize-less]); reason != want {
			t.Errorf("%d bytes less, without a tag: %q", less, reason)
		}
	}
	long := append(bytes.Clone(b[:headSize]), strings.Repeat("n", 255)...)
	long[32] = maxName + 1
	if _, reason := parse(long[:headSize+maxName+1]); reason != Malformed {
		t.Errorf("a name that is too long: %q", reason)
	}
}

// Every datagram is counted by what became of it, and loads of IPv6 alone are told as that, in as many as it takes.
func TestWhatBecameOfDatagrams(t *testing.T) {
	n := uint64(0)
	nonce := func() uint64 { n++; return n }
	a, b := newExchange("a", [][]byte{keyA}, time.Minute, nonce), newExchange("b", [][]byte{keyA}, time.Minute, nonce)
	beat := func(from, to *exchange) []byte {
		out, err := from.heartbeat(0, to.self, ownership.Message{From: from.self, Able: true})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := beat(a, b)
	if got, hello := b.take(0, first); got != nil || hello != "a" {
		t.Errorf("the first: %+v, %q", got, hello)
	}
	if got, hello := a.take(0, beat(b, a)); got == nil || got.from != "b" || hello != "" {
		t.Errorf("its answer: %+v, %q", got, hello)
	}
	if got, _ := b.take(0, beat(a, b)); got == nil || got.message == nil {
		t.Error("the second is not taken")
	}
	for range 2 {
		b.take(0, first)
		b.take(0, []byte("short"))
		b.take(0, append([]byte{0}, first[1:]...))
	}
	var all []loads.Load
	for port := range uint16(MaxLoadsSix + 1) {
		all = append(all, loads.Load{Server: netip.AddrPortFrom(netip.MustParseAddr("fd00::1"), 8000+port), Open: 3})
	}
	told, err := a.reports(0, "b", all)
	if err != nil || len(told) != 2 {
		t.Fatalf("%d reports, %v", len(told), err)
	}
	for i, want := range []int{MaxLoadsSix, 1} {
		if got, _ := b.take(0, told[i]); got == nil || len(got.loads) != want || got.from != "a" || got.message != nil {
			t.Errorf("report %d: %+v", i, got)
		}
	}
	want := map[string]uint64{string(Hello): 1, accepted: 1, string(Replayed): 2, string(TooShort): 2, string(BadTag): 2, reportsAccepted: 2}
	for _, name := range Results() {
		if b.counters[name] != want[name] {
			t.Errorf("%s: %d, want %d", name, b.counters[name], want[name])
		}
	}
}

// A session ends when its life is over, to the moment, and not before.
func TestLifeOfASession(t *testing.T) {
	for after, alive := range map[time.Duration]bool{life - 1: true, life: false} {
		a, b := newSide("a"), newSide("b")
		meet(t, 0, a, b)
		mine, theirs := b.address(0, "a")
		if again, echo := b.address(after, "a"); (again == mine) != alive || (echo == theirs) != alive {
			t.Errorf("after %v: %d of %d", after, again, mine)
		}
	}
	a, b := newSide("a"), newSide("b")
	meet(t, 0, a, b)
	for after, alive := range map[time.Duration]bool{life - 1: true, life: false} {
		if _, _, takes := b.report(after, "a"); takes != alive {
			t.Errorf("after %v: reports are taken: %v", after, takes)
		}
	}
}
