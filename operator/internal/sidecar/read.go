// SPDX-License-Identifier: Apache-2.0

package sidecar

// The read for the operator: GET /v1/state, /v1/histogram, /v1/history, /v1/counters.

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

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
	mux.HandleFunc("GET "+dataplane.GroupPath, s.serveGroup)
	mux.HandleFunc("POST "+dataplane.GroupPath, s.serveChange)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		dataplane.WriteError(w, http.StatusNotFound, &ctl.Error{
			Code: ctl.CodeUnknownOperation, Field: "path",
			Message: fmt.Sprintf("must be GET /v1/state, /v1/histogram, /v1/history, /v1/counters or /v1/group; got %s %s", r.Method, r.URL.Path),
		})
	})
	return mux
}

// serveState always answers 200: that the dataplane is down is the state.
func (s *service) serveState(w http.ResponseWriter, r *http.Request) {
	state, err := ask(r.Context(), s.link, (*dataplane.Socket).State)
	v := s.applier.view()
	out := dataplane.SidecarState{
		Role: v.role, LastError: v.last, Incarnation: v.incarnation, SidecarVersion: Version(), Watch: s.health.state(),
	}
	if err != nil {
		if out.LastError == nil {
			out.LastError = &dataplane.ApplyError{Code: codeUnreachable, Message: err.Error()}
		}
	} else {
		out.Dataplane, out.AppliedHash = state, state.Hash
		if state.Hash == v.applied {
			out.KeyIDs = v.keyIDs
		}
	}
	dataplane.WriteJSON(w, http.StatusOK, out)
}

func (s *service) serveHistogram(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name := cmp.Or(q.Get("name"), ctl.HistogramLatency)
	window, err := dataplane.QueryCount(q, "windowSeconds", 30, ctl.MaxWindowSeconds)
	if err != nil {
		answer(w, nil, err)
		return
	}
	parts, err := dataplane.QueryCount(q, "parts", 0, maxParts)
	if err != nil {
		answer(w, nil, err)
		return
	}
	out, err := s.histogram(r.Context(), name, window, parts)
	answer(w, out, err)
}

// serveHistory answers from the sidecar's own memory, also while the dataplane
// is down.
func (s *service) serveHistory(w http.ResponseWriter, _ *http.Request) {
	dataplane.WriteJSON(w, http.StatusOK, s.latency.history())
}

func (s *service) serveCounters(w http.ResponseWriter, r *http.Request) {
	out, err := ask(r.Context(), s.link, (*dataplane.Socket).Counters)
	answer(w, out, err)
}

func answer(w http.ResponseWriter, out any, err error) {
	var refusal *ctl.Error
	switch {
	case err == nil:
		dataplane.WriteJSON(w, http.StatusOK, out)
	case errors.As(err, &refusal):
		dataplane.WriteError(w, http.StatusBadRequest, refusal)
	default:
		dataplane.WriteError(w, http.StatusServiceUnavailable, &ctl.Error{Code: codeUnreachable, Message: err.Error()})
	}
}
