// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

// W-1, W-11, R-335 to R-344: what the switch does with a group's message is what the software's aggregator does with it.
func TestAggregator(t *testing.T) {
	if _, err := os.Stat(simulator); err != nil {
		privileged.Lacking(t, "no "+simulator)
	}
	lines, err := exec.Command(simulator, "switch", "--program=aggregator", "--events=6000").Output()
	if err != nil {
		t.Fatal(err)
	}
	r, err := PlayAggregator(bytes.NewReader(lines), loadProgram(t, "aggregator", "v1model"), loadProgram(t, "aggregator", "tna"), 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.First {
		t.Error(d)
	}
	if r.Odd != 0 || r.Recirculations != 0 || r.Events < 6000 {
		t.Errorf("%d odd accesses, %d recirculations, %d messages", r.Odd, r.Recirculations, r.Events)
	}
}

// what is no message of a group changes nothing, and is counted.
func TestAggregatorVectors(t *testing.T) {
	for _, shell := range shellNames {
		run, failed, err := AggregatorVectors(vectorsJSON, loadProgram(t, "aggregator", shell))
		if err != nil || run < 100 {
			t.Fatal(run, err)
		}
		for _, f := range failed {
			t.Errorf("%s: %s", shell, f)
		}
	}
}

// The numbers of reasons are those of the program.
func TestAggregatorReasons(t *testing.T) {
	text, err := os.ReadFile("../../../dataplane/p4/aggregator/headers.p4")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{"probes": "PROBE", "refusals": "REFUSAL"}
	for word, n := range bed.AggregatorReason {
		name := names[word]
		if name == "" {
			name = string(bytes.ToUpper([]byte(word)))
		}
		if !regexp.MustCompile(fmt.Sprintf(`const reason_t R_%s = %d;`, name, n)).Match(text) {
			t.Errorf("R_%s is not %d", name, n)
		}
	}
}

// A line that is none is refused with its number.
func TestAggregatorLines(t *testing.T) {
	v1, tna := loadProgram(t, "aggregator", "v1model"), loadProgram(t, "aggregator", "tna")
	for _, text := range []string{"M 1 stale 00 - -", "E 1 2 3", "E 1 2 3 1:1\nM 1 stale 0 - -", "E 1 2 x 1:1", "E 1 2 3 1:1\nT 4 one:1", "X"} {
		if _, err := PlayAggregator(bytes.NewReader([]byte(text)), v1, tna, 1); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
