// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// insideVariable tells the process of a test that it is in namespaces of its own.
const insideVariable = "BOBTAIL_TEST_INSIDE"

// inside runs the test once more as a process with a network and mounts of its own,
// and says whether this is that process: the program changes both for all threads.
func inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		return true
	}
	privileged.Need(t, "loads eBPF programs in a network namespace")
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

func ip(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

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
	until(t, func() bool { return s.count(line) > 0 }, func() string { return "not said: " + line + "\n" + s.text.String() })
}

func until(t *testing.T, ok func() bool, why func() string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(why())
		}
	}
}

// bed is a host with an uplink, and the program with a file of its own.
type bed struct {
	t          *testing.T
	root, path string
	out        *said
	stop       func() error
}

func newBed(t *testing.T) *bed {
	ip(t, "link", "set", "lo", "up")
	ip(t, "link", "add", "up0", "type", "veth", "peer", "name", "wire0")
	for _, device := range []string{"up0", "wire0"} {
		ip(t, "link", "set", device, "up")
	}
	ip(t, "addr", "add", "10.0.0.1/24", "dev", "up0")
	fs := t.TempDir()
	if err := syscall.Mount("bpf", fs, "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(fs, 0) })
	return &bed{t: t, root: filepath.Join(fs, "node"), path: filepath.Join(t.TempDir(), "config.json")}
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
	until(b.t, func() bool { return b.out.count("ready\n") == 1 || len(ended) > 0 }, func() string { return "not ready" })
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
	if !inside(t) {
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
	until(t, func() bool { return b.holds(other, redirect.RoleBalance|redirect.RoleClient) }, func() string { return "the file is not followed" })
	if n := b.out.count("balancer on"); n != 1 {
		t.Errorf("told %d times of what did not change", n)
	}
	b.write(`{"devices":[{"name":"none"}]}`)
	b.out.await(t, "not applied: device none")
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
	until(t, func() bool { return len(b.show().VIPs) == 1 }, func() string { return "the next good file is not followed" })
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
	if !inside(t) {
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
	until(t, func() bool { return b.holds(vip, redirect.RoleBalance|redirect.RoleClient) }, func() string { return "owned, and not balanced" })
	other := configWith(balancedVIP(vip), balancedVIP(other))
	other.Announce = &Announce{Name: "b", Device: "up0", Listen: c.Announce.Listen, KeyFile: key}
	b.write(other)
	b.out.await(t, "not applied: announce: only peers can change")
	empty := configWith()
	empty.Announce = c.Announce
	b.write(empty)
	until(t, func() bool { return len(b.show().VIPs) == 0 }, func() string { return "not let go of" })
}
