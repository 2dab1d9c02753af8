//go:build cluster

// SPDX-License-Identifier: Apache-2.0

package mainjob

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

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
	pids := harness.PodProcesses("", name)
	if len(pids) < 2 {
		return fmt.Errorf("found %d processes %s; want at least 2 to kill one", len(pids), name)
	}
	return syscall.Kill(pids[0], syscall.SIGKILL)
}
