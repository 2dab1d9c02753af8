// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"strings"
	"testing"
)

func TestDistributionsTheAgentTakes(t *testing.T) {
	for _, text := range []string{
		"fixed:64", "fixed:0", "fixed:1e3", "rr:1:2:3", "rr:1" + strings.Repeat(":1", 63), "uni:8:8", "uni:1:100", "exp:0.5", "pareto:1:2", "gpareto:-1:2:0",
		"gev:30.7984:8.20449:0.078688", "bimodal:1:10:0.1", "lognorm:-3:0", "gamma:2:3", "fb-key", "fb-value", "usr-key", "usr-value",
	} {
		if want := checkDistribution(text); want != "" {
			t.Errorf("%s is refused: %s", text, want)
		}
	}
}

func TestDistributionsTheAgentRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"enormous": "a distribution: ", "": "a distribution: ", "64": "a distribution: ", "fixed": "fixed:V", "fixed:": "fixed:V", "fixed:-1": "fixed:V", "fixed:1:2": "fixed:V",
		"fixed:0x10": "fixed:V", "fixed:inf": "fixed:V", "fixed: 1": "fixed:V", "fixed:1e16": "fixed:V", "rr": "rr:", "rr:1" + strings.Repeat(":1", 64): "rr:",
		"uni:2:1": "uni:", "exp:0": "exp:", "pareto:1:0": "pareto:", "gpareto:1:0:1": "gpareto:", "bimodal:1:2:1.5": "bimodal:", "lognorm:1:-1": "lognorm:",
		"gamma:1": "gamma:", "fb-key:1": "fb-key,",
	} {
		if got := checkDistribution(text); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %q, want %q…", text, got, want)
		}
	}
}

func TestRequestsNameTheirField(t *testing.T) {
	d := Definition{Requests: Requests{ServiceTime: "slow", KeyOrder: "zipf:1"}}
	err := d.Validate()
	for _, want := range []string{"requests.serviceTimeNanoseconds: slow: must be a distribution", "requests.keyOrder: zipf:1: must be uni, rr or zipf:THETA"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}
