// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"strings"
	"testing"
)

func TestCountsAddUpPods(t *testing.T) {
	const pod = `# TYPE a_total counter
a_total{result="x",worker="1"} 2
a_total{result="x",worker="2"} 3
a_total{result="y",worker="1"} 4
# TYPE b gauge
b 1.5
# TYPE c histogram
c_bucket{le="+Inf"} 7
c_sum 1
c_count 7
`
	all := Counts{}
	for range 2 {
		if err := all.add([]byte(pod)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]float64{"a_total": 18, `a_total{result="x"}`: 10, `a_total{worker="1"}`: 12, "b": 3} {
		if all[name] != want {
			t.Errorf("%s is %v, want %v", name, all[name], want)
		}
	}
	if got := all.Since(Counts{"a_total": 8})["a_total"]; got != 10 {
		t.Errorf("since then %v", got)
	}
	if err := all.Lacks("a_total", "d_total"); err == nil || !strings.Contains(err.Error(), "d_total") || strings.Contains(err.Error(), "a_total") {
		t.Errorf("%v", err)
	}
	if all.add([]byte("a_total{")) == nil {
		t.Error("half a line is no metric")
	}
}
