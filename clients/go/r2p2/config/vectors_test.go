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

// The C parser reads the same documents: what is refused, at which field, is
// the contract between the two.
func TestSharedVectors(t *testing.T) {
	dir := filepath.FromSlash("../../../../dataplane/tests/vectors/config")
	text, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		File    string
		OK      bool
		Field   string
		Says    string
		Workers int
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 30 {
		t.Fatalf("only %d vectors", len(cases))
	}
	for _, c := range cases {
		text, err := os.ReadFile(filepath.Join(dir, c.File))
		if err != nil {
			t.Fatal(err)
		}
		d, err := Parse(text)
		if c.OK {
			if err != nil {
				t.Errorf("%s: refused: %v", c.File, err)
				continue
			}
			workers := 0
			for _, m := range d.Members {
				workers += m.Workers
			}
			if workers != c.Workers {
				t.Errorf("%s: %d workers, want %d", c.File, workers, c.Workers)
			}
			continue
		}
		var f *FieldError
		if !errors.As(err, &f) || f.Field != c.Field || !strings.Contains(f.Message, c.Says) {
			t.Errorf("%s: error %v, want field %q saying %q", c.File, err, c.Field, c.Says)
		}
	}
}
