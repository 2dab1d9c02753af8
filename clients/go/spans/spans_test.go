// SPDX-License-Identifier: Apache-2.0

package spans_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/clients/go/spans"
	"github.com/bobtail-dev/bobtail/clients/go/spans/otlptest"
)

func exporter(t *testing.T, r *otlptest.Receiver, name string) *spans.Exporter {
	t.Helper()
	e, err := spans.NewExporter(t.Context(), r.URL, name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func closed(t *testing.T, e *spans.Exporter) {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), 30*time.Second)
	defer done()
	if err := e.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

func pair(t *testing.T, h r2p2.HandlerFunc) (*r2p2.Server, *r2p2.Client) {
	t.Helper()
	s, err := r2p2.NewServer(r2p2.ServerConfig{Address: netip.MustParseAddr("127.0.0.1"), Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c, err := r2p2.Dial(t.Context(), r2p2.ClientConfig{Targets: []string{s.Addrs()[0].String()}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return s, c
}

// one is the only span of a name.
func one(t *testing.T, r *otlptest.Receiver, name string) *tracepb.Span {
	t.Helper()
	all := r.Spans()
	if len(all[name]) != 1 {
		t.Fatalf("%d spans %q, want 1, of %v", len(all[name]), name, all)
	}
	return all[name][0]
}

// what client and server saw of a request meets in one trace, though each
// tells for itself and eight bytes alone travelled.
func TestATracedRequestIsOneTrace(t *testing.T) {
	s, c := pair(t, func(_ context.Context, r *r2p2.ServerRequest) ([]byte, error) {
		time.Sleep(5 * time.Millisecond)
		return r.Payload, nil
	})
	r := otlptest.Start(t)
	client, server := exporter(t, r, "shop"), exporter(t, r, "echo")
	caller := &spans.Caller{Client: c, Exporter: client, Share: 1}
	outside := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	if _, err := caller.Do(trace.ContextWithSpanContext(t.Context(), outside), &r2p2.Request{Payload: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	traces, _, lost := s.Traces(0, 10)
	if len(traces) != 1 || lost != 0 {
		t.Fatalf("%d traces, %d lost", len(traces), lost)
	}
	now := uint64(s.Uptime())
	t0 := traces[0]
	err := server.Dataplane(ctl.RoleServer, ctl.Trace{
		ID: fmt.Sprintf("%016x", t0.ID), StartNanoseconds: uint64(t0.Start), MiddleNanoseconds: uint64(t0.Handed), EndNanoseconds: uint64(t0.End),
		Worker: t0.Worker.String(), Client: t0.Client.String(), Request: t0.Request,
	}, now, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	closed(t, client)
	closed(t, server)
	root, child, handler := one(t, r, "r2p2 request"), one(t, r, "r2p2 server"), one(t, r, "r2p2 handler")
	if len(root.ParentSpanId) != 0 || !bytes.Equal(child.ParentSpanId, root.SpanId) || !bytes.Equal(handler.ParentSpanId, child.SpanId) {
		t.Errorf("parents %x, %x of %x, %x of %x", root.ParentSpanId, child.ParentSpanId, root.SpanId, handler.ParentSpanId, child.SpanId)
	}
	if id := spans.TraceID(t0.ID); !bytes.Equal(root.TraceId, id[:]) || !bytes.Equal(child.TraceId, id[:]) || !bytes.Equal(handler.TraceId, id[:]) {
		t.Errorf("traces %x, %x, %x, want %x", root.TraceId, child.TraceId, handler.TraceId, id)
	}
	if took := handler.EndTimeUnixNano - handler.StartTimeUnixNano; took < 5e6 || handler.StartTimeUnixNano < child.StartTimeUnixNano {
		t.Errorf("the handler took %d ns, and sleeps for 5 ms", took)
	}
	if root.StartTimeUnixNano > child.StartTimeUnixNano+1e6 || root.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET {
		t.Errorf("the client's span begins at %d, the server's at %d; status %v", root.StartTimeUnixNano, child.StartTimeUnixNano, root.Status)
	}
	if outer := outside.SpanID(); len(root.Links) != 1 || !bytes.Equal(root.Links[0].SpanId, outer[:]) {
		t.Errorf("links %v", root.Links)
	}
	if names, _ := r.Services(); len(names) != 2 {
		t.Errorf("services %v", names)
	}
}

// Tracing is off unless it is asked for, and then a share of the requests.
func TestSampling(t *testing.T) {
	s, c := pair(t, func(_ context.Context, r *r2p2.ServerRequest) ([]byte, error) { return r.Payload, nil })
	send := func(caller *spans.Caller, n int) (traced int) {
		t.Helper()
		_, before, _ := s.Traces(0, 2000)
		for range n {
			if _, err := caller.Do(t.Context(), &r2p2.Request{}); err != nil {
				t.Fatal(err)
			}
		}
		_, after, _ := s.Traces(0, 2000)
		return int(after - before)
	}
	r := otlptest.Start(t)
	e := exporter(t, r, "shop")
	for _, off := range []*spans.Caller{{Client: c}, {Client: c, Share: 1}, {Client: c, Exporter: e}} {
		if n := send(off, 50); n != 0 {
			t.Errorf("%d of 50 requests are traced by %+v", n, off)
		}
	}
	n := send(&spans.Caller{Client: c, Exporter: e, Share: 0.3}, 400)
	if n < 70 || n > 170 { // 120 expected, σ 9
		t.Errorf("%d of 400 requests are traced, want some 120", n)
	}
	closed(t, e)
	if got := len(r.Spans()["r2p2 request"]); got != n {
		t.Errorf("%d spans of %d traced requests", got, n)
	}
}

// a request that fails has a span that says why.
func TestFailuresHaveSpans(t *testing.T) {
	_, c := pair(t, func(context.Context, *r2p2.ServerRequest) ([]byte, error) { return nil, r2p2.ErrDrop })
	r := otlptest.Start(t)
	e := exporter(t, r, "shop")
	if _, err := (&spans.Caller{Client: c, Exporter: e, Share: 1}).Do(t.Context(), &r2p2.Request{}); !errors.Is(err, r2p2.ErrDropped) {
		t.Errorf("%v", err)
	}
	if err := e.Dataplane(ctl.RoleRouter, ctl.Trace{ID: "00000000000000ff", Worker: "10.0.0.1:8000", MiddleNanoseconds: 2, EndNanoseconds: 3, Dropped: true}, 4, time.Now()); err != nil {
		t.Error(err)
	}
	closed(t, e)
	for _, name := range []string{"r2p2 request", "r2p2 router"} {
		if s := one(t, r, name); s.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || s.Status.GetMessage() == "" {
			t.Errorf("%s: status %v", name, s.Status)
		}
	}
}

// A receiver that takes nothing costs spans, which are counted, and no request.
func TestSpansThatAreNotTakenAreCounted(t *testing.T) {
	_, c := pair(t, func(_ context.Context, r *r2p2.ServerRequest) ([]byte, error) { return r.Payload, nil })
	e, err := spans.NewExporter(t.Context(), "http://127.0.0.1:1", "shop")
	if err != nil {
		t.Fatal(err)
	}
	for range 600 { // more than a batch
		if _, err := (&spans.Caller{Client: c, Exporter: e, Share: 1}).Do(t.Context(), &r2p2.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, done := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer done()
	if err := e.Close(ctx); err == nil || e.Lost() != 600 {
		t.Errorf("%d of 600 spans lost, %v", e.Lost(), err)
	}
}

// What a dataplane says is checked before it becomes a span.
func TestBadTraces(t *testing.T) {
	e := exporter(t, otlptest.Start(t), "echo")
	for want, c := range map[string]struct {
		role string
		t    ctl.Trace
	}{
		"must be 16 hexadecimal": {ctl.RoleServer, ctl.Trace{ID: "nothing"}},
		"not all 0":              {ctl.RoleServer, ctl.Trace{ID: "0000000000000000"}},
		"times out of order":     {ctl.RoleServer, ctl.Trace{ID: "01", StartNanoseconds: 2, MiddleNanoseconds: 1, EndNanoseconds: 3}},
		"read at 10":             {ctl.RoleServer, ctl.Trace{ID: "01", EndNanoseconds: 11}},
		"must be router or":      {ctl.RoleLoad, ctl.Trace{ID: "01"}},
	} {
		if err := e.Dataplane(c.role, c.t, 10, time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	closed(t, e)
	for _, endpoint := range []string{"", "collector:4318", "ftp://collector", "http://"} {
		if _, err := spans.NewExporter(t.Context(), endpoint, "x"); err == nil || !strings.Contains(err.Error(), "http://collector:4318") {
			t.Errorf("endpoint %q: %v", endpoint, err)
		}
	}
}

// The ring keeps the newest and says how many it lost; a reader that comes back is
// given each once.
func TestTracesAreReadOnce(t *testing.T) {
	s, c := pair(t, func(context.Context, *r2p2.ServerRequest) ([]byte, error) { return nil, nil })
	for id := uint64(1); id <= 1030; id++ {
		if _, err := c.Do(t.Context(), &r2p2.Request{Trace: id}); err != nil {
			t.Fatal(err)
		}
	}
	first, next, lost := s.Traces(0, 1000)
	if len(first) != 1000 || first[0].ID != 7 || lost != 6 || next != 1006 {
		t.Errorf("%d traces from %d, %d lost, next %d", len(first), first[0].ID, lost, next)
	}
	rest, next, lost := s.Traces(next, 1000)
	if len(rest) != 24 || rest[23].ID != 1030 || lost != 0 || next != 1030 {
		t.Errorf("%d traces, %d lost, next %d", len(rest), lost, next)
	}
	if again, _, _ := s.Traces(next, 10); len(again) != 0 {
		t.Errorf("%d traces twice", len(again))
	}
	if other, _, _ := s.Traces(5000, 10); len(other) != 10 {
		t.Error("an `after` of another life is not taken for 0")
	}
}
