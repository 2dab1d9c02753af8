// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Create makes a folder and its parents; making it again is no error.
func Create(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create cgroup %s (is the hierarchy mounted read-only?): %w", dir, err)
	}
	return nil
}

// subtree lists dir and everything below it, deepest first.
func subtree(dir string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			dirs = append([]string{path}, dirs...)
		}
		return err
	})
	return dirs, err
}

// populated says whether any process lives in dir or below (cgroup2 only).
func populated(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	return err == nil && strings.Contains(string(b), "populated 1")
}

// Kill ends every process in dir and below (cgroup2 only). The kernel does it
// in one step, so that nothing forked meanwhile escapes.
func Kill(dir string, limit time.Duration) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("kill cgroup %s: %w", dir, err)
	}
	for end := time.Now().Add(limit); populated(dir); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("processes in %s survived SIGKILL for %v: see cgroup.procs there", dir, limit)
		}
	}
	return nil
}

// Remove deletes dir with everything below. A folder whose last process is
// still being torn down by the kernel refuses for a moment: it is retried.
func Remove(dir string, limit time.Duration) error {
	end := time.Now().Add(limit)
	for {
		err := removeOnce(dir)
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func removeOnce(dir string) error {
	dirs, err := subtree(dir)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if err := os.Remove(d); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
	}
	return nil
}
