// SPDX-License-Identifier: Apache-2.0

package privileged

import (
	"fmt"
	"os"
	"testing"
)

// said is a test that writes down how it ended.
type said struct {
	testing.TB
	how string
}

func (s *said) Helper()                           {}
func (s *said) Skip(args ...any)                  { s.end("skipped: " + fmt.Sprint(args...)) }
func (s *said) Fatalf(format string, args ...any) { s.end("failed: " + fmt.Sprintf(format, args...)) }

// end keeps the first: a real test goes no further.
func (s *said) end(how string) {
	if s.how == "" {
		s.how = how
	}
}

func TestLackingIsHiddenNowhereThatRunsAll(t *testing.T) {
	for value, want := range map[string]string{
		"":  "skipped: no bpffs",
		"1": "failed: no bpffs (BOBTAIL_PRIVILEGED_TESTS is set, so this test may not be skipped)",
	} {
		t.Setenv(Variable, value)
		s := &said{}
		Lacking(s, "no bpffs")
		if s.how != want {
			t.Errorf("%s=%q: %s, want %s", Variable, value, s.how, want)
		}
	}
}

func TestRootIsNeeded(t *testing.T) {
	t.Setenv(Variable, "")
	s, want := &said{}, ""
	Need(s, "makes network namespaces")
	if os.Geteuid() != 0 {
		want = "skipped: needs root: makes network namespaces"
	}
	if s.how != want {
		t.Errorf("%q, want %q", s.how, want)
	}
}
