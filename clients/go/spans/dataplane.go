// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
)

// Dataplane sends what a router or server, by its role, saw of a traced request.
// The dataplane's clock was at now, in nanoseconds, when the wall's was at wall.
func (e *Exporter) Dataplane(role string, t ctl.Trace, now uint64, wall time.Time) error {
	id, err := strconv.ParseUint(t.ID, 16, 64)
	if err != nil || id == 0 {
		return fmt.Errorf("traces: id %q: must be 16 hexadecimal digits, not all 0", t.ID)
	}
	if t.StartNanoseconds > t.MiddleNanoseconds || t.MiddleNanoseconds > t.EndNanoseconds || t.EndNanoseconds > now {
		return fmt.Errorf("traces: %s: %d, %d, %d, read at %d: times out of order", t.ID, t.StartNanoseconds, t.MiddleNanoseconds, t.EndNanoseconds, now)
	}
	at := func(ns uint64) time.Time { return wall.Add(-time.Duration(now - ns)) }
	s := span{
		id: id, start: at(t.StartNanoseconds), end: at(t.EndNanoseconds),
		attributes: []attribute.KeyValue{
			attribute.String("r2p2.worker", t.Worker), attribute.String("r2p2.client", t.Client), attribute.Int("r2p2.request.id", int(t.Request)),
		},
	}
	if t.Dropped {
		s.failure = "not executed: DROP"
	}
	waited := attribute.Float64("r2p2.wait.seconds", float64(t.MiddleNanoseconds-t.StartNanoseconds)/1e9)
	switch role {
	case ctl.RoleRouter:
		s.self, s.parent, s.name, s.kind = Router(id, t.Worker), Client(id), "r2p2 router", trace.SpanKindServer
		s.attributes = append(s.attributes, waited)
		e.send(s)
	case ctl.RoleServer:
		s.self, s.parent, s.name, s.kind = Server(id, t.Worker), Client(id), "r2p2 server", trace.SpanKindServer
		if t.Routed {
			s.parent = Router(id, t.Worker)
		}
		e.send(s)
		s.self, s.parent, s.name, s.kind = Handler(id, t.Worker), s.self, "r2p2 handler", trace.SpanKindInternal
		s.start, s.attributes = at(t.MiddleNanoseconds), nil
		e.send(s)
	default:
		return fmt.Errorf("traces: role %q: must be router or server", role)
	}
	return nil
}
