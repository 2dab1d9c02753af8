// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"
)

// The words of the dataplane, which the simulator's schema is written from, are those
// of the API, which this package's are written from: a word in one of them alone is
// half of a change.
func TestWordsAreThoseOfTheDataplane(t *testing.T) {
	schema, err := os.ReadFile("../../../../dataplane/sim/scenario.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		field string
		words []string
	}{{"policy", Policies}, {"forwarding", Forwardings}, {"deviceProfile", DeviceProfiles}, {"controller", Controllers}} {
		found := regexp.MustCompile(`"` + c.field + `": \{"anyOf": \[\{"enum": (\[[^\]]*\])`).FindSubmatch(schema)
		if found == nil {
			t.Errorf("%s: not in the schema", c.field)
			continue
		}
		var dataplane []string
		if err := json.Unmarshal(found[1], &dataplane); err != nil || !slices.Equal(dataplane, c.words) {
			t.Errorf("%s: the dataplane has %v, the API %v (%v)", c.field, dataplane, c.words, err)
		}
	}
}
