// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
	"github.com/bobtail-dev/bobtail/hack/p4/suite"
)

// S-14, L-40: gaps that the switch's load generator leaves, drawn by itself, are exponential to Lancet's test; where a
// template takes a fifth of the mean gap the test sees its steps (S-12).
func TestGapsOfASwitch(t *testing.T) {
	for _, shell := range []string{"tna"} {
		p, err := model.Load("../../../../dataplane/p4/slog/"+shell+".p4", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			templateNS float64
			fits       bool
		}{{6.72, true}, {100, false}} {
			gaps, err := suite.SlogGaps(p, suite.Load{Rate: 2e6, TemplateNS: c.templateNS, Packets: 500}, 11)
			if err != nil {
				t.Fatal(err)
			}
			a2, prob := AndersonDarling(gaps, Exponential{Mean: 1 / 2e6})
			if (prob > 0.05) != c.fits {
				t.Errorf("%s, templates of %g ns: A² %g, p %g", shell, c.templateNS, a2, prob)
			}
			t.Logf("%s, templates of %g ns: A² %.3g, p %.3g", shell, c.templateNS, a2, prob)
		}
	}
}
