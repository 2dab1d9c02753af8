// SPDX-License-Identifier: Apache-2.0

package agentlink

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet"
)

// maxSamples is what one window can hold.
const maxSamples = 1_000_000

// pollEvery is how often a window is asked after: rarely enough to cost nothing.
const pollEvery = 100 * time.Millisecond

// unstampedShare is the part of samples without a stamp above which bursts may be
// missing from the stamped ones (L-54).
const unstampedShare = 0.05

// window is the agent's account of the last measurement.
type window struct {
	Complete           bool              `json:"complete"`
	ElapsedNanoseconds int64             `json:"elapsedNanoseconds"`
	Sent               uint64            `json:"sent"`
	Failed             map[string]uint64 `json:"failed"`
	Sampled            int               `json:"sampled"`
	Unstamped          int               `json:"unstamped"`

	zero time.Time // the agent's time 0, by our clock
}

// Load is lancet.Agent's.
func (l *Link) Load(ctx context.Context, perSecond float64) error {
	return l.simple(ctx, patience, map[string]any{"op": "load", "rate": perSecond})
}

// Stop is lancet.Agent's. It waits for what is on the way.
func (l *Link) Stop(ctx context.Context) error {
	return l.simple(ctx, setup, map[string]any{"op": "stop"})
}

func (l *Link) simple(ctx context.Context, wait time.Duration, request map[string]any) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err := l.call(ctx, wait, request, nil); err != nil {
		return fmt.Errorf("agent %s: %v: %w", l.Name, request["op"], err)
	}
	return nil
}

// Measure is lancet.Agent's.
func (l *Link) Measure(ctx context.Context, samples int, rate float64, limit time.Duration) (lancet.Measurement, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	m, err := l.measure(ctx, samples, rate, limit)
	if err != nil {
		return m, fmt.Errorf("agent %s: measure: %w", l.Name, err)
	}
	return m, nil
}

func (l *Link) measure(ctx context.Context, samples int, rate float64, limit time.Duration) (lancet.Measurement, error) {
	err := l.call(ctx, patience, map[string]any{
		"op": "measure", "samples": min(samples, maxSamples), "samplingRate": rate, "seconds": max(limit.Seconds(), 0.001),
	}, nil)
	if err != nil {
		return lancet.Measurement{}, err
	}
	w, err := l.complete(ctx)
	if err != nil {
		return lancet.Measurement{}, err
	}
	if w.ElapsedNanoseconds <= 0 {
		return lancet.Measurement{}, fmt.Errorf("window of %d ns", w.ElapsedNanoseconds)
	}
	raw, err := l.fetch(ctx)
	if err != nil {
		return lancet.Measurement{}, err
	}
	m := lancet.Measurement{Elapsed: time.Duration(w.ElapsedNanoseconds), Sent: w.Sent, Failed: map[string]uint64{}, Streams: l.ready.Streams, Slots: l.slots}
	for cause, n := range w.Failed {
		if n > 0 {
			m.Failed[cause] = n
		}
	}
	l.tellTraced(raw, w)
	return m, l.decode(raw, &m, w.Unstamped, w.Sampled)
}

// decode reads the records of a measurement, unstamped of which lack a stamp.
func (l *Link) decode(raw []byte, m *lancet.Measurement, unstamped, sampled int) (err error) {
	m.Late = lateness(raw)
	if l.loadOnly {
		m.Gaps, err = decodeGaps(raw)
		return err
	}
	m.Samples, m.Gaps, err = decodeSamples(raw, l.latest)
	if share := float64(unstamped) / float64(max(sampled, 1)); l.ready.Timestamps != "software" && share > unstampedShare {
		m.Warnings = append(m.Warnings, fmt.Sprintf("agent %s: %.1f %% of the samples have no %s stamp: bursts may look faster than they are (L-54)",
			l.Name, 100*share, l.ready.Timestamps))
	}
	return err
}

func (l *Link) tellTraced(raw []byte, w window) {
	if l.OnTraced == nil {
		return
	}
	for _, t := range decodeTraced(raw, w.zero) {
		l.OnTraced(t)
	}
}

// complete waits until every request of the window has ended.
func (l *Link) complete(ctx context.Context) (window, error) {
	for {
		var poll struct {
			Window         *window `json:"window"`
			NowNanoseconds int64   `json:"nowNanoseconds"`
		}
		if err := l.call(ctx, patience, map[string]any{"op": "poll"}, &poll); err != nil {
			return window{}, err
		}
		if poll.Window == nil {
			return window{}, fmt.Errorf("poll has no window")
		}
		if poll.Window.Complete {
			poll.Window.zero = time.Now().Add(-time.Duration(poll.NowNanoseconds))
			return *poll.Window, nil
		}
		select {
		case <-ctx.Done():
			return window{}, ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// fetch reads the raw samples of the window.
func (l *Link) fetch(ctx context.Context) ([]byte, error) {
	var head struct {
		Count       int `json:"count"`
		RecordBytes int `json:"recordBytes"`
		Bytes       int `json:"bytes"`
	}
	if err := l.call(ctx, patience, map[string]any{"op": "samples"}, &head); err != nil {
		return nil, err
	}
	if head.RecordBytes != recordBytes || head.Count < 0 || head.Count > maxSamples || head.Bytes != head.Count*recordBytes {
		return nil, fmt.Errorf("samples: %d records of %d bytes announced as %d bytes; want records of %d",
			head.Count, head.RecordBytes, head.Bytes, recordBytes)
	}
	raw := make([]byte, head.Bytes)
	defer l.within(ctx, setup)()
	if _, err := io.ReadFull(l.reader, raw); err != nil {
		return nil, fmt.Errorf("read samples: %w", broken(ctx, err))
	}
	return raw, nil
}
