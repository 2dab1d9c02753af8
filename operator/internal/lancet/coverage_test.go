// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
)

// L-43, L-44, L-49: the whole method, not only its formula, holds the truth in 95
// of 100 conclusive experiments. LANCET_EXPERIMENTS=500 makes the long run, at
// loads where samples are far from independent; LANCET_MEASUREMENTS names the file
// its figures go to (make lancet-coverage).
func TestCoverage(t *testing.T) {
	needs.Draws(t)
	experiments, models := 6, lightModels
	if text, ok := os.LookupEnv("LANCET_EXPERIMENTS"); ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("LANCET_EXPERIMENTS=%s: want a number of experiments", text)
		}
		experiments, models = n, heavyModels
	}
	var figures []figure
	for _, m := range models {
		conclusive, hold := covered(m.experiment(), units(m.truth), experiments, m.queue)
		share := float64(hold) / float64(max(conclusive, 1))
		t.Logf("%s: %d of %d conclusive, %.3f of these hold the truth", m.name, conclusive, experiments, share)
		figures = append(figures, figure{"lancet_ci_coverage_" + m.name, share},
			figure{"lancet_conclusive_share_" + m.name, float64(conclusive) / float64(experiments)})
		if conclusive*10 < experiments*9 {
			t.Errorf("%s: only %d of %d conclusive", m.name, conclusive, experiments)
		}
		if noise := 3 * math.Sqrt(0.95*0.05/float64(experiments)); share < 0.95-noise {
			t.Errorf("%s: %.3f of the intervals hold the truth", m.name, share)
		}
	}
	write(t, append(figures, figure{"lancet_experiments", float64(experiments)}))
}

// figure is a line of a measurements file (measure/report/report.py).
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

func write(t *testing.T, figures []figure) {
	t.Helper()
	path, ok := os.LookupEnv("LANCET_MEASUREMENTS")
	if !ok {
		return
	}
	raw, err := json.MarshalIndent(figures, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// covered runs experiments against queues whose percentile is known. It returns
// how many were conclusive, and how many of those hold the truth.
func covered(e Experiment, truth time.Duration, experiments int, make func(seed uint64) *queue) (conclusive, hold int) {
	type outcome struct{ conclusive, hold bool }
	outcomes := parallel(experiments, func(i int) outcome {
		q := make(uint64(i))
		result, err := Run(context.Background(), e, q.agents(), q)
		if err != nil || !result.Conclusive {
			return outcome{}
		}
		got, ok := result.At(e.Percentile)
		return outcome{true, ok && got.Low <= truth && truth <= got.High}
	})
	for _, o := range outcomes {
		if o.conclusive {
			conclusive++
		}
		if o.hold {
			hold++
		}
	}
	return conclusive, hold
}
