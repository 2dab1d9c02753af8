// SPDX-License-Identifier: Apache-2.0

package leftovers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
)

func TestDiff(t *testing.T) {
	base := func() Snapshot {
		return Snapshot{"mount": {"/ ext4": "/dev/sda ", "/run/netns/theirs nsfs": "nsfs "}, "sysctl": {"kernel/panic": "0", "vm/x": "1"}, "link": {"lo": virtual, "veth1": virtual, "eth0": "device"},
			"address and route": {"-4 route: 10.9.0.0/24 dev veth1 scope link": ""}, "cgroup": {"/sys/fs/cgroup/session-3": ""}}
	}
	for _, c := range []struct {
		name   string
		change func(Snapshot)
		want   string
	}{
		{"nothing", func(Snapshot) {}, ""},
		{"a link stayed", func(s Snapshot) { s["link"]["veth9"] = virtual }, "link: veth9 added virtual"},
		{"K-37: somebody else's namespace is gone, and what was in it", func(s Snapshot) {
			delete(s["mount"], "/run/netns/theirs nsfs")
			delete(s["link"], "veth1")
			delete(s["address and route"], "-4 route: 10.9.0.0/24 dev veth1 scope link")
			delete(s["cgroup"], "/sys/fs/cgroup/session-3")
		}, ""},
		{"a device is gone", func(s Snapshot) { delete(s["link"], "eth0") }, "link: eth0 removed device"},
		{"a route is gone and its link is not", func(s Snapshot) { delete(s["address and route"], "-4 route: 10.9.0.0/24 dev veth1 scope link") },
			"address and route: -4 route: 10.9.0.0/24 dev veth1 scope link removed "},
		{"a mount is gone", func(s Snapshot) { delete(s["mount"], "/ ext4") }, "mount: / ext4 removed /dev/sda "},
		{"a second mount on the same place", func(s Snapshot) { s["mount"]["/ ext4"] = "/dev/sda /dev/sda " }, `mount: / ext4 changed from "/dev/sda " to "/dev/sda /dev/sda "`},
		{"a module brought a setting", func(s Snapshot) { s["sysctl"]["net/new"] = "1" }, ""},
		{"a setting is gone", func(s Snapshot) { delete(s["sysctl"], "vm/x") }, "sysctl: vm/x removed 1"},
		{"a setting changed", func(s Snapshot) { s["sysctl"]["kernel/panic"] = "10" }, `sysctl: kernel/panic changed from "0" to "10"`},
	} {
		after := base()
		c.change(after)
		items := Diff(base(), after)
		switch {
		case c.want == "" && len(items) != 0:
			t.Errorf("%s: %v", c.name, items)
		case c.want != "" && (len(items) != 1 || items[0].String() != c.want):
			t.Errorf("%s: got %q, want %q", c.name, items, c.want)
		}
	}
}

func TestSnapshotSurvivesTheFile(t *testing.T) {
	st, err := layout.OpenState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := Take(st)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s.json")
	if err := s.Write(path); err != nil {
		t.Fatal(err)
	}
	back, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if items := Diff(s, back); len(items) != 0 {
		t.Errorf("differs after reading back: %v", items)
	}
	if got := back["link"]["lo"]; got != virtual {
		t.Errorf("loopback is a link of kind %q, want %q: what K-37 leaves out is told by it", got, virtual)
	}
	if len(back["sysctl"]) < 100 || len(back["mount"]) == 0 || len(back["link"]) == 0 {
		t.Errorf("a snapshot this empty cannot show leftovers: %d settings, %d mounts, %d links", len(back["sysctl"]), len(back["mount"]), len(back["link"]))
	}
}

// A process that bears the mark of this state folder is found; the same mark
// of another folder is not.
func TestOnlyMarkedProcessesAreOurs(t *testing.T) {
	mine, _ := layout.OpenState(t.TempDir())
	other, _ := layout.OpenState(t.TempDir())
	cmd := exec.Command("sleep", "30")
	cmd.Env = append(os.Environ(), Mark+"="+mine.Root)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	pid := strconv.Itoa(cmd.Process.Pid)
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		got, err := Processes(mine)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := got[pid]; ok {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("process %s was not found: %v", pid, got)
		}
	}
	got, err := Processes(other)
	if err != nil || len(got) != 0 {
		t.Errorf("another cluster claims %v, %v", got, err)
	}
}
