// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/ownership"
)

func listen(t *testing.T, name string, keys ...[]byte) (*Link, chan ownership.Message) {
	t.Helper()
	l, err := Listen(Options{Name: name, Keys: keys, Listen: netip.MustParseAddrPort("127.0.0.1:0"), Life: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	heard, ended := make(chan ownership.Message, 100), make(chan struct{})
	go func() { defer close(ended); _ = l.Receive(Ears{Heartbeat: func(m ownership.Message) { heard <- m }}) }()
	t.Cleanup(func() { l.Close(); <-ended })
	return l, heard
}

func await(t *testing.T, l *Link, counter string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); l.Counters()[counter] == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s stays 0: %v", counter, l.Counters())
		}
	}
}

// Two agents meet within one heartbeat of each, with keys that are being exchanged.
func TestLinks(t *testing.T) {
	next := []byte("the next key....")
	a, heardA := listen(t, "a", key, next)
	b, heardB := listen(t, "b", next, key)
	a.SetPeers([]Peer{{"b", b.Addr()}})
	b.SetPeers([]Peer{{"a", a.Addr()}})
	b.Say(ownership.Message{From: "b", Able: true})
	await(t, a, "hello")
	a.Say(ownership.Message{From: "a", Able: true, VIPs: vips(MaxVIPs)})
	await(t, b, "accepted")
	b.Say(ownership.Message{From: "b", Able: true}) // as it does every 250 ms
	for _, heard := range []chan ownership.Message{heardA, heardB} {
		select {
		case m := <-heard:
			if !m.Able {
				t.Errorf("heard %+v", m)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("nothing is heard: %v, %v", a.Counters(), b.Counters())
		}
	}
}

// The longest heartbeat that an agent sends arrives whole.
func TestTheLongestHeartbeat(t *testing.T) {
	long := strings.Repeat("a", maxName)
	a, _ := listen(t, long, key)
	b, heard := listen(t, "b", key)
	a.SetPeers([]Peer{{"b", b.Addr()}})
	b.SetPeers([]Peer{{long, a.Addr()}})
	say := func() {
		b.Say(ownership.Message{From: "b", Able: true})
		a.Say(ownership.Message{From: long, Able: true, VIPs: sixes(MaxVIPs)})
	}
	for end := time.Now().Add(time.Minute); ; say() {
		select {
		case m := <-heard:
			if len(m.VIPs) == MaxVIPs { // before they have met, addresses of IPv6 are left out
				return
			}
		case <-time.After(5 * time.Millisecond):
			if time.Now().After(end) {
				t.Fatalf("not heard: %v, %v", a.Counters(), b.Counters())
			}
		}
	}
}

func TestStrangersAreCounted(t *testing.T) {
	a, heard := listen(t, "a", key)
	stranger, _ := listen(t, "b", []byte("not the same key"))
	stranger.SetPeers([]Peer{{"a", a.Addr()}})
	stranger.Say(ownership.Message{From: "b", Able: true})
	await(t, a, "bad_tag")
	c, err := net.Dial("udp4", a.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	await(t, a, "too_short")
	if len(heard) != 0 {
		t.Errorf("heard %+v", <-heard)
	}
}

func TestKeysAreChecked(t *testing.T) {
	for _, c := range []struct {
		keys [][]byte
		want string
	}{
		{nil, "heartbeat key: none is given"},
		{[][]byte{[]byte("short")}, "heartbeat key 1 has 5 bytes, at least 16 are needed"},
		{[][]byte{key, nil}, "heartbeat key 2 has 0 bytes, at least 16 are needed"},
	} {
		l, err := Listen(Options{Name: "a", Keys: c.keys, Listen: netip.MustParseAddrPort("127.0.0.1:0")})
		if err == nil {
			l.Close()
			t.Errorf("%q were taken", c.keys)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.keys, err, c.want)
		}
	}
}

// Loads go in as many datagrams as they need, to the one that is meant, when it is heard; what cannot be sent is counted.
func TestReportsAreCounted(t *testing.T) {
	a, _ := listen(t, "a", key)
	b, heard := listen(t, "b", key)
	other := Peer{"c", netip.MustParseAddrPort("127.0.0.1:9")}
	a.SetPeers([]Peer{other, {"b", b.Addr()}})
	b.SetPeers([]Peer{{"a", a.Addr()}})
	for met := false; !met; { // until the sessions are open both ways
		a.Say(ownership.Message{From: "a", Able: true})
		b.Say(ownership.Message{From: "b", Able: true})
		select {
		case <-heard:
			met = a.Counters()["accepted"] > 0
		case <-time.After(5 * time.Millisecond):
		}
	}
	all := make([]loads.Load, 2*MaxLoads+1)
	for i := range all {
		all[i].Server = netip.MustParseAddrPort("192.0.2.1:80")
	}
	for _, c := range []struct {
		to           string
		n            int
		sent, failed uint64
	}{{"b", 0, 0, 0}, {"b", 1, 1, 0}, {"b", len(all), 3, 0}, {"c", 1, 0, 0}, {"d", 1, 0, 0}} {
		before := a.Counters()
		a.Report(c.to, all[:c.n])
		after := a.Counters()
		if sent, failed := after[reportsSent]-before[reportsSent], after[sendFailed]-before[sendFailed]; sent != c.sent || failed != c.failed {
			t.Errorf("%d loads for %s: %d sent, %d failed, want %d and %d", c.n, c.to, sent, failed, c.sent, c.failed)
		}
	}
}
