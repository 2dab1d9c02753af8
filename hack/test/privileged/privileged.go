// SPDX-License-Identifier: Apache-2.0

// Package privileged is how a test says that it needs root, in the one place that
// decides what becomes of it without: it is skipped where a developer runs it, and
// fails where all tests are meant to run, so that none is left out unseen.
package privileged

import (
	"os"
	"testing"
)

// Variable is set by hack/test/run.py when it runs as root, as in CI.
const Variable = "BOBTAIL_PRIVILEGED_TESTS"

// Need ends the test unless root runs it; what says what root is needed for.
func Need(t testing.TB, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Lacking(t, "needs root: "+what)
	}
}

// Lacking ends a test that the machine refused something that root is allowed
// elsewhere.
func Lacking(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(Variable) != "" {
		t.Fatalf("%s (%s is set, so this test may not be skipped)", why, Variable)
	}
	t.Skip(why)
}
