// SPDX-License-Identifier: Apache-2.0

package hedgemodel

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
)

// where the operator's gate says that copies pay, they do no harm: with
// other draws, and to a service whose times are neither of the two that it asks
// about. The simulator's grid (laedge_auto_harm_cells) is about its own gate.
func TestR254NoHarmWhereItPays(t *testing.T) {
	needs.Draws(t)
	const harm = 1.05 // of the percentile without copies
	var pays, harmed, cells int
	for _, size := range []struct{ workers, routers int }{{4, 2}, {16, 1}, {16, 2}} {
		for _, share := range []float64{0.1, 0.03, 0.01} {
			for _, load := range []float64{0.6, 0.4, 0.25, 0.1} {
				if cells++; cells%oneIn != 0 {
					continue
				}
				of := aService()
				of.Workers, of.Routers, of.HiccupShare, of.Load = size.workers, size.routers, share, load
				if AskAll(guesses(of)...).Verdict != Pays {
					continue
				}
				pays++
				for name, s := range truths(of) {
					plain := s
					plain.BusyShare = 0
					without, with := Run(plain), Run(s)
					if with.Median > harm*without.Median || with.Tail > harm*without.Tail {
						harmed++
						t.Errorf("%+v, %s: p50 %.2f to %.2f, p99 %.2f to %.2f", size, name, without.Median, with.Median, without.Tail, with.Tail)
					}
				}
			}
		}
	}
	t.Logf("%d cells pay, %d services of them are harmed", pays, harmed)
	if pays < 8/oneIn {
		t.Errorf("copies pay in %d cells only: the grid shows nothing", pays)
	}
	report(t, map[string]int{"laedge_auto_harm_cells_router": harmed, "laedge_auto_paying_cells_router": pays})
}

// report writes a measurements file (measure/report/report.py) where HEDGE_MEASUREMENTS
// names one (make figures).
func report(t *testing.T, figures map[string]int) {
	t.Helper()
	path, ok := os.LookupEnv("HEDGE_MEASUREMENTS")
	if !ok {
		return
	}
	type figure struct {
		Name  string `json:"name"`
		Value int    `json:"value"`
	}
	var rows []figure
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		rows = append(rows, figure{name, figures[name]})
	}
	raw, err := json.MarshalIndent(rows, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// guesses are what the controller asks: both distributions, now and at a higher load.
func guesses(s Service) (out []Service) {
	for _, fixed := range []bool{false, true} {
		for _, load := range []float64{s.Load, 1.2*s.Load + 0.02} {
			one := s
			one.Fixed, one.Load = fixed, load
			out = append(out, one)
		}
	}
	return out
}

// truths are services that look like it.
func truths(s Service) map[string]Service {
	s.Seed = 77
	fixed, bimodal := s, s
	fixed.Fixed, bimodal.Bimodal = true, true
	return map[string]Service{"exponential": s, "fixed": fixed, "bimodal": bimodal}
}

// The model's bimodal service times have the mean of the others.
func TestServiceTimesHaveMeanOne(t *testing.T) {
	const steps = 100000
	for _, s := range []Service{{}, {Fixed: true}, {Bimodal: true}} {
		sum := 0.0
		for i := range steps {
			sum += s.serviceTime(-math.Log((float64(i) + 0.5) / steps))
		}
		if mean := sum / steps; math.Abs(mean-1) > 1e-3 {
			t.Errorf("%+v: %v", s, mean)
		}
	}
}
