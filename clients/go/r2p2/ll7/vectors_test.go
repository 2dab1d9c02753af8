// SPDX-License-Identifier: Apache-2.0

package ll7

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// The C implementation reads the same file.
func TestSharedVectors(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("../../../../dataplane/tests/vectors/histogram.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Encoding string
		Index    []struct {
			Value uint64 `json:",string"`
			Index int
		}
		Reported []struct {
			Index int
			Value uint64 `json:",string"`
		}
		Percentiles []struct {
			Name       string
			Buckets    [][2]uint64
			Inf, Total uint64
			Per100k    map[string]string
		}
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if v.Encoding != Encoding || len(v.Index) < 10 || len(v.Reported) < 5 || len(v.Percentiles) < 3 {
		t.Fatal("the vectors are not what they were")
	}
	for _, c := range v.Index {
		if got := Index(c.Value); got != c.Index {
			t.Errorf("Index(%d) = %d, want %d", c.Value, got, c.Index)
		}
	}
	for _, c := range v.Reported {
		if got := UpperEdge(c.Index); got != c.Value {
			t.Errorf("UpperEdge(%d) = %d, want %d", c.Index, got, c.Value)
		}
	}
	for _, c := range v.Percentiles {
		doc, _ := json.Marshal(wire{Encoding: Encoding, Total: c.Total, Inf: c.Inf, Buckets: c.Buckets})
		var h Histogram
		if err := json.Unmarshal(doc, &h); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		for per, want := range c.Per100k {
			p, _ := strconv.Atoi(per)
			got, err := h.Percentile(strconv.FormatFloat(float64(p)/1000, 'f', -1, 64))
			if err != nil || shown(got) != want {
				t.Errorf("%s: p%s/1000 = %s (%v), want %s", c.Name, per, shown(got), err, want)
			}
		}
	}
}

// shown writes a value as the vectors do.
func shown(v Value) string {
	switch v.Bound {
	case NoValue:
		return "0"
	case Infinite:
		return "inf"
	}
	return strconv.FormatUint(v.Nanoseconds, 10)
}
