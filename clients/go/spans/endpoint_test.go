// SPDX-License-Identifier: Apache-2.0

package spans_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/clients/go/spans"
	"github.com/bobtail-dev/bobtail/clients/go/spans/otlptest"
)

// Spans go to the path that is named, else to OTLP's own.
func TestSpansGoToThePathOfTheEndpoint(t *testing.T) {
	for path, want := range map[string]string{"": "/v1/traces", "/": "/v1/traces", "/own/place": "/own/place"} {
		paths := make(chan string, 1)
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { paths <- q.URL.Path }))
		e, err := spans.NewExporter(t.Context(), s.URL+path, "shop")
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Dataplane(ctl.RoleRouter, ctl.Trace{ID: "01"}, 0, time.Now()); err != nil {
			t.Error(err)
		}
		closed(t, e)
		if got := <-paths; got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
		s.Close()
	}
}

// A router's span says how long the request waited; one that ended as it was read is whole.
func TestTheWaitOfARequest(t *testing.T) {
	r := otlptest.Start(t)
	e := exporter(t, r, "echo")
	wall := time.Now()
	err := e.Dataplane(ctl.RoleRouter, ctl.Trace{ID: "00000000000000ff", StartNanoseconds: 5e8, MiddleNanoseconds: 2e9, EndNanoseconds: 3e9}, 3e9, wall)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	s := one(t, r, "r2p2 router")
	if s.EndTimeUnixNano != uint64(wall.UnixNano()) || s.EndTimeUnixNano-s.StartTimeUnixNano != 25e8 {
		t.Errorf("from %d to %d, read at %d", s.StartTimeUnixNano, s.EndTimeUnixNano, wall.UnixNano())
	}
	for _, a := range s.Attributes {
		if a.Key == "r2p2.wait.seconds" && a.Value.GetDoubleValue() == 1.5 {
			return
		}
	}
	t.Errorf("of span kind %v: %v", trace.SpanKind(s.Kind), s.Attributes)
}
