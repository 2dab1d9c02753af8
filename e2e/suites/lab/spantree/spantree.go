// SPDX-License-Identifier: Apache-2.0

// Package spantree receives OpenTelemetry spans and judges whether those of one
// request meet: the lab's receiver runs it inside the cluster, the suite judges what
// that collected.
package spantree

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is what is kept of one.
type Span struct {
	Trace   string `json:"trace"`
	ID      string `json:"id"`
	Parent  string `json:"parent,omitempty"`
	Name    string `json:"name"`
	Service string `json:"service"`
	Start   uint64 `json:"start"` // ns since 1970
	End     uint64 `json:"end"`
}

// Receiver takes spans by OTLP over HTTP (POST /v1/traces, protobuf) and gives them
// as JSON (GET /spans).
type Receiver struct {
	mu    sync.Mutex
	spans []Span
}

// most spans that are kept.
const most = 100_000

// ServeHTTP is http.Handler's.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	switch {
	case q.Method == http.MethodPost && q.URL.Path == "/v1/traces":
		body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, 16<<20))
		var in collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &in)
		}
		if err != nil {
			http.Error(w, fmt.Sprintf("no OTLP: %v", err), http.StatusBadRequest)
			return
		}
		r.take(&in)
		w.Header().Set("Content-Type", "application/x-protobuf")
	case q.Method == http.MethodGet && q.URL.Path == "/spans":
		r.mu.Lock()
		defer r.mu.Unlock()
		_ = json.NewEncoder(w).Encode(append([]Span{}, r.spans...)) // who hung up does not read it
	default:
		http.NotFound(w, q)
	}
}

func (r *Receiver) take(in *collector.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range in.ResourceSpans {
		service := ""
		for _, a := range resource.Resource.GetAttributes() {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				if len(r.spans) < most {
					r.spans = append(r.spans, Span{
						Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
						Name: s.Name, Service: service, Start: s.StartTimeUnixNano, End: s.EndTimeUnixNano,
					})
				}
			}
		}
	}
}

// Trees is what became of the spans.
type Trees struct {
	Whole   int            // handlers whose parents lead to the client's span
	Orphans int            // spans whose parent is not in their trace
	Names   map[string]int // spans by name
	From    map[string][]string
}

// whole is the way up from a handler.
const whole = "r2p2 handler < r2p2 server < r2p2 router < r2p2 request"

// Grow puts the spans together. The error names a span that cannot be: one that ends
// before it begins, a parent in a circle, or two of one id.
func Grow(spans []Span) (Trees, error) {
	out := Trees{Names: map[string]int{}, From: map[string][]string{}}
	byID := map[string]Span{}
	for _, s := range spans {
		key := s.Trace + s.ID
		if _, twice := byID[key]; twice || s.End < s.Start || s.Trace == "" || s.ID == "" {
			return out, fmt.Errorf("span %q %s of trace %s, from %d to %d: its id is not its own, or it ends before it begins", s.Name, s.ID, s.Trace, s.Start, s.End)
		}
		byID[key] = s
		out.Names[s.Name]++
		if !slices.Contains(out.From[s.Name], s.Service) {
			out.From[s.Name] = append(out.From[s.Name], s.Service)
		}
	}
	for _, s := range spans {
		if _, there := byID[s.Trace+s.Parent]; s.Parent != "" && !there {
			out.Orphans++
		}
		if s.Name != "r2p2 handler" {
			continue
		}
		way, err := wayUp(s, byID)
		if err != nil {
			return out, err
		}
		if way == whole {
			out.Whole++
		}
	}
	return out, nil
}

func wayUp(s Span, byID map[string]Span) (string, error) {
	way := []string{s.Name}
	for len(way) <= len(byID) {
		parent, there := byID[s.Trace+s.Parent]
		if s.Parent == "" || !there {
			return strings.Join(way, " < "), nil
		}
		s = parent
		way = append(way, s.Name)
	}
	return "", fmt.Errorf("the parents of span %q %s of trace %s go round in a circle", s.Name, s.ID, s.Trace)
}
