// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/e2e/suites/firsthour"
)

func TestJudgePage(t *testing.T) {
	const refused = "(error) READONLY bobtail: this server is a member\n"
	for _, c := range []struct {
		name, said string
		bad        string
	}{
		{"all sold", refused + "3000 sold, 0 not, 0 unknown\n3000 tickets, 3000 buyers\n", ""},
		{"one unknown was executed", refused + "2999 sold, 0 not, 1 unknown\n3000 tickets, 3000 buyers\n", ""},
		{"one is lost", refused + "3000 sold, 0 not, 0 unknown\n2999 tickets, 2999 buyers\n", "2999 tickets"},
		{"one was sold twice", refused + "3000 sold, 0 not, 0 unknown\n3001 tickets, 3001 buyers\n", "3001 tickets"},
		{"half of a request", refused + "3000 sold, 0 not, 0 unknown\n3000 tickets, 2999 buyers\n", "2999 buyers"},
		{"a write at the port", "OK\n3000 sold, 0 not, 0 unknown\n3000 tickets, 3000 buyers\n", "not refused"},
		{"nothing was counted", refused + "3000 sold, 0 not, 0 unknown\n", "no line like"},
	} {
		err := judgePage(c.said)
		if (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// The page has commands that this suite plays.
func TestPageOfRedis(t *testing.T) {
	blocks, err := firsthour.ReadPage(filepath.Join("..", "..", "..", "docs", "guides", "redis.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, b := range blocks {
		if slices.Contains(b.Tags, pageTag) {
			lines += strings.Count(b.Body, "\n")
		}
	}
	if lines < 8 {
		t.Errorf("%d lines of the page are played", lines)
	}
}
