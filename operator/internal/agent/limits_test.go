// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/heartbeat"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// The last value that an option may have is taken.
func TestOptionsAtTheirLimits(t *testing.T) {
	good := []string{"--node=node-a", "--node-ip=192.0.2.1", "--namespace=bobtail-system", "--vip-pool=192.0.2.8/29"}
	for _, c := range []struct {
		args []string
		want bool
	}{
		{[]string{"--heartbeat-port=1"}, true}, {[]string{"--heartbeat-port=65535"}, true}, {[]string{"--heartbeat-port=65536"}, false},
		{[]string{"--connects-port=0"}, true}, {[]string{"--connects-port=65535"}, true},
		{[]string{"--idle-timeout=" + minIdle.String()}, true}, {[]string{"--idle-timeout=" + (minIdle - 1).String()}, false},
		{[]string{"--idle-timeout=" + maxIdle.String()}, true}, {[]string{"--idle-timeout=" + (maxIdle + 1).String()}, false},
		{[]string{"--option-kind=254", "--option-exid=1"}, true}, {[]string{"--option-kind=254", "--option-exid=65534"}, true},
		{[]string{"--option-kind=0"}, false},
	} {
		if _, err := ParseOptions(append(slices.Clone(good), c.args...), "1"); (err == nil) != c.want {
			t.Errorf("%v: %v", c.args, err)
		}
	}
	for _, c := range [][2]uint{{256, 1}, {255, 65535}, {0, 1}, {254, 65536}} {
		if err := (&Options{}).wire(c[0], c[1]); err == nil {
			t.Errorf("kind %d, experiment %d", c[0], c[1])
		}
	}
}

// A key of the least length is taken, a shorter one of either name is refused; without a present key there is none.
func TestLengthsOfKeys(t *testing.T) {
	least, short := bytes.Repeat([]byte{1}, heartbeat.MinKey), bytes.Repeat([]byte{1}, heartbeat.MinKey-1)
	for _, c := range []struct {
		name              string
		current, previous []byte
		want              int
		fails             bool
	}{
		{"none", nil, nil, 0, false}, {"only the former", nil, least, 0, false}, {"one", least, nil, 1, false}, {"both", least, least, 2, false},
		{"a short one", short, nil, 0, true}, {"a short former one", least, short, 0, true},
	} {
		keys, err := keysOf(map[string][]byte{keyCurrent: c.current, keyPrevious: c.previous})
		if len(keys) != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %d keys, %v", c.name, len(keys), err)
		}
	}
}

// A text as long as the status holds stays as it is; a longer one ends with an ellipsis, and is as long.
func TestShortTexts(t *testing.T) {
	most := strings.Repeat("ä", v1alpha1.MaxNodeMessage)
	if got := short(most); got != most {
		t.Errorf("%d characters became %d", len([]rune(most)), len([]rune(got)))
	}
	if got := []rune(short(most + "x")); len(got) != v1alpha1.MaxNodeMessage || got[len(got)-1] != '…' {
		t.Errorf("%d characters, the last %q", len(got), got[len(got)-1])
	}
}

// tellAgain after it was told, to the moment, a reason is told again.
func TestToldAgainToTheMoment(t *testing.T) {
	const counter = "client_syn_no_space"
	start := time.Unix(1000, 0)
	for after, want := range map[time.Duration]int{tellAgain - 1: 0, tellAgain: 1} {
		f := &fallBacks{}
		f.news(start, map[string]uint64{counter: 1}, false)
		f.news(start, map[string]uint64{counter: 2}, false)
		if got := f.news(start.Add(after), map[string]uint64{counter: 3}, false); len(got) != want {
			t.Errorf("counted, after %v: %q", after, got)
		}
		who := &fallen{}
		who.news(start.Add(-time.Second), nil, false)
		who.news(start, []redirect.FellBack{fellTo(dialled, "10.0.0.1", counter, 0)}, false)
		if got := who.news(start.Add(after), []redirect.FellBack{fellTo(dialled, "10.0.0.1", counter, 0)}, false); len(got) != want {
			t.Errorf("who, after %v: %v", after, got)
		}
	}
}

// A VIP that nobody knows hides no other's event.
func TestStrangersHideNoEvent(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	r := newReporter("node-a", fakeClient(t), recorder, func() (map[string]uint64, error) { return nil, nil })
	before := redirect.VIPKey{Addr: netip.MustParseAddr("192.0.2.0"), Port: 80}
	all := []redirect.FellBack{fellTo(before, "10.0.0.1", "client_syn_no_space", 0), fellTo(dialled, "10.0.0.1", "client_syn_no_space", 0)}
	r.fellBack = func() ([]redirect.FellBack, error) { return all, nil }
	o := observed{services: map[redirect.VIPKey]serviceRef{dialled: {types.NamespacedName{Namespace: "shop", Name: "cart"}, "u1"}}}
	now := time.Unix(1000, 0)
	r.fallen.news(now, nil, false)
	if r.tellFallen(now.Add(time.Second), o); len(recorder.Events) != 1 {
		t.Errorf("%d events, want one", len(recorder.Events))
	}
	r.fellBack = func() ([]redirect.FellBack, error) { return all, errors.New("no map") }
	if r.tellFallen(now.Add(2*tellAgain), o); len(recorder.Events) != 1 {
		t.Errorf("%d events where nothing is known", len(recorder.Events))
	}
}

// What was told already hides nothing that is new: addresses outside, and devices that fall back.
func TestToldThingsHideNoNews(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	r := newReporter("node-a", fakeClient(t), recorder, func() (map[string]uint64, error) { return nil, nil })
	told, news := outsideVIP{addr: netip.MustParseAddr("192.0.2.1")}, outsideVIP{addr: netip.MustParseAddr("192.0.2.2")}
	r.written.outside = []outsideVIP{told}
	if r.tellOutside([]outsideVIP{told, news}); len(recorder.Events) != 1 || !strings.Contains(<-recorder.Events, "192.0.2.2") {
		t.Error("not the one that is new")
	}
	device := func(name, reason string) v1alpha1.NodeDevice {
		return v1alpha1.NodeDevice{Name: name, Mode: v1alpha1.DeviceModeGeneric, Reason: reason}
	}
	r.written.status.Devices = []v1alpha1.NodeDevice{device("eth0", "veth")}
	o := observed{status: v1alpha1.NodeDataplaneStatus{Devices: []v1alpha1.NodeDevice{device("eth0", "veth"), device("eth1", ""), device("eth2", "bond")}}}
	if r.announce(o, r.object(o)); len(recorder.Events) != 1 || !strings.Contains(<-recorder.Events, "eth2") {
		t.Error("not the device that is new")
	}
}

// A VIP that has no servers here hides none that has.
func TestServedBehindOthers(t *testing.T) {
	p := loadPlan()
	empty := p.VIPs[2]
	empty.Addr, empty.Backends = netip.MustParseAddr("192.0.2.0"), nil
	p.VIPs = append([]crabplan.VIP{empty}, p.VIPs...)
	if got := servedHere(p, "a"); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// Only what there is of nodes that are silent, and of those that are mute, is said.
func TestWhyLoadsAreMissing(t *testing.T) {
	for _, c := range []struct {
		nodes        []string
		silent, mute bool
	}{{[]string{"a"}, false, true}, {[]string{"b"}, true, false}, {[]string{"a", "b"}, true, true}} {
		got := withoutLoads(loads.Silent{Servers: 1, Of: 2, Nodes: c.nodes}, map[string]bool{"a": true})
		if strings.Contains(got, "not heard") != c.silent || strings.Contains(got, "are heard and tell nothing") != c.mute {
			t.Errorf("%v: %s", c.nodes, got)
		}
	}
}

// Counted are as many as the programs hold, those that are needed first; one of both counts once.
func TestWatchedAreBounded(t *testing.T) {
	many := func(n int) (all []netip.AddrPort) {
		for i := range n {
			all = append(all, netip.MustParseAddrPort(fmt.Sprintf("10.0.%d.%d:80", i/256, i%256)))
		}
		return all
	}
	for _, c := range []struct{ needed, told, want int }{
		{0, 0, 0}, {2, 4, 4}, {redirect.MaxWatched, redirect.MaxWatched + 1, redirect.MaxWatched}, {redirect.MaxWatched + 3, 0, redirect.MaxWatched}, {0, redirect.MaxWatched + 1, redirect.MaxWatched},
	} {
		got := watched(many(c.needed), many(c.told))
		if len(got) != c.want || !slices.IsSortedFunc(got, netip.AddrPort.Compare) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("%+v: %d", c, len(got))
		}
	}
}

// What changes of a server's health is told, what stays is not; a server that is asked no more is forgotten.
func TestHealthThatChangesIsTold(t *testing.T) {
	p := newProber(netip.MustParseAddr("192.0.2.1"), redirect.Wire{})
	server := netip.MustParseAddrPort("192.0.2.2:80")
	told := func() bool {
		select {
		case <-p.changed:
			return true
		default:
			return false
		}
	}
	p.set([]netip.AddrPort{server}, nil)
	told()
	for i := 0; ; i++ {
		p.observe(server, redirect.UpCRAB, nil)
		if _, known := p.health(server); known {
			break
		}
		if told() || i > 10 {
			t.Fatalf("told, or not known, after %d answers", i+1)
		}
	}
	if !told() {
		t.Error("a server that is known now is not told of")
	}
	p.observe(server, redirect.UpCRAB, nil)
	p.observe(server, redirect.Down, errors.New("no socket"))
	if told() || p.failures() != 1 {
		t.Errorf("told of nothing new, or %d failures", p.failures())
	}
	for i := 0; ; i++ {
		p.observe(server, redirect.Down, nil)
		if s, _ := p.health(server); s == redirect.Down {
			break
		}
		if told() || i > 10 {
			t.Fatalf("told, or not down, after %d answers", i+1)
		}
	}
	if !told() {
		t.Error("a server that went down is not told of")
	}
}

// One that terminates keeps what is known of it, and is not asked.
func TestServersThatTerminateAreNotAsked(t *testing.T) {
	p := newProber(netip.MustParseAddr("192.0.2.1"), redirect.Wire{})
	server := netip.MustParseAddrPort("192.0.2.2:80")
	p.set([]netip.AddrPort{server}, nil)
	for range 10 {
		p.observe(server, redirect.Down, nil)
	}
	p.set(nil, []netip.AddrPort{server})
	if s, known := p.health(server); !known || s != redirect.Down {
		t.Errorf("%v %v", s, known)
	}
	asked := 0
	p.ask = func(context.Context, netip.AddrPort) (redirect.State, error) { asked++; return redirect.Down, nil }
	if p.round(t.Context()); asked != 0 {
		t.Errorf("one that terminates was asked %d times", asked)
	}
}

// A setting is read without its line end; one that is not there is empty.
func TestSettingsOfTheKernel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if got := sysctl(path); got != "" {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(path, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := sysctl(path); got != "1" {
		t.Errorf("%q", got)
	}
}
