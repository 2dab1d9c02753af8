// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const vectorDir = "../../../../dataplane/tests/vectors/config"

// The C parser reads the same documents: both take the same ones, and of those
// they refuse both name the same field.
func TestSharedVectors(t *testing.T) {
	var cases []struct {
		File        string
		OK          bool
		Workers     int
		FirstMember string
		Field       string
		Says        string // in the message
	}
	text, err := os.ReadFile(filepath.Join(filepath.FromSlash(vectorDir), "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 50 {
		t.Fatalf("only %d vectors", len(cases))
	}
	for _, c := range cases {
		t.Run(c.File, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(filepath.FromSlash(vectorDir), c.File))
			if err != nil {
				t.Fatal(err)
			}
			d, err := Parse(text)
			if !c.OK {
				var f *FieldError
				if !errors.As(err, &f) || f.Field != c.Field || !strings.Contains(f.Message, c.Says) {
					t.Fatalf("%v, want field %q and %q in the message", err, c.Field, c.Says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			workers := 0
			for _, m := range d.Members {
				workers += m.Workers
			}
			if workers != c.Workers {
				t.Errorf("%d workers, want %d", workers, c.Workers)
			}
			canonical, err := d.Canonical()
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse(canonical)
			if err != nil {
				t.Fatalf("its canonical text is refused: %v", err)
			}
			if c.FirstMember != "" && again.Members[0].Name != c.FirstMember {
				t.Errorf("first member %q, want %q", again.Members[0].Name, c.FirstMember)
			}
		})
	}
}
