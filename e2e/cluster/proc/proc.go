// SPDX-License-Identifier: Apache-2.0

// Package proc starts the cluster's long-running processes, remembers them in
// pid files, and ends them again. A process is always named by its pid
// together with its start time, so that a reused pid is never mistaken for it.
package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Ref identifies one process for ever, even after its pid is used again.
type Ref struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"startTicks"`
}

// startTicks reads field 22 of /proc/PID/stat: start time since boot.
func startTicks(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStartTicks(string(b))
}

// parseStartTicks skips the command name, which may hold spaces and brackets.
// It also refuses zombies: nobody can use a dead process.
func parseStartTicks(stat string) (uint64, error) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, fmt.Errorf("stat line without a command name: %q", stat)
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("stat line with %d fields after the name, want 20 or more", len(fields))
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, os.ErrProcessDone
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// Alive says whether this very process still runs.
func (r Ref) Alive() bool {
	if r.Pid <= 0 {
		return false
	}
	t, err := startTicks(r.Pid)
	return err == nil && t == r.Start
}

// Signal sends sig if the process is still the same one.
func (r Ref) Signal(sig syscall.Signal) error {
	if !r.Alive() {
		return os.ErrProcessDone
	}
	return syscall.Kill(r.Pid, sig)
}

// Stop asks politely, waits up to grace, then kills, and waits for the end.
func (r Ref) Stop(grace time.Duration) error {
	if err := r.Signal(syscall.SIGTERM); err != nil {
		return nil // already gone
	}
	if r.waitGone(grace) {
		return nil
	}
	if err := r.Signal(syscall.SIGKILL); err != nil {
		return nil
	}
	if r.waitGone(5 * time.Second) {
		return nil
	}
	return fmt.Errorf("process %d survived SIGKILL (stuck in the kernel?): see /proc/%d/stack", r.Pid, r.Pid)
}

func (r Ref) waitGone(limit time.Duration) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if !r.Alive() {
			return true
		}
	}
	return !r.Alive()
}

// Read returns the process a pid file names; a missing file is a zero Ref.
func Read(pidFile string) (Ref, error) {
	b, err := os.ReadFile(pidFile)
	if errors.Is(err, os.ErrNotExist) {
		return Ref{}, nil
	}
	if err != nil {
		return Ref{}, err
	}
	var r Ref
	if err := json.Unmarshal(b, &r); err != nil {
		return Ref{}, fmt.Errorf("pid file %s: %w", pidFile, err)
	}
	return r, nil
}

func write(pidFile string, r Ref) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(pidFile), 0o755); err != nil {
		return err
	}
	return os.WriteFile(pidFile, append(b, '\n'), 0o644)
}

// Spec is a process to start in the background.
type Spec struct {
	Args    []string   // program and arguments
	Env     []string   // complete environment
	PidFile string     // where its Ref is written
	Log     string     // standard output and error; truncated
	Cgroup  string     // cgroup2 folder to be born in; "" for the caller's
	Clone   uintptr    // namespaces to create
	Files   []*os.File // inherited as descriptors 3, 4, …
}

// Start runs the process in its own session, so that no terminal signal and no
// end of the caller reaches it.
func Start(s Spec) (Ref, error) {
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return Ref{}, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(s.Args[0], s.Args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles, cmd.Dir = s.Env, log, log, s.Files, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: s.Clone}
	if s.Cgroup != "" {
		dir, err := os.Open(s.Cgroup)
		if err != nil {
			return Ref{}, fmt.Errorf("cgroup2 folder of %s: %w", s.Args[0], err)
		}
		defer func() { _ = dir.Close() }()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	if err := cmd.Start(); err != nil {
		return Ref{}, fmt.Errorf("start %s: %w", s.Args[0], err)
	}
	ticks, err := startTicks(cmd.Process.Pid)
	if err != nil {
		return Ref{}, fmt.Errorf("%s ended at once, see %s", s.Args[0], s.Log)
	}
	ref := Ref{Pid: cmd.Process.Pid, Start: ticks}
	go func() { _ = cmd.Wait() }() // reap it while this program lives
	return ref, write(s.PidFile, ref)
}
