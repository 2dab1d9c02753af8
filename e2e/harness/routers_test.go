// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

func histogramOf(latencies ...time.Duration) *ll7.Histogram {
	h := &ll7.Histogram{}
	for _, l := range latencies {
		h.Record(uint64(l.Nanoseconds()))
	}
	return h
}

func answer(t *testing.T, covered int, latencies ...time.Duration) []byte {
	t.Helper()
	text, err := json.Marshal(routerReply{CoveredSeconds: covered, Histogram: histogramOf(latencies...), Requests: 10, Rejected: 4})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestMergeAddsHistogramsNotPercentiles(t *testing.T) {
	// One router with 99 fast requests and another with 1 slow one: the p99 of
	// all is fast, the mean or the largest of their percentiles is not.
	fast := make([]time.Duration, 99)
	for i := range fast {
		fast[i] = 10 * time.Millisecond
	}
	got, err := mergeRouters([][]byte{answer(t, 5, fast...), answer(t, 5, time.Second)}, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if us := Microseconds(got.Latency, "99"); us < 10000 || us > 10100 || got.Latency.Total() != 100 || got.Requests != 20 || got.Rejected != 8 {
		t.Fatalf("p99 %v us of %d, %+v", us, got.Latency.Total(), got)
	}
}

func TestMergeRefusesWhatIsNotWhole(t *testing.T) {
	for name, texts := range map[string][][]byte{"no router runs": nil, "covers 4 s": {answer(t, 4)}, "decode": {[]byte("{")}} {
		if _, err := mergeRouters(texts, 5*time.Second); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error with %q; got %v", name, err)
		}
	}
}

// Seconds are told the newest first, and handed on the oldest first, each merged over
// the routers.
func TestMergeKeepsSecondsInOrder(t *testing.T) {
	fast, slow := histogramOf(time.Millisecond), histogramOf(time.Second)
	reply := func(parts ...*ll7.Histogram) []byte {
		text, err := json.Marshal(routerReply{CoveredSeconds: 2, Histogram: histogramOf(), Parts: parts})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	got, err := mergeRouters([][]byte{reply(slow, fast), reply(slow, fast)}, 2*time.Second)
	if err != nil || len(got.BySecond) != 2 || got.BySecond[0].Total() != 2 || Microseconds(got.BySecond[0], "99") > 2000 || Microseconds(got.BySecond[1], "99") < 900000 {
		t.Fatalf("%v: %+v", err, got.BySecond)
	}
	if _, err := mergeRouters([][]byte{reply(slow, fast), reply(slow)}, 2*time.Second); err == nil || !strings.Contains(err.Error(), "parts") {
		t.Errorf("a router that tells fewer seconds was merged: %v", err)
	}
}
