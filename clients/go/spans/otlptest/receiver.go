// SPDX-License-Identifier: Apache-2.0

// Package otlptest is an OTLP receiver for tests: it decodes what exporters post.
package otlptest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver takes spans at URL, OTLP over HTTP with protobuf.
type Receiver struct {
	URL string

	mu    sync.Mutex
	spans []*tracepb.Span
	names []string // service.name of every batch
	posts int
}

// Start listens until the test ends.
func Start(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		var in collector.ExportTraceServiceRequest
		if err != nil || q.URL.Path != "/v1/traces" || q.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(body, &in) != nil {
			t.Errorf("%s %s, %d bytes of %q, %v: no OTLP", q.Method, q.URL, len(body), q.Header.Get("Content-Type"), err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.take(&in)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	r.URL = s.URL
	return r
}

func (r *Receiver) take(in *collector.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posts++
	for _, resource := range in.ResourceSpans {
		for _, a := range resource.Resource.GetAttributes() {
			if a.Key == "service.name" {
				r.names = append(r.names, a.Value.GetStringValue())
			}
		}
		for _, scope := range resource.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
}

// Spans are all that came, by name.
func (r *Receiver) Spans() map[string][]*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string][]*tracepb.Span{}
	for _, s := range r.spans {
		out[s.Name] = append(out[s.Name], s)
	}
	return out
}

// Services are the names of the programs that posted, and how often any did.
func (r *Receiver) Services() (names []string, posts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.names...), r.posts
}
