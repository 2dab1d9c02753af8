// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// StepError says which step failed, where to look, and what is usually wrong.
type StepError struct {
	Step  string
	Log   string // "" if the step has none
	Cause string
	Err   error
}

func (e *StepError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "step %q failed: %v", e.Step, e.Err)
	if e.Log != "" {
		fmt.Fprintf(&b, "\n  log file:     %s", e.Log)
		for _, line := range lastLines(e.Log, 4) {
			fmt.Fprintf(&b, "\n                | %s", line)
		}
	}
	if e.Cause != "" {
		fmt.Fprintf(&b, "\n  likely cause: %s", e.Cause)
	}
	return b.String()
}

func (e *StepError) Unwrap() error { return e.Err }

// lastLines returns the end of a log, each line cut to a screen's width.
func lastLines(path string, n int) []string {
	b, err := os.ReadFile(path)
	if err != nil || len(b) == 0 {
		return nil
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	lines = lines[max(0, len(lines)-n):]
	for i, l := range lines {
		if len(l) > 200 {
			lines[i] = l[:200] + "…"
		}
	}
	return lines
}

// step runs f, tells how long it took, and explains a failure.
func (m *Manager) step(name, log, cause string, f func() error) error {
	start := time.Now()
	err := f()
	if err == nil {
		m.say("%-46s %5.1f s", name, time.Since(start).Seconds())
		return nil
	}
	var inner *StepError
	if errors.As(err, &inner) {
		return err
	}
	return &StepError{Step: name, Log: log, Cause: cause, Err: err}
}

func (m *Manager) say(format string, args ...any) {
	fmt.Fprintf(m.Out, "cluster: "+format+"\n", args...)
}

// poll repeats f until it succeeds; its last error is the reason of a timeout.
func poll(limit, every time.Duration, f func() error) error {
	end := time.Now().Add(limit)
	for {
		err := f()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %w", limit, err)
		}
		time.Sleep(every)
	}
}
