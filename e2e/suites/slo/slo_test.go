// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"math"
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
	points := []point{{8000, 7900, 20000}, {9000, 8800, 60000}, {10000, 9900, 50000}, {11000, 10800, 50001}, {12000, 9000, math.Inf(1)}}
	best, err := capacity(points, setup.latency())
	if err != nil || best.offered != 10000 {
		t.Fatalf("got %+v, %v", best, err)
	}
	if _, err := capacity(points[3:], setup.latency()); err == nil {
		t.Fatal("a sweep that never met the objective has no capacity")
	}
}

func TestGoodputCountsWhatWasWithinTheObjective(t *testing.T) {
	l := harness.LoadResult{Sent: 10, Completed: 4, Dropped: 6, WindowSeconds: 2,
		Histogram: histogram(time.Millisecond, 2*time.Millisecond, 3*time.Millisecond, time.Second)}
	var r row
	r.count(l, setup.latency())
	if r.within != 1.5 || r.answered != 2 || r.offered != 5 || r.refused != 0.6 {
		t.Fatalf("got %+v", r)
	}
}

func TestALoadThatWasNotOfferedMeasuresNothing(t *testing.T) {
	job := harness.Load{Name: "j", Rate: 1000, Duration: 10 * time.Second}
	if err := offered(job, harness.LoadResult{Sent: 9900}); err != nil {
		t.Error(err)
	}
	if err := offered(job, harness.LoadResult{Sent: 9000}); err == nil || !strings.Contains(err.Error(), "--service") {
		t.Errorf("want an error that says what to do; got %v", err)
	}
}

func TestRecordNamesTheDefaultControllerPlainly(t *testing.T) {
	h := histogram(40 * time.Millisecond)
	s := &Suite{Got: &harness.Measurements{}, Setup: setup, capacity: 10}
	lost := &ll7.Histogram{}
	lost.RecordInf()
	s.rows = []row{
		{phase: phase{name: "observe", mode: "Observe"}, routers: lost, client: h, worst: math.Inf(1)},
		{phase: phase{name: "track", mode: "Reject", controller: "Track"}, routers: h, client: h, within: 9},
		{phase: phase{name: "aiad", mode: "Reject", controller: "AIAD"}, routers: h, client: h},
	}
	if err := s.record(); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := s.Got.Write(root, "e2e-slo"); err != nil {
		t.Fatal("a figure that is infinite must be left out:", err)
	}
	text := table(s.Setup, s.capacity, s.rows)
	for _, want := range []string{"unanswered", "Reject AIAD", "0.900"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	s.rows = s.rows[:2]
	if s.record() == nil {
		t.Error("an overload that was not measured must be an error")
	}
}
