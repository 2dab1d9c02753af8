// SPDX-License-Identifier: Apache-2.0

package sidecar

// The read for the operator: GET /v1/state, /v1/histogram, /v1/history, /v1/counters.

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

const codeUnreachable = "DataplaneUnreachable"

// figures are the reads that people share with the operator.
func (s *service) figures(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/state", s.serveState)
	mux.HandleFunc("GET /v1/histogram", s.serveHistogram)
	mux.HandleFunc("GET /v1/counters", s.serveCounters)
}

func (s *service) readHandler() http.Handler {
	mux := http.NewServeMux()
	s.figures(mux)
	mux.HandleFunc("GET /v1/history", s.serveHistory)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, &ctl.Error{
			Code: ctl.CodeUnknownOperation, Field: "path",
			Message: fmt.Sprintf("must be GET /v1/state, /v1/histogram, /v1/history or /v1/counters; got %s %s", r.Method, r.URL.Path),
		})
	})
	return mux
}

// serveState always answers 200: that the dataplane is down is the state.
func (s *service) serveState(w http.ResponseWriter, r *http.Request) {
	state, err := ask(r.Context(), s.link, (*dataplane.Socket).State)
	v := s.applier.view()
	out := dataplane.SidecarState{
		Role: v.role, LastError: v.last, Incarnation: v.incarnation, SidecarVersion: Version(),
	}
	if err != nil {
		if out.LastError == nil {
			out.LastError = &dataplane.ApplyError{Code: codeUnreachable, Message: err.Error()}
		}
	} else {
		out.Dataplane, out.AppliedHash = state, state.Hash
	}
	writeJSON(w, http.StatusOK, out)
}

func (s *service) serveHistogram(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name := cmp.Or(q.Get("name"), ctl.HistogramLatency)
	window, err := count(q, "windowSeconds", 30, ctl.MaxWindowSeconds)
	if err != nil {
		answer(w, nil, err)
		return
	}
	parts, err := count(q, "parts", 0, maxParts)
	if err != nil {
		answer(w, nil, err)
		return
	}
	out, err := ask(r.Context(), s.link, histogramOf(name, window))
	if err == nil && parts > 0 {
		out.Parts, err = s.stretches(r.Context(), out, parts)
	}
	answer(w, out, err)
}

// count reads a parameter of a query: a number from 1 to most.
func count(q url.Values, field string, otherwise, most int) (int, error) {
	text := q.Get(field)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, &ctl.Error{
			Code: ctl.CodeInvalidRequest, Field: field, Message: fmt.Sprintf("must be an integer in 1..%d; got %q", most, text),
		}
	}
	return n, nil
}

// serveHistory answers from the sidecar's own memory, also while the dataplane
// is down.
func (s *service) serveHistory(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.latency.history())
}

func (s *service) serveCounters(w http.ResponseWriter, r *http.Request) {
	out, err := ask(r.Context(), s.link, (*dataplane.Socket).Counters)
	answer(w, out, err)
}

func answer(w http.ResponseWriter, out any, err error) {
	var refusal *ctl.Error
	switch {
	case err == nil:
		writeJSON(w, http.StatusOK, out)
	case errors.As(err, &refusal):
		writeError(w, http.StatusBadRequest, refusal)
	default:
		writeError(w, http.StatusServiceUnavailable, &ctl.Error{Code: codeUnreachable, Message: err.Error()})
	}
}

func writeError(w http.ResponseWriter, status int, e *ctl.Error) {
	writeJSON(w, status, ctl.Reply{V: ctl.Version, Error: e})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
