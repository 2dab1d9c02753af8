// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// shownDifferences is how many of the first findings are kept.
const shownDifferences = 10

// Findings are what came of giving a simulator's lines to a program.
type Findings struct {
	Events, Differences uint64
	ShellDifferences    uint64 // between the architectures
	Odd                 uint64 // accesses that should not be
	First               []string
	line                int
}

// play reads lines, a function for each; most: differences after which it ends.
func (f *Findings) play(lines io.Reader, most uint64, event func(words []string) error) error {
	in := bufio.NewScanner(lines)
	in.Buffer(nil, 1<<16)
	for in.Scan() && f.Differences+f.ShellDifferences < most {
		f.line++
		if err := event(strings.Fields(in.Text())); err != nil {
			return fmt.Errorf("line %d: %w", f.line, err)
		}
	}
	return in.Err()
}

func (f *Findings) note(format string, args ...any) {
	if len(f.First) < shownDifferences {
		f.First = append(f.First, fmt.Sprintf("line %d: ", f.line)+fmt.Sprintf(format, args...))
	}
}

func (f *Findings) differs(format string, args ...any) {
	f.Differences++
	f.note(format, args...)
}

// shellsDiffer notes what the architectures do not make alike of a frame; "": nothing.
func (f *Findings) shellsDiffer(frame []byte, what string) {
	if what != "" {
		f.ShellDifferences++
		f.note("%x: %s", frame, what)
	}
}

// oddOf adds what machines did that should not be.
func (f *Findings) oddOf(machines ...*model.Machine) {
	for _, m := range machines {
		if m.Odd() > 0 {
			f.Odd += m.Odd()
			f.note("things that should not be: %s", m.LastOdd)
		}
	}
}
