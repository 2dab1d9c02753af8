// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Step is one thing a user waits for: what it is, about how long it takes, and
// what usually made it fail.
type Step struct {
	Name  string
	Cost  string
	Cause string
}

// Steps prints progress for people and keeps one log file for all commands.
type Steps struct {
	Out     io.Writer
	logPath string
	logFile *os.File
	count   int
	every   time.Duration // between two signs of life of a step
}

// signOfLife is how often a step says that it goes on: at least twice a minute (K-40).
const signOfLife = 15 * time.Second

// NewSteps opens the log file build/log/<name>.log.
func NewSteps(root, name string, out io.Writer) (*Steps, error) {
	path := filepath.Join(root, "build", "log", name+".log")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the log folder: %w", err)
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("open the log file: %w", err)
	}
	return &Steps{Out: out, logPath: path, logFile: f, every: signOfLife}, nil
}

// Log is where commands write what they did.
func (s *Steps) Log() io.Writer { return s.logFile }

// Say prints text for the reader and keeps it in the log.
func (s *Steps) Say(format string, args ...any) {
	fmt.Fprintf(s.Out, format+"\n", args...)
	fmt.Fprintf(s.logFile, format+"\n", args...)
}

// Do runs one step. A failure names the step, the log file and the likely cause.
func (s *Steps) Do(ctx context.Context, step Step, do func(context.Context) error) error {
	s.count++
	start := time.Now()
	s.Say("[%2d] %s (about %s)", s.count, step.Name, step.Cost)
	done := make(chan struct{})
	ticked := make(chan struct{})
	go func() { defer close(ticked); s.tick(done, start) }()
	err := do(ctx)
	close(done)
	<-ticked
	took := time.Since(start).Round(100 * time.Millisecond)
	if err != nil {
		s.Say("     FAILED after %s: %v\n     log: %s\n     likely cause: %s", took, err, s.logPath, step.Cause)
		return fmt.Errorf("%s: %w", step.Name, err)
	}
	s.Say("     ok, %s", took)
	return nil
}

// tick shows a sign of life in steps that take long.
func (s *Steps) tick(done <-chan struct{}, start time.Time) {
	t := time.NewTicker(s.every)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			fmt.Fprintf(s.Out, "     ... %s\n", time.Since(start).Round(time.Second))
		}
	}
}

// Until calls check every interval until it reports true, fails, or the time is over.
// The last reason given by check stands in the error.
func Until(ctx context.Context, limit, interval time.Duration, check func(context.Context) (bool, string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	why := "nothing seen yet"
	for {
		ok, reason, err := check(ctx)
		if err == nil && ok {
			return nil
		}
		if err != nil {
			reason = err.Error()
		}
		if ctx.Err() == nil && reason != "" {
			why = reason
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not after %s: %s", limit, why)
		case <-time.After(interval):
		}
	}
}
