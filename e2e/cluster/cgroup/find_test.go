// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const hybrid = `22 1 0:21 / / rw - ext4 /dev/sda rw
30 22 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:5 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,release_agent=/lib/agent,name=systemd
34 30 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
35 30 0:27 / /srv/again rw,relatime - cgroup cgroup rw,cpu,cpuacct
`

const unified = `22 1 0:21 / / rw - ext4 /dev/sda rw
30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
`

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, mountinfo, v2 string
		v1                  map[string]string
		hybrid              bool
	}{
		{"version 1 with an empty version 2 beside it", hybrid, "/sys/fs/cgroup/unified", map[string]string{
			"cpu,cpuacct": "/sys/fs/cgroup/cpu,cpuacct", "memory": "/sys/fs/cgroup/memory", "name=systemd": "/sys/fs/cgroup/systemd",
		}, true},
		{"version 2 alone", unified, "/sys/fs/cgroup", map[string]string{}, false},
		{"none", "22 1 0:21 / / rw - ext4 /dev/sda rw\n", "", map[string]string{}, false},
	} {
		m, err := parse(strings.NewReader(c.mountinfo))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if m.V2 != c.v2 || m.Hybrid() != c.hybrid || len(m.V1) != len(c.v1) {
			t.Errorf("%s: got %+v, hybrid %v", c.name, m, m.Hybrid())
		}
		for h, path := range c.v1 {
			if m.V1[h] != path {
				t.Errorf("%s: hierarchy %s is at %q, want %q", c.name, h, m.V1[h], path)
			}
		}
	}
	if _, err := parse(strings.NewReader("not a mount\n")); err == nil {
		t.Error("a damaged line must be an error, not an empty result")
	}
}

func TestParseBound(t *testing.T) {
	got, err := parseBound("#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t3\t1\nhugetlb\t0\t1\t1\n")
	if err != nil || !got["cpu"] || got["hugetlb"] || len(got) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parseBound("cpu 1\n"); err == nil {
		t.Error("a short line must be an error")
	}
}

func TestRemoveTakesTheWholeTreeAndNothingElse(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"mine/a/pods/x", "mine/b", "other"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := Remove(filepath.Join(root, "mine"), time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "mine")); !os.IsNotExist(err) {
		t.Errorf("mine is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "other")); err != nil {
		t.Errorf("other was touched: %v", err)
	}
	if err := Remove(filepath.Join(root, "mine"), time.Second); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
}

func TestRemoveReportsWhatStays(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "busy"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Remove(root, 60*time.Millisecond); err == nil {
		t.Error("a folder that cannot be removed must be an error")
	}
}
