// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"strings"
	"testing"
)

// What an experiment refuses is said with the names that its author wrote.
func TestExperimentsAreRefusedByTheFieldsOfTheDefinition(t *testing.T) {
	for name, c := range map[string]struct{ document, want string }{
		"nothing wrong": {"", ""},
		"too slow":      {"measurement: {limitSeconds: 10, samples: 10000}", "at 100 requests/s: measurement.limitSeconds: 10s: must be long enough for one round of 10000 samples, 500 s"},
		"two at once":   {"measurement: {samples: 5, samplingRate: 2}", "measurement.samples: 5: must be between 100 and 1,000,000; measurement.samplingRate: 2: must be above 0"},
		"long enough":   {"measurement: {limitSeconds: 600, samples: 10000}", ""},
	} {
		d, err := Parse([]byte("protocol: http\nload: {requestsPerSecond: 100}\n" + c.document))
		if err != nil {
			t.Fatal(name, err)
		}
		got := ""
		if err := d.CheckExperiments(); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
