// SPDX-License-Identifier: Apache-2.0

package agentlink

import (
	"context"
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet"
)

// Follow is lancet.Agent's. One window spans all phases: what a phase leaves under
// way is waited for after the last one, not before the next.
func (l *Link) Follow(ctx context.Context, phases []lancet.Phase, rate float64) ([]lancet.Measurement, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	out, err := l.follow(ctx, phases, rate)
	if err != nil {
		return nil, fmt.Errorf("agent %s: follow: %w", l.Name, err)
	}
	return out, nil
}

func (l *Link) follow(ctx context.Context, phases []lancet.Phase, rate float64) ([]lancet.Measurement, error) {
	marks, err := l.change(ctx, phases, rate)
	if err != nil {
		return nil, err
	}
	w, err := l.complete(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := l.fetch(ctx)
	if err != nil {
		return nil, err
	}
	l.tellTraced(raw, w)
	out := make([]lancet.Measurement, len(phases))
	for i, part := range divide(raw, marks) {
		m := &out[i]
		m.Elapsed, m.Sent = span(marks[i+1].at-marks[i].at), marks[i+1].sent-marks[i].sent
		m.Streams, m.Slots = l.ready.Streams, l.slots
		m.Failed = failures(part, rate)
		if err := l.decode(part, m, unstamped(part), len(part)/recordBytes); err != nil {
			return nil, fmt.Errorf("phase %d: %w", i, err)
		}
	}
	return out, nil
}

// mark is a moment at which the load changed: the agent's time, and the requests
// it had sent until then.
type mark struct{ at, sent uint64 }

// change tells the load of every phase when its time has come, and returns the
// marks between which they lie.
func (l *Link) change(ctx context.Context, phases []lancet.Phase, rate float64) ([]mark, error) {
	length := time.Duration(0)
	for _, p := range phases {
		length += p.Duration
	}
	var marks []mark
	at := time.Now()
	for i, p := range phases {
		if err := l.call(ctx, patience, map[string]any{"op": "load", "rate": p.Load}, nil); err != nil {
			return nil, err
		}
		if i == 0 {
			request := map[string]any{"op": "measure", "samples": maxSamples, "samplingRate": rate, "seconds": max(length.Seconds(), 0.001)}
			if err := l.call(ctx, patience, request, nil); err != nil {
				return nil, err
			}
		}
		m, err := l.mark(ctx)
		if err != nil {
			return nil, err
		}
		marks = append(marks, m)
		at = at.Add(p.Duration)
		if err := l.until(ctx, at); err != nil {
			return nil, err
		}
	}
	last, err := l.mark(ctx)
	marks = append(marks, last)
	for i := range marks[1:] {
		if err == nil && (marks[i+1].at <= marks[i].at || marks[i+1].sent < marks[i].sent) {
			err = fmt.Errorf("poll: %d ns and %d sent, before that %d ns and %d sent: they never fall",
				marks[i+1].at, marks[i+1].sent, marks[i].at, marks[i].sent)
		}
	}
	return marks, err
}

func (l *Link) mark(ctx context.Context) (mark, error) {
	var poll struct {
		NowNanoseconds uint64 `json:"nowNanoseconds"`
		Since          struct {
			Sent uint64 `json:"sent"`
		} `json:"since"`
	}
	err := l.call(ctx, patience, map[string]any{"op": "poll"}, &poll)
	return mark{poll.NowNanoseconds, poll.Since.Sent}, err
}

// until waits, with signs of life: nobody else gives them meanwhile.
func (l *Link) until(ctx context.Context, end time.Time) error {
	for {
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(left, l.lease/4)):
		}
		if left > l.lease/4 {
			if err := l.call(ctx, patience, map[string]any{"op": "alive"}, nil); err != nil {
				return err
			}
		}
	}
}

// divide deals the records out over the phases, by when their requests were due.
func divide(raw []byte, marks []mark) [][]byte {
	phases := len(marks) - 1
	out := make([][]byte, phases)
	for i := 0; i+recordBytes <= len(raw); i += recordBytes {
		due := decodeRecord(raw[i:]).intended
		// The window was open a little before the first mark, and behind the last.
		k := sort.Search(phases-1, func(k int) bool { return marks[k+1].at > due })
		out[k] = append(out[k], raw[i:i+recordBytes]...)
	}
	return out
}

// failures are those of all requests, of which the records are a share.
func failures(raw []byte, share float64) map[string]uint64 {
	counts := map[string]float64{}
	for i := 0; i+recordBytes <= len(raw); i += recordBytes {
		if r := decodeRecord(raw[i:]); r.outcome != 0 {
			counts[outcomes[min(int(r.outcome), len(outcomes)-1)]]++
		}
	}
	out := map[string]uint64{}
	for cause, n := range counts {
		out[cause] = uint64(math.Round(n / share))
	}
	return out
}

func unstamped(raw []byte) (n int) {
	for i := 0; i+recordBytes <= len(raw); i += recordBytes {
		if r := decodeRecord(raw[i:]); r.outcome == 0 && r.stamps == 0 {
			n++
		}
	}
	return n
}
