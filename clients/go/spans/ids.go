// SPDX-License-Identifier: Apache-2.0

// Package spans makes OpenTelemetry spans of traced R2P2 requests and sends
// them by OTLP. Eight bytes travel with a request, and routers and servers tell what
// they saw of it each for itself; so ids of spans follow from these bytes and the
// worker's address, and the parts of a request meet in whatever collects them.
//
//	client                     Caller.Do
//	└─ router                  REQ0 in → FEEDBACK (no router: left out)
//	   └─ server               first packet in → last packet out
//	      └─ handler           hand-off → last packet out
package spans

import (
	"crypto/sha256"
	"encoding/binary"

	"go.opentelemetry.io/otel/trace"
)

// TraceID of a request. Its last eight bytes are the ones that travelled.
func TraceID(id uint64) trace.TraceID {
	var out trace.TraceID
	copy(out[:8], digest(id, "trace", ""))
	binary.BigEndian.PutUint64(out[8:], id)
	return out
}

// Client, Router, Server and Handler are the ids of its spans. A copy of a request
// is another worker's, and so another span.
func Client(id uint64) trace.SpanID                 { return spanID(id, "client", "") }
func Router(id uint64, worker string) trace.SpanID  { return spanID(id, "router", worker) }
func Server(id uint64, worker string) trace.SpanID  { return spanID(id, "server", worker) }
func Handler(id uint64, worker string) trace.SpanID { return spanID(id, "handler", worker) }

func spanID(id uint64, kind, worker string) trace.SpanID {
	var out trace.SpanID
	copy(out[:], digest(id, kind, worker))
	return out
}

func digest(id uint64, kind, worker string) []byte {
	text := binary.BigEndian.AppendUint64([]byte("r2p2:"+kind+":"+worker+":"), id)
	sum := sha256.Sum256(text)
	return sum[:]
}
