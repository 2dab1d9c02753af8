// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// A program that ran after the clock was read makes no time negative.
func TestSinceIsNeverNegative(t *testing.T) {
	for _, c := range []struct {
		now, then uint64
		want      time.Duration
	}{{5, 3, 2}, {5, 5, 0}, {5, 6, 0}, {0, 1 << 63, 0}, {7, 0, 7}} {
		if got := since(c.now, c.then); got != c.want {
			t.Errorf("from %d to %d: %v, want %v", c.then, c.now, got, c.want)
		}
	}
	if err := aborted(ebpf.ErrIterationAborted); err != nil {
		t.Error(err)
	}
	if other := errors.New("x"); aborted(other) != other || aborted(nil) != nil {
		t.Error("another error is not told")
	}
}

// An ended connection lives to the end of one life, an open one of two; at the very moment both are there still.
func TestLivesToTheNanosecond(t *testing.T) {
	l := Lives{Idle: 100, Ended: 10, Pending: 30, Echo: 40, Crowded: 5}.complete()
	const now = 1000
	flow := func(ended FlowEnded, idle uint64) programs.Flow {
		return programs.Flow{Ended: uint8(ended), LastNs: now - idle}
	}
	for _, c := range []struct {
		name  string
		ended FlowEnded
		life  uint64 // the last moment
		l     Lives
		end   bool
	}{
		{"open", 0, 200, l, false}, {"half closed by the client", ClientFIN, 200, l, false}, {"half closed by the server", ServerFIN, 200, l, false},
		{"closed by both", ClientFIN | ServerFIN, 10, l, true}, {"reset", Reset, 10, l, true}, {"reset after one end", Reset | ClientFIN, 10, l, true},
		{"open in a crowd", 0, 100, l.crowded(), false}, {"reset in a crowd", Reset, 5, l.crowded(), true},
		{"open and due", 0, 100, l.due(), false}, {"reset and due", Reset, 10, l.due(), true},
	} {
		for more, want := range map[uint64]bool{0: false, 1: true} {
			if gone, ended := over(flow(c.ended, c.life+more), now, c.l); gone != want || ended != c.end {
				t.Errorf("%s, %d ns: gone %v, ended %v", c.name, c.life+more, gone, ended)
			}
		}
	}
	for _, c := range []struct {
		name string
		ends uint64
		life uint64
	}{
		{"open", 0, 200}, {"closed by the server", hashedServerFIN, 200}, {"closed by the client", hashedClientFIN, 200},
		{"closed by both", hashedServerFIN | hashedClientFIN, 10}, {"reset", hashedReset, 10}, {"all of it", hashedEnds, 10},
	} {
		for more, want := range map[uint64]bool{0: false, 1: true} {
			if got := hashedOver(programs.Echo{LastNs: (now - c.life - more) | c.ends}, now, l); got != want {
				t.Errorf("by hash, %s, %d ns: gone %v", c.name, c.life+more, got)
			}
		}
	}
}

// A relayed connection whose handshake never ended lives as long as a SYN that nobody answers.
func TestLivesOfRelays(t *testing.T) {
	l := Lives{Idle: 100, Ended: 10, Pending: 30, Echo: 40, Crowded: 5}.complete()
	const now = 1000
	for _, c := range []struct {
		name   string
		opened uint8
		ended  FlowEnded
		life   uint64
	}{
		{"open", 1, 0, 200}, {"never opened", 0, 0, 30}, {"half closed", 1, ServerFIN, 200}, {"half closed and never opened", 0, ClientFIN, 30},
		{"closed", 1, ClientFIN | ServerFIN, 10}, {"reset", 1, Reset, 10}, {"refused", 0, Reset, 10},
	} {
		for more, want := range map[uint64]bool{0: false, 1: true} {
			if got := relayOver(programs.Relay{Opened: c.opened, Ended: uint8(c.ended), LastNs: now - c.life - more}, now, l); got != want {
				t.Errorf("%s, %d ns: gone %v", c.name, c.life+more, got)
			}
		}
	}
}

// What is said stays, what is not gets its default; a crowd shortens lives, and lengthens none.
func TestLivesAreCompleted(t *testing.T) {
	if got, want := (Lives{}).complete(), (Lives{Idle: DefaultIdle, Ended: DefaultEnded, Pending: DefaultPending, Echo: DefaultEcho, Crowded: DefaultCrowded, late: DefaultIdle}); got != want {
		t.Errorf("%+v", got)
	}
	said := Lives{Idle: 1, Ended: 2, Pending: 3, Echo: 4, Crowded: 5}
	if got, want := said.complete(), (Lives{Idle: 1, Ended: 2, Pending: 3, Echo: 4, Crowded: 5, late: 1}); got != want {
		t.Errorf("%+v", got)
	}
	if got := said.complete().crowded(); got.Ended != 2 || got.Pending != 3 || got.late != 0 {
		t.Errorf("%+v", got)
	}
	if got := (Lives{Idle: 10, Ended: 20, Pending: 30, Crowded: 5}).complete().crowded(); got.Ended != 5 || got.Pending != 5 || got.Idle != 10 {
		t.Errorf("%+v", got)
	}
}

// Each of what may not be is refused, and what lies just within is taken.
func TestAddressesOfServers(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.1": "", "169.254.1.1": "", "2001:db8::1": "", "fd00::1": "", "255.255.255.254": "",
		"::ffff:10.0.0.1": "in IPv6 form: write 10.0.0.1", "fe80::1": "on one link only", "fd00::1%eth0": "on one link only",
		"0.0.0.0": "no address of a server", "::": "no address of a server", "127.0.0.1": "no address of a server", "::1": "no address of a server",
		"224.0.0.1": "no address of a server", "ff02::1": "no address of a server", "255.255.255.255": "no address of a server",
	} {
		err := usableAddr("f", netip.MustParseAddr(address))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}

func TestBoundsOfAVIP(t *testing.T) {
	servers := func(n int) (all []Backend) {
		for i := range n {
			all = append(all, Backend{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), State: Draining})
		}
		return all
	}
	for name, c := range map[string]struct {
		change func(*VIP)
		field  string
	}{
		"the most servers":      {func(v *VIP) { v.Backends = servers(MaxBackends) }, ""},
		"one server more":       {func(v *VIP) { v.Backends = servers(MaxBackends + 1) }, "backends"},
		"all roles":             {func(v *VIP) { v.Roles = allRoles }, ""},
		"one role more":         {func(v *VIP) { v.Roles = allRoles + 1 }, "roles"},
		"the last policy":       {func(v *VIP) { v.Policy = maxPolicy }, ""},
		"reports that live now": {func(v *VIP) { v.ReportLife = 0 }, ""},
		"the last port":         {func(v *VIP) { v.Port = 65535 }, ""},
		"no prefix":             {func(v *VIP) { v.Prefixes = []netip.Prefix{{}} }, "prefixes[0]"},
		"a prefix in IPv6 form": {func(v *VIP) { v.Prefixes = append(v.Prefixes, netip.MustParsePrefix("::ffff:10.0.0.0/104")) }, "prefixes[1]"},
		"no servers":            {func(v *VIP) { v.Backends = nil }, ""},
		"the third is twice":    {func(v *VIP) { v.Backends = append(servers(2), servers(1)...) }, "backends[2].addr"},
	} {
		v := goodVIP()
		c.change(&v)
		var field *FieldError
		if err := v.Validate(); (err == nil) != (c.field == "") || err != nil && (!errors.As(err, &field) || field.Field != c.field) {
			t.Errorf("%s: %v, want %q", name, err, c.field)
		}
	}
}

// Turns keep the weights' ratio, in the fewest slots that do, and leave nobody out.
func TestTurnsKeepTheRatio(t *testing.T) {
	for _, c := range []struct {
		weights, want []int
	}{
		{[]int{1}, []int{1}}, {[]int{7}, []int{1}}, {[]int{2, 4}, []int{1, 2}}, {[]int{3, 5}, []int{3, 5}}, {[]int{6, 9, 15}, []int{2, 3, 5}},
		{[]int{512, 511, 1}, []int{512, 511, 1}}, {[]int{1000, 1000, 1}, []int{511, 511, 1}}, {[]int{65535, 1}, []int{1023, 1}},
	} {
		total, sum := 0, 0
		for _, w := range c.weights {
			total += w
		}
		weights := append([]int{}, c.weights...)
		got := reduceWeights(weights, total)
		for i, w := range weights {
			sum += w
			if w != c.want[i] {
				t.Errorf("%v: %v, want %v", c.weights, weights, c.want)
				break
			}
		}
		if got != sum {
			t.Errorf("%v: sum %d, want %d", c.weights, got, sum)
		}
	}
	for servers, want := range map[int]int{1: 1024, 512: 1024, 513: 1026, 1000: 2000, programs.ScheduleSlots - 1024: 1024, programs.ScheduleSlots - 100: 100} {
		if got := scheduleAim(servers); got != want {
			t.Errorf("%d servers: %d slots, want %d", servers, got, want)
		}
	}
	for _, c := range [][3]int{{6, 4, 2}, {4, 6, 2}, {7, 3, 1}, {5, 5, 5}, {9, 0, 9}, {0, 9, 9}} {
		if got := gcd(c[0], c[1]); got != c[2] {
			t.Errorf("gcd(%d, %d) = %d", c[0], c[1], got)
		}
	}
}
