// SPDX-License-Identifier: Apache-2.0

package leftovers

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
)

// pids lists all processes.
func pids() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, pid)
		}
	}
	return out, nil
}

// ours tells the cluster's processes by their control groups, which pods
// inherit, or by the mark in their environment.
func ours(st layout.State, pid int) bool {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err == nil && strings.Contains(string(groups), st.CgroupName()) {
		return true
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	want := Mark + "=" + st.Root
	for _, v := range strings.Split(string(env), "\x00") {
		if v == want {
			return true
		}
	}
	return false
}

// Processes maps the pids of a cluster's processes to their command lines.
func Processes(st layout.State) (map[string]string, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	items := map[string]string{}
	for _, pid := range all {
		if pid == os.Getpid() || !ours(st, pid) {
			continue
		}
		cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		text := strings.ReplaceAll(strings.TrimRight(string(cmd), "\x00"), "\x00", " ")
		items[strconv.Itoa(pid)] = text[:min(len(text), 120)]
	}
	return items, nil
}

// ourNamespaces lists the namespaces in which the cluster's processes live, and
// those that a mount keeps alive without any process.
func ourNamespaces(st layout.State) (map[string]string, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	items := map[string]string{}
	for _, pid := range all {
		if pid == os.Getpid() || !ours(st, pid) {
			continue
		}
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/ns/*", pid))
		for _, l := range links {
			if ns, err := os.Readlink(l); err == nil {
				items[ns] = ""
			}
		}
	}
	self, _ := filepath.Glob("/proc/self/ns/*")
	for _, l := range self {
		if ns, err := os.Readlink(l); err == nil {
			delete(items, ns)
		}
	}
	return items, nil
}
