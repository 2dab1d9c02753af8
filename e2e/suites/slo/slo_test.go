// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/e2e/harness"
)

var setup = Setup{Replicas: 4, Workers: 16, Service: 5 * time.Millisecond}

func histogram(latencies ...time.Duration) *ll7.Histogram {
	h := &ll7.Histogram{}
	for _, l := range latencies {
		h.Record(uint64(l.Nanoseconds()))
	}
	return h
}

func TestSetup(t *testing.T) {
	if setup.Nominal() != 12800 || setup.overloadRate() != 19200 || setup.latency() != 50*time.Millisecond {
		t.Fatalf("got %v/s, %d/s, %s", setup.Nominal(), setup.overloadRate(), setup.latency())
	}
	for _, bad := range []Setup{{0, 1, time.Second}, {1, 65, time.Second}, {1, 1, time.Microsecond}, {1, 1, 2 * time.Second}} {
		if bad.Judge() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	text := setup.manifest("9.9.9")
	for _, want := range []string{"serve:9.9.9", "exp:5000us", "latencyMicroseconds: 50000", "replicas: 4", "workersPerReplica: 16"} {
		if !strings.Contains(text, want) {
			t.Errorf("the manifest lacks %q:\n%s", want, text)
		}
	}
}

func TestCapacityIsTheHighestLoadThatMetTheObjective(t *testing.T) {
	points := []point{{within: 7900, p99: 20000}, {within: 8800, p99: 60000}, {within: 9900, p99: 50000}, {within: 10800, p99: 50001}, {within: 9000, p99: math.Inf(1)}}
	if got := best(points, setup.latency()); got.within != 9900 {
		t.Fatalf("got %+v", got)
	}
	if got := best(points[3:], setup.latency()); got.within != 0 {
		t.Fatalf("a sweep that never met the objective has no capacity; got %+v", got)
	}
}

func TestALoadIsRepeatedWhileItMayRaiseTheCapacity(t *testing.T) {
	if got := open(nil, setup.latency()); !slices.Equal(got, sweepShares) {
		t.Errorf("first all are offered; got %v", got)
	}
	missed := point{share: sweepShares[3], p99: 60000}
	met := point{share: sweepShares[2], p99: 40000}
	if got := open([]point{{share: sweepShares[0], p99: 90000}, met, missed}, setup.latency()); !slices.Equal(got, sweepShares[3:]) {
		t.Errorf("want those above %v; got %v", met.share, got)
	}
	nothing := point{share: sweepShares[4], p99: math.NaN()}
	if got := open([]point{nothing}, setup.latency()); !slices.Equal(got, sweepShares) {
		t.Errorf("nothing answered is nothing met; got %v", got)
	}
}

func TestAnOverloadThatMetTheObjectiveRaisesTheCapacity(t *testing.T) {
	s := &Suite{Setup: setup, swept: 9000}
	good, bad := histogram(40*time.Millisecond), histogram(60*time.Millisecond)
	s.rows = []row{{routers: bad, inTime: 12000}, {routers: &ll7.Histogram{}, inTime: 13000}}
	if got := s.capacity(); got != 9000 {
		t.Errorf("a phase that missed the objective, or that measured nothing, counted: %v", got)
	}
	s.rows = append(s.rows, row{routers: good, inTime: 11000}, row{routers: good, inTime: 8000})
	if got := s.capacity(); got != 11000 {
		t.Errorf("got %v", got)
	}
}

// A row that is the capacity is marked, and its share of what was swept is told: 1 of
// itself says nothing.
func TestARowThatIsTheCapacityIsMarked(t *testing.T) {
	good, bad := histogram(40*time.Millisecond), histogram(60*time.Millisecond)
	s := &Suite{Got: &harness.Measurements{}, Setup: setup, swept: 9000, rows: []row{
		{phase: phase{name: "observe", mode: "Observe"}, routers: bad, client: bad, inTime: 12000},
		{phase: phase{name: "track", mode: "Reject", controller: "Track"}, routers: good, client: good, inTime: 9900},
		{phase: phase{name: "aiad", mode: "Reject", controller: "AIAD"}, routers: good, client: good, inTime: 9300},
	}}
	for i, want := range []bool{false, true, false} {
		if s.isCapacity(s.rows[i]) != want {
			t.Errorf("row %d is the capacity: %v", i, !want)
		}
	}
	text := s.table()
	for _, want := range []string{"1.000*", "1.100", "0.939 ", "1.033", "*: this row is the capacity"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	s.record()
	root := t.TempDir()
	if err := s.Got.Write(root, "e2e-slo"); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "build", "measurements", "e2e-slo.json"))
	if err != nil || !regexp.MustCompile(`"e2e_overload_swept_goodput_share",\s*"value": 1.1\b`).Match(raw) {
		t.Errorf("%v; recorded %s", err, raw)
	}
	if !regexp.MustCompile(`"e2e_slo_capacity_of_workers",\s*"value": 0.7734\b`).Match(raw) { // 9,900 of 12,800
		t.Errorf("recorded %s", raw)
	}
	s.swept = 9900 // the sweep found as much
	if text := s.table(); strings.Contains(text, "*:") || strings.Contains(text, "1.000*") {
		t.Errorf("marked:\n%s", text)
	}
}

func TestTheEstimateStandsBesideWhatWasMeasured(t *testing.T) {
	if got := (estimate{low: 9000, high: 11000}).against(10000); !strings.Contains(got, "9000 to 11000/s, 0.90 to 1.10 of that") {
		t.Error(got)
	}
	if got := (estimate{why: "TooFewSamples: 3"}).against(10000); !strings.HasSuffix(got, "not known: TooFewSamples: 3") {
		t.Error(got)
	}
}

func TestGoodputCountsWhatWasWithinTheObjective(t *testing.T) {
	l := harness.LoadResult{Sent: 10, Completed: 4, Dropped: 6, WindowSeconds: 2,
		Histogram: histogram(time.Millisecond, 2*time.Millisecond, 3*time.Millisecond, time.Second)}
	r := row{routers: histogram(time.Millisecond, time.Millisecond, time.Millisecond, 40*time.Millisecond, time.Second)}
	r.count(l, setup.latency())
	if r.within != 1.5 || r.inTime != 1.6 || r.answered != 2 || r.offered != 5 || r.refused != 0.6 {
		t.Fatalf("got %+v", r)
	}
}

func TestALoadThatWasNotOfferedMeasuresNothing(t *testing.T) {
	job := harness.Load{Name: "j", Rate: 1000, Duration: 10 * time.Second}
	if err := offered(job, harness.LoadResult{Sent: 9900}); err != nil {
		t.Error(err)
	}
	if err := offered(job, harness.LoadResult{Sent: 9000}); err == nil || !strings.Contains(err.Error(), "9000 requests of 10000") {
		t.Errorf("want an error that says what was sent; got %v", err)
	}
}

// A load cut short once is tried again and met nothing meanwhile; one cut short every
// time ends the run, unless a higher one met the objective.
func TestALoadCutShortIsATry(t *testing.T) {
	cut := offered(harness.Load{Name: "j", Rate: 1000, Duration: 10 * time.Second}, harness.LoadResult{Sent: 9000})
	objective := 50 * time.Millisecond
	low, short := point{share: 0.92, within: 900, p99: 40000}, point{share: 0.97, within: 990, p99: 1, short: cut}
	if got := best([]point{low, short}, objective); got.share != 0.92 {
		t.Errorf("%+v", got)
	}
	if got := open([]point{low, short}, objective); !slices.Equal(got, []float64{0.97}) {
		t.Errorf("still open: %v", got)
	}
	if neverOffered([]point{low, short, short}, objective) == nil {
		t.Error("a load that was cut short every time passes for one that misses")
	}
	missed := point{share: 0.97, p99: 80000}
	if err := neverOffered([]point{low, short, missed}, objective); err != nil {
		t.Error(err)
	}
	if err := neverOffered([]point{{share: 0.7, short: cut}, low, missed}, objective); err != nil {
		t.Error(err)
	}
}

func TestRecordNamesTheDefaultControllerPlainly(t *testing.T) {
	h := histogram(40 * time.Millisecond)
	s := &Suite{Got: &harness.Measurements{}, Setup: setup, swept: 10,
		points: []point{{share: 0.7, offered: 8960, p99: 61000, client: 62000}, {share: 0.7, offered: 8960, within: 8800, p99: 33000, client: 34000}}}
	lost := &ll7.Histogram{}
	lost.RecordInf()
	s.rows = []row{
		{phase: phase{name: "observe", mode: "Observe"}, routers: lost, client: h, worst: math.Inf(1)},
		{phase: phase{name: "track", mode: "Reject", controller: "Track"}, routers: h, client: h, inTime: 9, within: 8},
		{phase: phase{name: "aiad", mode: "Reject", controller: "AIAD"}, routers: h, client: h},
	}
	s.record()
	root := t.TempDir()
	if err := s.Got.Write(root, "e2e-slo"); err != nil {
		t.Fatal("a figure that is infinite must be left out:", err)
	}
	text := s.table()
	for _, want := range []string{"unanswered", "Reject AIAD", "0.900", "61.0ms 33.0ms", "62.0ms 34.0ms"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
}
