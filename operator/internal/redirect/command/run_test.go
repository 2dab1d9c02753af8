// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/test/netns"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// said is what the program prints.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) count(line string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), line)
}

func (s *said) await(t *testing.T, line string) {
	t.Helper()
	netns.Until(t, func() bool { return s.count(line) > 0 }, func() string { return "not said: " + line + "\n" + s.text.String() })
}

// bed is a host with an uplink, and the program with a file of its own.
type bed struct {
	t          *testing.T
	root, path string
	out        *said
	stop       func() error
}

func newBed(t *testing.T) *bed {
	netns.Uplink(t)
	return &bed{t: t, root: filepath.Join(netns.BPF(t), "node"), path: filepath.Join(t.TempDir(), "config.json")}
}

// write replaces the file, with a time of its own.
func (b *bed) write(c any) {
	b.t.Helper()
	raw, ok := c.(string)
	if !ok {
		text, err := json.Marshal(c)
		if err != nil {
			b.t.Fatal(err)
		}
		raw = string(text)
	}
	before := modified(b.path)
	for modified(b.path).Equal(before) {
		if err := os.WriteFile(b.path+".new", []byte(raw), 0o600); err != nil {
			b.t.Fatal(err)
		}
		if err := os.Rename(b.path+".new", b.path); err != nil {
			b.t.Fatal(err)
		}
	}
}

// start runs the program until it is ready.
func (b *bed) start() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	b.out = &said{}
	c := New()
	c.SetArgs([]string{"run", "--root=" + b.root, "--config=" + b.path})
	c.SetOut(b.out)
	go func() { ended <- c.ExecuteContext(ctx) }()
	b.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	b.t.Cleanup(func() { _ = b.stop() })
	netns.Until(b.t, func() bool { return b.out.count("ready\n") == 1 || len(ended) > 0 }, func() string { return "not ready" })
	if len(ended) > 0 {
		b.t.Fatal(<-ended)
	}
}

// show is the program's own look at the state.
func (b *bed) show() Shown {
	b.t.Helper()
	var out bytes.Buffer
	c := New()
	c.SetArgs([]string{"show", "--flows", "--root=" + b.root})
	c.SetOut(&out)
	if err := c.Execute(); err != nil {
		b.t.Fatal(err)
	}
	var s Shown
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bed) holds(addr netip.Addr, roles redirect.Role) bool {
	return slices.ContainsFunc(b.show().VIPs, func(v redirect.VIP) bool { return v.Addr == addr && v.Roles == roles })
}

func balancedVIP(addr netip.Addr) redirect.VIP {
	v := redirect.VIP{Roles: redirect.RoleBalance | redirect.RoleClient, Backends: []redirect.Backend{{Addr: netip.MustParseAddr("10.0.0.9"), State: redirect.UpCRAB, Weight: 1}}}
	v.Addr, v.Port = addr, 80
	return v
}

func configWith(vips ...redirect.VIP) Config {
	return Config{Sizes: redirect.Sizes{}, VIPs: vips, Devices: []Device{{Name: "up0", Placement: redirect.Uplink,
		Duties: []redirect.Duty{redirect.DutyBalancer, redirect.DutyClient, redirect.DutyServer}}}}
}

// The host holds what the file says, follows it, and keeps what it has when the
// file is of no use; what it made stays at work when it stops, and can be removed.
func TestRunFollowsItsFile(t *testing.T) {
	if !netns.Inside(t) {
		return
	}
	b := newBed(t)
	b.write(configWith(balancedVIP(vip)))
	b.start()
	if n := b.out.count("balancer on up0: XDP Generic"); n != 1 {
		t.Errorf("told %d times how up0 balances", n)
	}
	if s := b.show(); !b.holds(vip, redirect.RoleBalance|redirect.RoleClient) || len(s.VIPs) != 1 || s.Flows != 0 || len(s.Attachments) == 0 {
		t.Errorf("%+v", s)
	}
	b.write(configWith(balancedVIP(vip), balancedVIP(other)))
	netns.Until(t, func() bool { return b.holds(other, redirect.RoleBalance|redirect.RoleClient) }, func() string { return "the file is not followed" })
	if n := b.out.count("balancer on"); n != 1 {
		t.Errorf("told %d times of what did not change", n)
	}
	absent := configWith(balancedVIP(vip), balancedVIP(other))
	absent.Devices = append(absent.Devices, Device{Name: "none", Placement: redirect.Pod, Duties: []redirect.Duty{redirect.DutyClient}})
	b.write(absent)
	b.out.await(t, "device none")
	b.write(`{`)
	b.out.await(t, "not applied: "+b.path)
	changed := configWith(balancedVIP(vip))
	changed.Balancers = &Balancers{Addresses: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.9:8470")}, KeyDir: t.TempDir()}
	b.write(changed)
	b.out.await(t, "not applied: balancers: cannot change while the program runs")
	announced := configWith(balancedVIP(vip))
	if !b.holds(other, redirect.RoleBalance|redirect.RoleClient) {
		t.Error("a file of no use took something away")
	}
	b.write(announced)
	netns.Until(t, func() bool { return len(b.show().VIPs) == 1 }, func() string { return "the next good file is not followed" })
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	if !b.holds(vip, redirect.RoleBalance|redirect.RoleClient) {
		t.Error("gone with the program")
	}
	c := New()
	c.SetArgs([]string{"remove", "--root=" + b.root})
	if err := c.Execute(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(b.root); !os.IsNotExist(err) {
		t.Errorf("after remove: %v", err)
	}
}

// C-60: a shared VIP is balanced by the host that owns it, which announces it and
// lets go of it at once when it is in the file no more.
func TestRunOwnsSharedVIPs(t *testing.T) {
	if !netns.Inside(t) {
		return
	}
	b := newBed(t)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("k", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := configWith(balancedVIP(vip))
	c.Announce = &Announce{Name: "a", Device: "up0", Listen: netip.MustParseAddrPort("10.0.0.1:9440"), KeyFile: key}
	b.write(c)
	b.start()
	b.out.await(t, "take "+vip.String())
	netns.Until(t, func() bool { return b.holds(vip, redirect.RoleBalance|redirect.RoleClient) }, func() string { return "owned, and not balanced" })
	other := configWith(balancedVIP(vip), balancedVIP(other))
	other.Announce = &Announce{Name: "b", Device: "up0", Listen: c.Announce.Listen, KeyFile: key}
	b.write(other)
	b.out.await(t, "not applied: announce: only peers can change")
	empty := configWith()
	empty.Announce = c.Announce
	b.write(empty)
	netns.Until(t, func() bool { return len(b.show().VIPs) == 0 }, func() string { return "not let go of" })
}
