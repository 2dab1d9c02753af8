// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseExports(t *testing.T) {
	t.Setenv("PATH", "/usr/bin")
	got := parseExports("export KUBECONFIG='/x/y.conf'\n# note\nexport PATH=/cache/bin:$PATH\nnot an export=1\n")
	want := []string{"KUBECONFIG=/x/y.conf", "PATH=/cache/bin:/usr/bin"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestParseLoad(t *testing.T) {
	r, err := parseLoad("j", "progress 1\n{\"sent\": 10, \"completed\": 7, \"percentilesMicroseconds\": {\"99\": 12.5, \"99.9\": null}}\n")
	if err != nil || r.Failed() != 3 || r.Percentile("99") != 12.5 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if !math.IsInf(r.Percentile("99.9"), 1) || !math.IsInf(r.Percentile("50"), 1) {
		t.Fatalf("an unanswered or absent percentile must be infinite, never 0: %+v", r.Percentiles)
	}
	for _, bad := range []string{"", "no result\n", "{\"sent\": "} {
		if _, err := parseLoad("j", bad); err == nil || !strings.Contains(err.Error(), "job j") {
			t.Errorf("%q: error %v does not name the job", bad, err)
		}
	}
}

func TestUntilTellsTheLastReason(t *testing.T) {
	err := Until(context.Background(), 30*time.Millisecond, time.Millisecond, func(context.Context) (bool, string, error) {
		return false, "pod is Pending", nil
	})
	if err == nil || !strings.Contains(err.Error(), "pod is Pending") {
		t.Fatalf("error %v lacks the reason", err)
	}
	calls := 0
	err = Until(context.Background(), time.Minute, time.Millisecond, func(context.Context) (bool, string, error) {
		calls++
		if calls < 3 {
			return false, "", errors.New("connection refused")
		}
		return true, "", nil
	})
	if err != nil || calls != 3 {
		t.Fatalf("an error must be retried: %v after %d calls", err, calls)
	}
}

func TestFailedStepNamesLogAndCause(t *testing.T) {
	var out bytes.Buffer
	steps, err := NewSteps(t.TempDir(), "x", &out)
	if err != nil {
		t.Fatal(err)
	}
	err = steps.Do(context.Background(), Step{Name: "boil water", Cost: "3 s", Cause: "no kettle"},
		func(context.Context) error { return errors.New("cold") })
	if err == nil {
		t.Fatal("the error was lost")
	}
	for _, want := range []string{"boil water", "3 s", "no kettle", "build/log/x.log", "cold"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
}

func TestConditionAbsentIsUnknown(t *testing.T) {
	if c := (Object{}).Condition("Met"); c.Status != "Unknown" || c.Reason != "Absent" {
		t.Fatalf("got %+v", c)
	}
}

func TestJobManifestCarriesTheLoad(t *testing.T) {
	text := Load{Namespace: "n", Name: "j", Target: "t:8000", Rate: 7, Duration: 3 * time.Second, Timeout: 500 * time.Millisecond, Sockets: 2}.manifest("9.9.9")
	for _, want := range []string{"localhost/bobtail/load:9.9.9", `"--rate=7"`, `"--duration=3s"`, `"--timeout=500ms"`, `"--connections=2"`, "runAsNonRoot: true"} {
		if !strings.Contains(text, want) {
			t.Errorf("manifest lacks %s:\n%s", want, text)
		}
	}
}

// heard lets a step wait for what it says.
type heard struct {
	said chan string
}

func (h heard) Write(b []byte) (int, error) {
	h.said <- string(b)
	return len(b), nil
}

// K-40: a step that takes long says so again and again, and at least twice a minute.
func TestK40ALongStepShowsThatItGoesOn(t *testing.T) {
	if signOfLife > 30*time.Second {
		t.Errorf("a sign of life each %s", signOfLife)
	}
	h := heard{make(chan string, 1000)}
	s, err := NewSteps(t.TempDir(), "k40", h)
	if err != nil {
		t.Fatal(err)
	}
	s.every = time.Millisecond
	err = s.Do(t.Context(), Step{Name: "wait", Cost: "ever"}, func(context.Context) error {
		for signs, limit := 0, time.After(time.Minute); signs < 3; {
			select {
			case text := <-h.said:
				if strings.Contains(text, "...") {
					signs++
				}
			case <-limit:
				return errors.New("silence")
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAddPathIsSearchedFirst(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ls"), []byte("#!/bin/sh\necho ours; printenv PATH\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	e := Local(dir, io.Discard)
	e.AddPath(dir)
	if out, err := e.Run(t.Context(), "", "ls"); err != nil || !strings.HasPrefix(out, "ours\n"+dir+":/") {
		t.Errorf("%q, %v", out, err)
	}
}
