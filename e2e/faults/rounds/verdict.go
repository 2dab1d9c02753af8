// SPDX-License-Identifier: Apache-2.0

package rounds

import "fmt"

// verdict collects what did not hold, by the name of the invariant.
type verdict struct {
	failures []string
	checks   int
}

// hold asserts one thing.
func (v *verdict) hold(ok bool, invariant, format string, args ...any) {
	v.checks++
	if !ok {
		v.failures = append(v.failures, invariant+": "+fmt.Sprintf(format, args...))
	}
}

// equal asserts that two counts agree.
func (v *verdict) equal(invariant, what string, got, want int64) {
	v.hold(got == want, invariant, "%s: %d, want %d", what, got, want)
}

// fail records what made it impossible to go on.
func (v *verdict) fail(err error) {
	if err != nil {
		v.hold(false, "bed", "%v", err)
	}
}
