// SPDX-License-Identifier: Apache-2.0

package leftovers

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bobtail-dev/bobtail/e2e/cluster/cgroup"
	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
)

// mounts of the root mount namespace; those of namespaces die with them.
func mounts(layout.State) (map[string]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	items := map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		left, right, _ := strings.Cut(lines.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if len(l) > 4 && len(r) > 1 {
			items[l[4]+" "+r[0]] += r[1] + " "
		}
	}
	return items, lines.Err()
}

// virtual is the value of a link that no device is behind.
const virtual = "virtual"

func links(layout.State) (map[string]string, error) {
	const folder = "/sys/class/net"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	items := map[string]string{}
	for _, e := range entries {
		where, _ := os.Readlink(filepath.Join(folder, e.Name()))
		items[e.Name()] = map[bool]string{true: virtual, false: "device"}[strings.Contains(where, "/virtual/")]
	}
	return items, nil
}

// lines turns the output of a command into items; a command that is not
// installed cannot have been used either.
func lines(items map[string]string, prefix string, args ...string) error {
	if _, err := exec.LookPath(args[0]); err != nil {
		return nil
	}
	out, err := exec.Command(args[0], args[1:]...).Output()
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	section := ""
	for _, l := range strings.Split(string(out), "\n") {
		if strings.TrimSpace(l) == "" || strings.HasPrefix(l, "#") {
			continue
		}
		if !strings.HasPrefix(l, "\t") {
			section = l
		}
		items[prefix+section+" "+strings.TrimSpace(l)] = ""
	}
	return nil
}

func routes(layout.State) (map[string]string, error) {
	items := map[string]string{}
	for _, family := range []string{"-4", "-6"} {
		for _, what := range [][]string{{"rule"}, {"route", "show", "table", "all"}} {
			args := append([]string{"ip", family}, what...)
			if err := lines(items, strings.Join(args[1:3], " ")+": ", args...); err != nil {
				return nil, err
			}
		}
	}
	return items, nil
}

// rules covers nftables, which modern iptables writes to as well, and the old
// iptables tables where the kernel has any in use.
func rules(layout.State) (map[string]string, error) {
	items := map[string]string{}
	if err := lines(items, "nft: ", "nft", "--stateless", "list", "ruleset"); err != nil {
		return nil, err
	}
	for tables, save := range map[string]string{
		"/proc/net/ip_tables_names": "iptables-legacy-save", "/proc/net/ip6_tables_names": "ip6tables-legacy-save",
	} {
		if b, err := os.ReadFile(tables); err != nil || len(b) == 0 {
			continue
		}
		if err := lines(items, save+": ", save); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// cgroups lists the folders of all hierarchies. One in which somebody else's
// process lives is theirs: sessions and services come and go.
func cgroups(st layout.State) (map[string]string, error) {
	m, err := cgroup.Find()
	if err != nil {
		return nil, err
	}
	items := map[string]string{}
	for _, root := range append(m.V1Paths(), m.V2) {
		if root == "" {
			continue
		}
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil // vanished meanwhile
			}
			if path != root && !foreign(st, path) {
				items[path] = ""
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return items, nil
}

// controllers says which version of control groups holds each controller.
func controllers(layout.State) (map[string]string, error) {
	bound, err := cgroup.Bound()
	items := map[string]string{}
	for name, v1 := range bound {
		items[name] = map[bool]string{true: version1, false: "version 2 or unused"}[v1]
	}
	return items, err
}

const version1 = "version 1"

// HeldController says whether a version 1 hierarchy held a controller.
func HeldController(s Snapshot, name string) bool {
	return s["cgroup controller"][name] == version1
}

func foreign(st layout.State, dir string) bool {
	if strings.Contains(dir, st.CgroupName()) {
		return false
	}
	found := false
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() == "cgroup.procs" {
			b, _ := os.ReadFile(path)
			found = found || len(b) > 0
		}
		if found {
			return filepath.SkipAll
		}
		return nil
	})
	return found
}

// namespaces is where ip-netns keeps those that have a name.
const namespaces = "/run/netns"

// wellKnown are places where container software leaves things by default.
var wellKnown = []string{
	namespaces, "/run/containerd", "/run/runc", "/run/xtables.lock", "/run/flannel", "/var/run/kubernetes",
	"/var/lib/kubelet", "/var/lib/cni", "/var/lib/containerd", "/var/lib/etcd",
	"/var/log/pods", "/var/log/containers", "/etc/cni", "/opt/cni", "/etc/kubernetes",
}

func paths(layout.State) (map[string]string, error) {
	items := map[string]string{}
	for _, p := range wellKnown {
		if _, err := os.Lstat(p); err != nil {
			continue
		}
		items[p] = ""
		below, _ := filepath.Glob(p + "/*")
		for _, b := range below {
			items[b] = ""
		}
	}
	return items, nil
}
