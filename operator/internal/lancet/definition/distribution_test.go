// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"
)

// vectors is what the agent's test in C reads, too: both take and refuse the same.
type vectors struct {
	Accepted []struct{ Text string }
	Refused  []refusal
	Orders   struct {
		Accepted []string
		Refused  []refusal
		Default  map[string]string // by mix
	}
}

type refusal struct{ Text, Says string }

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	raw, err := os.ReadFile("../../../../dataplane/tests/vectors/distributions.json")
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil || len(v.Accepted) < 30 || len(v.Refused) < 60 || len(v.Orders.Accepted) < 6 || len(v.Orders.Refused) < 16 {
		t.Fatalf("%v, %d and %d distributions", err, len(v.Accepted), len(v.Refused))
	}
	return v
}

// L-67: every family there is a name for is drawn, by the agent too (test_lancet_vectors.c).
func TestDistributionsTheAgentTakes(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range readVectors(t).Accepted {
		if want := checkDistribution(c.Text); want != "" {
			t.Errorf("%s is refused: %s", c.Text, want)
		}
		family, _, _ := strings.Cut(c.Text, ":")
		seen[family] = true
	}
	if len(seen) != len(families) {
		t.Errorf("vectors of %d families, there are %d", len(seen), len(families))
	}
}

func TestDistributionsTheAgentRefuses(t *testing.T) {
	for _, c := range readVectors(t).Refused {
		if got := checkDistribution(c.Text); got == "" || !strings.Contains(got, c.Says) {
			t.Errorf("%q: %q, want %q in it", c.Text, got, c.Says)
		}
	}
}

func TestOrdersOfKeys(t *testing.T) {
	orders := readVectors(t).Orders
	for _, text := range orders.Accepted {
		if err := (Definition{Requests: Requests{KeyOrder: text}}).Validate(); strings.Contains(err.Error(), "keyOrder") {
			t.Errorf("%s is refused: %v", text, err)
		}
	}
	for _, c := range orders.Refused {
		err := (Definition{Requests: Requests{KeyOrder: c.Text}}).Validate()
		if c.Text != "" && !strings.Contains(err.Error(), c.Says) { // left out, the agent's default stands
			t.Errorf("%q: %v, want %q in it", c.Text, err, c.Says)
		}
	}
}

func TestOrdersOfKeysByDefault(t *testing.T) {
	want := readVectors(t).Orders.Default
	if len(want) != 2 || !maps.Equal(orders, want) {
		t.Errorf("orders by mix %v, want %v", orders, want)
	}
	for given, want := range map[Requests]string{{Mix: "ycsb-e"}: "zipf:0.99", {Mix: "ycsb-e", KeyOrder: "rr"}: "rr", {}: ""} {
		if got := (Definition{Requests: given}).Configuration(0).KeyOrder; got != want {
			t.Errorf("%+v: the agent is told %q, want %q", given, got, want)
		}
	}
}

func TestRequestsNameTheirField(t *testing.T) {
	err := Definition{Requests: Requests{RequestBytes: "a", ReplyBytes: "b", ServiceTime: "slow", KeyBytes: "c", ValueBytes: "d", ScanLength: "e", KeyOrder: "zipf:1"}}.Validate()
	for _, want := range []string{
		"requests.requestBytes: a: must be a distribution", "requests.replyBytes: b: must be", "requests.serviceTimeNanoseconds: slow: must be", "requests.keyBytes: c: must be",
		"requests.valueBytes: d: must be", "requests.scanLength: e: must be", "requests.keyOrder: zipf:1: must be uni, rr or zipf:THETA",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}
