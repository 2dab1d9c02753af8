// SPDX-License-Identifier: Apache-2.0

// How far to trust a percentile: its 95 % confidence interval.
package slo

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/stretches"
)

const (
	// windowParts is in how many parts a window is read.
	windowParts = stretches.Parts
	// confidenceLevel is the one the API promises.
	confidenceLevel = stretches.Confidence
)

// span is the interval, and what it rests on.
type span struct {
	low, high dataplane.Value
	// open: the requests are so alike in stretches that nothing bounds the
	// percentile from above, though all of them were answered. Then high is infinite.
	open bool
	// alone is where the interval would begin if requests were independent. It is not
	// read where the interval has an end.
	alone dataplane.Value
	// unknown: they all lie in one stretch, so nothing says how alike they are.
	unknown bool
	// independent is as how many independent requests they count; 0 where that
	// was not asked.
	independent uint64
}

// written is the interval for people.
func (s span) written() string {
	switch {
	case s.unknown:
		return "95 % interval not known"
	case s.open:
		return fmt.Sprintf("95 %% interval %s and above, without an end", written(s.low))
	}
	return fmt.Sprintf("95 %% interval %s to %s", written(s.low), written(s.high))
}

// evidence says what weakens the interval, where something does.
func (m *measurement) evidence() string {
	switch {
	case len(m.unparted) > 0:
		return fmt.Sprintf("; requests are taken as independent, the true interval is wider: %s does not tell how they differ from part to part of the window, as an older version does not",
			strings.Join(m.unparted, ", "))
	case m.unknown:
		return fmt.Sprintf("; its %d requests lie in one part of the window: nothing says how independent they are", m.samples)
	case m.independent < m.samples/3:
		return fmt.Sprintf("; its %d requests come fast and slow in stretches and show as much as %d independent ones", m.samples, m.independent)
	}
	return ""
}

// inParts merges the windows of all who measure part by part. They are nil where
// somebody with requests does not tell them.
func inParts(all []part) (parts []*ll7.Histogram, without []string) {
	for _, p := range all {
		if p.Err != nil || p.Reply == nil || p.Reply.Histogram == nil {
			continue
		}
		if p.Reply.Parts == nil && p.Reply.Histogram.Total() > 0 {
			without = append(without, p.Name)
		}
		for i, h := range p.Reply.Parts {
			if i == len(parts) {
				parts = append(parts, &ll7.Histogram{})
			}
			parts[i].Merge(h)
		}
	}
	if len(without) > 0 {
		return nil, without
	}
	return parts, nil
}

// shareOf is a percentile as a share of one.
func shareOf(percentile string) (float64, bool) {
	p, ok := new(big.Rat).SetString(percentile)
	if !ok {
		return 0, false
	}
	share, _ := new(big.Rat).Quo(p, big.NewRat(100, 1)).Float64()
	return share, true
}

// spanOf reads the interval from the parts of the window, where everybody tells
// them.
func spanOf(whole *dataplane.Histogram, parts []*ll7.Histogram, percentile string) (span, error) {
	p, ok := shareOf(percentile)
	if !ok || whole.Total() == 0 {
		return span{}, nil
	}
	if parts != nil {
		of := stretches.New(parts, p).Interval()
		out := span{low: of.Low, high: of.High, open: of.Open, unknown: of.Unknown, independent: of.Independent}
		if out.open {
			var err error
			if out.alone, _, err = independently(whole, p); err != nil {
				return span{}, err
			}
		}
		return out, nil
	}
	low, high, err := independently(whole, p)
	return span{low: low, high: high}, err
}

// independently reads the interval's ends from the merged histogram, as if no request had anything to do with its neighbour.
func independently(h *dataplane.Histogram, p float64) (low, high dataplane.Value, err error) {
	low, high, _, err = stretches.Independently(h, p)
	return low, high, err
}
