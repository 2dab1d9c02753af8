// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/clients/go/spans"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// tracer fetches traced requests from the dataplane and sends them on as
// spans. The dataplane keeps the newest thousand, so they are asked for often.
type tracer struct {
	link     *link
	exporter *spans.Exporter
	log      *slog.Logger

	role           string
	incarnation    uint64
	after          uint64
	sent, lost     atomic.Uint64
	bad            atomic.Uint64
	refusedAlready bool
}

// traceEvery is how often traces are asked for.
const traceEvery = time.Second

// run asks until ctx ends, then once more.
func (t *tracer) run(ctx context.Context) {
	tick := time.NewTicker(traceEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			end, done := context.WithTimeout(context.Background(), shutdownTime)
			defer done()
			t.round(end)
			if err := t.exporter.Close(end); err != nil {
				t.log.Warn("traces: the last spans were not taken", "error", err)
			}
			return
		case <-tick.C:
			t.round(ctx)
		}
	}
}

// round takes all there are. A dataplane that does not answer is asked again the
// next time; one that keeps none is named once.
func (t *tracer) round(ctx context.Context) {
	hello, err := ask(ctx, t.link, (*dataplane.Socket).Hello)
	if err != nil {
		return
	}
	if hello.Incarnation != t.incarnation {
		t.role, t.incarnation, t.after = hello.Role, hello.Incarnation, 0
	}
	for {
		got, err := ask(ctx, t.link, func(s *dataplane.Socket, ctx context.Context) (*ctl.Traces, error) { return s.Traces(ctx, t.after) })
		if err != nil {
			var refusal *dataplane.CtlError
			if errors.As(err, &refusal) && !t.refusedAlready {
				t.refusedAlready = true
				t.log.Warn("traces: the dataplane keeps none", "error", err)
			}
			return
		}
		t.take(got, time.Now())
		if len(got.Traces) < ctl.MaxTraces {
			return
		}
	}
}

func (t *tracer) take(got *ctl.Traces, wall time.Time) {
	t.after = got.Next
	t.lost.Add(got.Lost)
	for _, one := range got.Traces {
		if err := t.exporter.Dataplane(t.role, one, got.NowNanoseconds, wall); err != nil {
			if t.bad.Add(1) == 1 {
				t.log.Warn("a trace of the dataplane cannot be read", "error", err)
			}
			continue
		}
		t.sent.Add(1)
	}
}
