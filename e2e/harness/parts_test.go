// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// Parts are played in the suite's order, whatever the order asked for, and one that fails hides none.
func TestPartsAreChosen(t *testing.T) {
	var played []string
	part := func(name string, err error) Part {
		return Part{name, func(context.Context) error { played = append(played, name); return err }}
	}
	all := []Part{part("a", nil), part("b", errors.New("b is broken")), part("c", nil)}
	for _, c := range []struct{ only, want []string }{{nil, []string{"a", "b", "c"}}, {[]string{"c", "b"}, []string{"b", "c"}}, {[]string{"a"}, []string{"a"}}} {
		played = nil
		chosen, err := Choose(all, c.only)
		if err != nil {
			t.Fatal(err)
		}
		err = PlayAll(t.Context(), chosen)
		if !slices.Equal(played, c.want) || slices.Contains(c.want, "b") != (err != nil) {
			t.Errorf("only %v: played %v, %v", c.only, played, err)
		}
	}
	if _, err := Choose(all, []string{"a", "d"}); err == nil || !strings.Contains(err.Error(), `a, b, c; got "d"`) {
		t.Errorf("an unknown part: %v", err)
	}
}
