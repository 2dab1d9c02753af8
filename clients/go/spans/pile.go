// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Bounds of what waits for the receiver.
const (
	pileMost  = 65_536
	batchMost = 512
	pileEvery = time.Second
)

// pile keeps ended spans until they are sent, and counts those that are not. (The
// SDK's batcher drops without a count.)
type pile struct {
	out  sdktrace.SpanExporter
	lost atomic.Uint64

	mu      sync.Mutex
	waiting []sdktrace.ReadOnlySpan
	sending sync.Mutex
}

func (*pile) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd is called by whoever ends a span; it does not wait.
func (p *pile) OnEnd(s sdktrace.ReadOnlySpan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == pileMost {
		p.lost.Add(1)
		return
	}
	p.waiting = append(p.waiting, s)
}

func (p *pile) take() []sdktrace.ReadOnlySpan {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.waiting), batchMost)
	batch := p.waiting[:n:n]
	p.waiting = p.waiting[n:]
	return batch
}

// ForceFlush sends all there are, batch by batch, up to one that is not taken.
func (p *pile) ForceFlush(ctx context.Context) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	for {
		batch := p.take()
		if len(batch) == 0 {
			return nil
		}
		if err := p.out.ExportSpans(ctx, batch); err != nil {
			p.lost.Add(uint64(len(batch)))
			return fmt.Errorf("%d spans were not taken: %w", len(batch), err)
		}
	}
}

func (p *pile) run(ctx context.Context) {
	tick := time.NewTicker(pileEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = p.ForceFlush(ctx) // counted, and Close says what became of the rest
		}
	}
}

// Shutdown sends the rest.
func (p *pile) Shutdown(ctx context.Context) error {
	err := p.ForceFlush(ctx)
	p.mu.Lock()
	p.lost.Add(uint64(len(p.waiting)))
	p.waiting = nil
	p.mu.Unlock()
	return err
}
