// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

func TestFloorOf(t *testing.T) {
	const message = "p99 of the service time alone is 46.2ms and 312us of overhead come on top: no load meets the objective of 5ms; raise `spec.latencyMicroseconds` above the sum"
	for name, c := range map[string]struct {
		accepted, attainable, reason, message string
		want                                  time.Duration
	}{
		"good":                {"True", "False", "ServiceAboveObjective", message, 46_200 * time.Microsecond},
		"not accepted":        {"False", "False", "ServiceAboveObjective", message, 0},
		"attainable":          {"True", "True", "Estimated", "some load meets the objective; status.capacity says which", 0},
		"without a floor":     {"True", "False", "ServiceAboveObjective", "no load meets the objective of 5ms", 0},
		"a floor that is met": {"True", "False", "ServiceAboveObjective", "p99 of the service time alone is 4.9ms and 0us of overhead come on top: no load meets the objective of 5ms", 0},
	} {
		var o harness.Object
		o.Status.Conditions = []harness.Condition{{Type: "Accepted", Status: c.accepted}, {Type: "Attainable", Status: c.attainable, Reason: c.reason, Message: c.message}}
		if got, err := floorOf(o); (err == nil) != (c.want > 0) || err == nil && got != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
