// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestCoverageOfOtherSeeds is the long run of TestCoverage with other draws: seeds
// from LANCET_SEED_OFFSET on, of the queues that LANCET_QUEUES names (mm1,md1,mmk).
// The draws of the kept table are those from 0 on, the same every time; this tells
// whether a share near an end of its range is the method's or that of these draws.
// It is a test of its own because the table is measured again when the code of
// TestCoverage changes (measure/lancet/coverage.py).
func TestCoverageOfOtherSeeds(t *testing.T) {
	text, ok := os.LookupEnv("LANCET_SEED_OFFSET")
	if !ok {
		t.Skip("LANCET_SEED_OFFSET is not set: 7 minutes of a core for each queue")
	}
	offset, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("LANCET_SEED_OFFSET=%s: want the first seed, 0 or more", text)
	}
	experiments := 500
	if text, ok := os.LookupEnv("LANCET_EXPERIMENTS"); ok {
		if experiments, err = strconv.Atoi(text); err != nil || experiments < 1 {
			t.Fatalf("LANCET_EXPERIMENTS=%s: want a number of experiments", text)
		}
	}
	for _, m := range chosen(t, os.Getenv("LANCET_QUEUES")) {
		queue := func(seed uint64) *queue { return m.queue(seed + offset) }
		conclusive, hold := covered(m.experiment(), units(m.truth), experiments, queue)
		share := float64(hold) / float64(max(conclusive, 1))
		t.Logf("%s, seeds %d to %d: %d conclusive, %d of these hold the truth: %.4f",
			m.name, offset, offset+uint64(experiments)-1, conclusive, hold, share)
		if noise := 3 * math.Sqrt(0.95*0.05/float64(experiments)); share < 0.95-noise {
			t.Errorf("%s: %.3f of the intervals hold the truth", m.name, share)
		}
	}
}

// chosen are the heavy queues of these names; all of them without a name.
func chosen(t *testing.T, names string) []model {
	t.Helper()
	if names == "" {
		return heavyModels
	}
	var out []model
	for name := range strings.SplitSeq(names, ",") {
		before := len(out)
		for _, m := range heavyModels {
			if m.name == name {
				out = append(out, m)
			}
		}
		if len(out) == before {
			t.Fatalf("LANCET_QUEUES: %q: want some of mm1,md1,mmk", name)
		}
	}
	return out
}
