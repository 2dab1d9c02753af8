// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// memory holds series for Prometheus' engine. Its own test storage would bring
// the clients of three clouds along.
type memory struct {
	storage.LabelQuerier
	series []storage.Series
}

type sample struct {
	at    int64 // ms
	value float64
}

func (s sample) ST() int64                        { return 0 }
func (s sample) T() int64                         { return s.at }
func (s sample) F() float64                       { return s.value }
func (s sample) H() *histogram.Histogram          { return nil }
func (s sample) FH() *histogram.FloatHistogram    { return nil }
func (s sample) Type() chunkenc.ValueType         { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample              { return s }
func (m *memory) Close() error                    { return nil }
func (m *memory) at(int64, int64) storage.Querier { return m }

// loaded reads series in the notation of promtool's tests, one a line with one
// value a minute: `name{label="x"} 0+1x10 5 _x3`.
func loaded(t *testing.T, text string) *memory {
	t.Helper()
	m := &memory{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{int64(i) * time.Minute.Milliseconds(), v.Value})
			}
		}
		m.series = append(m.series, storage.NewListSeries(name, samples))
	}
	return m
}

func (m *memory) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var out []storage.Series
	for _, s := range m.series {
		if !slices.ContainsFunc(matchers, func(want *labels.Matcher) bool { return !want.Matches(s.Labels().Get(want.Name)) }) {
			out = append(out, s)
		}
	}
	return &set{series: out, i: -1}
}

// set hands the series out in turn.
type set struct {
	series []storage.Series
	i      int
}

func (s *set) Next() bool                        { s.i++; return s.i < len(s.series) }
func (s *set) At() storage.Series                { return s.series[s.i] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }
