// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// ownNetwork gives the rest of the test a network namespace of its own, with an interface lo of index 1.
func ownNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
}

// atWork is the program of every link, by the name of its pin.
func atWork(t *testing.T, n *Node) map[string]link.Info {
	t.Helper()
	pins, err := n.pins()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]link.Info{}
	for _, p := range pins {
		l, err := link.LoadPinnedLink(p.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		info, err := l.Info()
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		all[filepath.Base(p.path)] = link.Info{ID: info.ID, Program: info.Program}
	}
	return all
}

// another process opens what one has pinned.
func another(t *testing.T, before *Node) *Node {
	t.Helper()
	before.Close()
	n, err := Open(Options{Root: before.root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

func attachedNode(t *testing.T) *Node {
	t.Helper()
	n := openTest(t, Options{})
	ownNetwork(t)
	for _, err := range []error{n.AttachClient(1, Uplink), n.AttachServer(1, Uplink)} {
		if err != nil {
			t.Fatalf("%+v", err)
		}
	}
	return n
}

// C-72: an upgrade runs the programs of one version or those of the other.
func TestExchangeIsAllOrNothing(t *testing.T) {
	n := attachedNode(t)
	first := atWork(t, n)
	if len(first) != 4 {
		t.Fatalf("at work: %v", first)
	}
	n = another(t, n) // the kernel refuses one of its programs
	for _, spec := range n.specs {
		if p := spec.Programs["crab_server_out"]; p != nil {
			p.Instructions = asm.Instructions{asm.Return()} // of a register that holds nothing
		}
	}
	if err := n.Exchange(); err == nil || !strings.Contains(err.Error(), "crab_server_out") || !strings.Contains(err.Error(), "stay at work") {
		t.Errorf("a program that cannot be loaded: %v", err)
	}
	if now := atWork(t, n); !maps.Equal(now, first) {
		t.Errorf("at work %v, want those of before: %v", now, first)
	}

	n = another(t, n) // one cannot be put into its place, after others were
	odd, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter, License: "MIT", Instructions: asm.Instructions{asm.LoadImm(asm.R0, 0, asm.DWord), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	n.loaded["crab_server_out"] = odd
	if err := n.Exchange(); err == nil || !strings.Contains(err.Error(), "1:server:0:egress:crab_server_out") || strings.Contains(err.Error(), "not kept") {
		t.Errorf("a program that cannot be exchanged: %v", err)
	}
	if now := atWork(t, n); !maps.Equal(now, first) {
		t.Errorf("at work %v, want those of before: %v", now, first)
	}

	n = another(t, n)
	if err := n.Exchange(); err != nil {
		t.Fatalf("%+v", err)
	}
	second := atWork(t, n)
	for place, was := range first {
		if second[place].ID != was.ID || second[place].Program == was.Program {
			t.Errorf("%s: link and program %v, were %v: want the same link and another program", place, second[place], was)
		}
	}
}

// sixAtWork are the IPv6 programs that those of IPv4 go to.
func sixAtWork(t *testing.T, n *Node) map[string]uint32 {
	t.Helper()
	all := map[string]uint32{}
	for name, at := range programs.SixEntries {
		var id uint32
		if err := n.maps[at.Map].Lookup(at.Entry, &id); err == nil {
			all[name] = id
		}
	}
	return all
}

// While an upgrade is refused, VIPs of IPv6 are written and the programs of the former version serve them; where it
// served none, they are refused.
func TestIPv6WhileTheExchangeFails(t *testing.T) {
	v := VIP{VIPKey: VIPKey{at("2001:db8::1"), 80}, Roles: RoleClient}
	for _, had := range []bool{true, false} {
		n := attachedNode(t)
		if had {
			must(t, n.UseIPv6())
		}
		first := sixAtWork(t, n)
		n = another(t, n)
		for _, spec := range n.specs {
			if p := spec.Programs["crab_server_out"]; p != nil {
				p.Instructions = asm.Instructions{asm.Return()}
			}
		}
		if err := n.Exchange(); err == nil {
			t.Fatal("a program that cannot be loaded is exchanged")
		}
		if err := n.SetVIP(v); (err == nil) != had {
			t.Errorf("IPv6 before %v: %v", had, err)
		}
		if now := sixAtWork(t, n); !maps.Equal(now, first) || (len(now) > 0) != had {
			t.Errorf("IPv6 before %v: at work %v, were %v", had, now, first)
		}
	}
}

// A part that this version does not have is taken away, and its program let go of.
func TestExchangeDropsWhatIsGone(t *testing.T) {
	n := attachedNode(t)
	pin := filepath.Join(n.root, linkFolder, "1:server:0:ingress:crab_server_")
	kept := filepath.Join(n.root, programFolder, "crab_server_")
	if err := os.Rename(pin+"in", pin+"gone"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(kept+"in", kept+"gone"); err != nil {
		t.Fatal(err)
	}
	n = another(t, n)
	if err := n.Exchange(); err != nil {
		t.Fatalf("%+v", err)
	}
	for _, path := range []string{pin + "gone", kept + "gone"} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	if err := n.AttachServer(1, Uplink); err != nil {
		t.Fatal(err)
	}
	if now := atWork(t, n); len(now) != 4 {
		t.Errorf("at work %v", now)
	}
}
