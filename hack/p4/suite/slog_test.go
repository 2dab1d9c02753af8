// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"testing"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
)

// S-2 to S-5, S-11, S-20 to S-25: at 2 million packets a second the rate is right to a thousandth, every reply is in the
// bucket of its latency, and what is lost or foreign is counted apart.
func TestSlog(t *testing.T) {
	needs.Time(t, "65,536 packets for each architecture, which make p4-short sends too")
	for _, shell := range shellNames {
		r, err := Slog(loadProgram(t, "slog", shell), Load{Rate: 2e6, TemplateNS: 81.6, Packets: 1 << 16}, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.First {
			t.Error(f)
		}
		if r.RateError > 0.001 || r.LatencyErrors != 0 || r.Odd != 0 {
			t.Errorf("%s: rate wrong by %g, %d latencies wrong, %d odd accesses", shell, r.RateError, r.LatencyErrors, r.Odd)
		}
		t.Logf("%s: rate wrong by %g", shell, r.RateError)
	}
}
