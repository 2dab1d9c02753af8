// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// PodProcesses finds processes of that executable name which run in a pod, in the
// one of that UID unless it is empty; the embedded cluster's nodes are on this machine.
func PodProcesses(uid, name string) []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		exe, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue
		}
		cgroup, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		program, _, _ := strings.Cut(string(exe), "\x00")
		if err != nil || filepath.Base(program) != name || !inPod(string(cgroup), uid) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// inPod looks for the folder of a pod; systemd writes UIDs with underscores.
func inPod(cgroup, uid string) bool {
	return strings.Contains(cgroup, "pod"+uid) || strings.Contains(cgroup, "pod"+strings.ReplaceAll(uid, "-", "_"))
}
