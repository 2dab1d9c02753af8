// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseStartTicks(t *testing.T) {
	const rest = " S 1 2 3 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 10 11\n"
	for name, want := range map[string]uint64{"12 (sleep)": 987654, "12 (a) b (c)": 987654, "12 (a b)": 987654} {
		got, err := parseStartTicks(name + rest)
		if err != nil || got != want {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
	if _, err := parseStartTicks("12 (sleep)" + strings.Replace(rest, " S ", " Z ", 1)); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a zombie counts as alive: %v", err)
	}
	for _, bad := range []string{"", "12 (sleep", "12 (sleep) S 1 2"} {
		if _, err := parseStartTicks(bad); err == nil {
			t.Errorf("%q must be an error", bad)
		}
	}
}

func start(t *testing.T, args ...string) (Ref, Spec) {
	t.Helper()
	dir := t.TempDir()
	s := Spec{Args: args, Env: os.Environ(), PidFile: filepath.Join(dir, "run", "p.json"), Log: filepath.Join(dir, "log")}
	r, err := Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Signal(syscall.SIGKILL) })
	return r, s
}

func TestStartIsRememberedAndStopped(t *testing.T) {
	r, s := start(t, "sleep", "60")
	back, err := Read(s.PidFile)
	if err != nil || back != r || !back.Alive() {
		t.Fatalf("read back %+v (alive %v), %v; started %+v", back, back.Alive(), err, r)
	}
	if err := back.Stop(time.Minute); err != nil || back.Alive() {
		t.Errorf("stop: %v, alive %v", err, back.Alive())
	}
	if err := back.Stop(0); err != nil {
		t.Errorf("stopping twice: %v", err)
	}
}

func TestStopKillsWhatIgnoresTheRequest(t *testing.T) {
	r, s := start(t, "sh", "-c", "trap '' TERM; echo armed; while :; do sleep 0.05; done")
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if b, _ := os.ReadFile(s.Log); len(b) > 0 {
			break
		}
	}
	if err := r.Stop(100 * time.Millisecond); err != nil || r.Alive() {
		t.Errorf("stop: %v, alive %v", err, r.Alive())
	}
}

// The pid was given to somebody else meanwhile: hands off.
func TestReusedPidIsLeftAlone(t *testing.T) {
	r, _ := start(t, "sleep", "60")
	stale := Ref{Pid: r.Pid, Start: r.Start - 1}
	if stale.Alive() {
		t.Error("a process with another start time counts as the same")
	}
	if err := stale.Stop(0); err != nil || !r.Alive() {
		t.Errorf("stop of a stale reference: %v; the other process lives: %v", err, r.Alive())
	}
}

func TestMissingPidFileIsNoProcess(t *testing.T) {
	r, err := Read(filepath.Join(t.TempDir(), "none"))
	if err != nil || r.Alive() {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRunExplainsFailure(t *testing.T) {
	_, err := Run(os.Environ(), "", "sh", "-c", "echo no such bridge >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "no such bridge") {
		t.Errorf("got %v", err)
	}
}
