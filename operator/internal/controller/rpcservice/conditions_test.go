// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"strings"
	"testing"
)

// A message names the first five, in order, and counts the rest.
func TestListOfPods(t *testing.T) {
	for names, want := range map[string]string{"": "", "b a": "a, b", "e d c b a": "a, b, c, d, e", "g f e d c b a": "a, b, c, d, e and 2 more"} {
		if got := list(strings.Fields(names)); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
}
