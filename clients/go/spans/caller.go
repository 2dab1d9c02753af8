// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"context"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
)

// Request sends the client's span of a traced request that was made otherwise;
// failure says why it has no answer, "" that it has.
func (e *Exporter) Request(id uint64, start, end time.Time, failure string, attributes ...attribute.KeyValue) {
	e.send(span{
		id: id, self: Client(id), name: "r2p2 request", kind: trace.SpanKindClient, start: start, end: end, failure: failure, attributes: attributes,
	})
}

// Caller sends requests and traces a share of them.
type Caller struct {
	Client   *r2p2.Client
	Exporter *Exporter // nil: nothing is traced
	Share    float64   // of the requests that are traced, 0 to 1; requests with a trace id always are
}

// Do is Client.Do. The span of a traced request is the root of a trace of its own,
// because its id follows from the eight bytes that travel; it links to the span of
// ctx, where there is one.
func (c *Caller) Do(ctx context.Context, r *r2p2.Request) (*r2p2.ReplyMsg, error) {
	if c.Exporter == nil || r.Trace == 0 && rand.Float64() >= c.Share {
		return c.Client.Do(ctx, r)
	}
	traced := *r
	for traced.Trace == 0 {
		traced.Trace = rand.Uint64()
	}
	start := time.Now()
	reply, err := c.Client.Do(ctx, &traced)
	s := span{
		id: traced.Trace, self: Client(traced.Trace), name: "r2p2 request", kind: trace.SpanKindClient, start: start, end: time.Now(),
		attributes: []attribute.KeyValue{attribute.Int("r2p2.request.bytes", len(r.Payload)), attribute.Int("r2p2.policy", int(r.Policy))},
	}
	if err != nil {
		s.failure = err.Error()
	} else {
		s.attributes = append(s.attributes, attribute.Int("r2p2.reply.bytes", len(reply.Payload)), attribute.String("r2p2.worker", reply.From.String()))
	}
	if parent := trace.SpanContextFromContext(ctx); parent.IsValid() {
		s.links = []trace.Link{{SpanContext: parent}}
	}
	c.Exporter.send(s)
	return reply, err
}
