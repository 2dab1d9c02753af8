//go:build cluster

// SPDX-License-Identifier: Apache-2.0

package mainjob

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// podProcesses finds processes of that executable name which run in a pod, i.e.
// below a cgroup of the embedded cluster; the nodes are on this machine.
func podProcesses(name string) []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		exe, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue
		}
		cgroup, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		program, _, _ := strings.Cut(string(exe), "\x00")
		if err != nil || filepath.Base(program) != name || !strings.Contains(string(cgroup), "pod") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stopped suspends the processes for that long; they run again afterwards.
func stopped(pids []int, d time.Duration) error {
	if len(pids) == 0 {
		return errors.New("found no process to stop in any pod")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return fmt.Errorf("stop pid %d: %w", pid, err)
		}
	}
	time.Sleep(d)
	for _, pid := range pids {
		// A kubelet may have replaced it meanwhile, because its probes failed.
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("continue pid %d: %w", pid, err)
		}
	}
	return nil
}

// killOne kills one pod process of that name without warning.
func killOne(name string) error {
	pids := podProcesses(name)
	if len(pids) < 2 {
		return fmt.Errorf("found %d processes %s; want at least 2 to kill one", len(pids), name)
	}
	return syscall.Kill(pids[0], syscall.SIGKILL)
}
