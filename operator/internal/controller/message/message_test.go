// SPDX-License-Identifier: Apache-2.0

package message

import "testing"

func TestBounded(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 1, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "ab…"},
		{"äöü", 3, "äöü"},
		{"äöüß", 3, "äö…"},
		{"ab", 1, "…"},
	} {
		if got := Bounded(c.text, c.most); got != c.want {
			t.Errorf("%q in %d characters is %q; want %q", c.text, c.most, got, c.want)
		}
	}
}
