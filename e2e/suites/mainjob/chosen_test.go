//go:build cluster

// SPDX-License-Identifier: Apache-2.0

package mainjob

import (
	"slices"
	"strings"
	"testing"
)

func TestPartsThatAreChosen(t *testing.T) {
	names := func(only string, short bool) (out []string) {
		play, err := chosen(only, short)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range play {
			out = append(out, p.name)
		}
		return out
	}
	if got := names("nodes-drained,every-released-chart", false); !slices.Equal(got, []string{"clean slate", "every released chart", "service", "nodes drained"}) {
		t.Errorf("%q", got)
	}
	if got := names("every-released-chart", false); !slices.Equal(got, []string{"clean slate", "every released chart"}) {
		t.Errorf("%q", got)
	}
	if whole, short := names("", false), names("", true); len(whole) != len(parts) || len(short) >= len(whole) {
		t.Errorf("%d and %d of %d", len(whole), len(short), len(parts))
	}
	if _, err := chosen("drained", false); err == nil || !strings.Contains(err.Error(), "nodes-drained") {
		t.Errorf("%v", err)
	}
}
