// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

func (s *service) metricsHandler() http.Handler {
	figures, mux := http.NewServeMux(), http.NewServeMux()
	figures.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(s.collect(r.Context()))
	})
	// People with the right to a pod's proxy read what is no secret beside the
	// metrics; the operator alone must be sure who answers. Whoever reaches the port
	// may ask, so the record of a day, costly to add up, is not among it.
	s.figures(figures)
	mux.Handle("/", fewAtOnce(figures))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.serveReady)
	mux.HandleFunc("GET /addressz", s.placer.serveAddress)
	return mux
}

// serveReady says whether the dataplane runs any configuration. Whether it is
// the newest one is the operator's business (Programmed), not a reason to take
// a serving pod out.
func (s *service) serveReady(w http.ResponseWriter, r *http.Request) {
	state, err := ask(r.Context(), s.link, (*dataplane.Socket).State)
	switch {
	case err != nil:
		http.Error(w, "the dataplane does not answer: "+err.Error(), http.StatusServiceUnavailable)
	case state.Hash == "":
		reason := "no configuration yet"
		if last := s.applier.view().last; last != nil {
			reason = fmt.Sprintf("%s: %s %s", last.Code, last.Field, last.Message)
		}
		http.Error(w, "the dataplane has no configuration: "+reason, http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ok")
	}
}

func (s *service) collect(ctx context.Context) []byte {
	e := &exposition{common: s.whose}
	s.collectSelf(e)
	up := 0.0
	if c, err := ask(ctx, s.link, (*dataplane.Socket).Counters); err == nil {
		up = 1
		collectSamples(e, "counter", c.Counters)
		collectSamples(e, "gauge", c.Gauges)
		s.collectClasses(ctx, e, c.Counters)
	}
	if state, err := ask(ctx, s.link, (*dataplane.Socket).State); err == nil {
		collectState(e, state)
	}
	e.add("gauge", "bobtail_dataplane_up", "1 while the dataplane answers its control socket.", nil, up)
	if h, source := s.latency.total(); h != nil {
		collectHistogram(e, "bobtail_latency_seconds",
			"RPC latency by source (Router: request in to FEEDBACK, Server: first packet in to last packet out). Unanswered requests count in +Inf and in no sum.",
			map[string]string{"source": source}, h)
	}
	return e.bytes()
}

func (s *service) collectSelf(e *exposition) {
	v := s.applier.view()
	e.add("gauge", "bobtail_build_info", "Versions of the programs in this pod; always 1.",
		map[string]string{"version": Version(), "component": "sidecar"}, 1)
	if v.version != "" {
		e.add("gauge", "bobtail_build_info", "", map[string]string{"version": v.version, "component": v.role}, 1)
	}
	if v.applied != "" {
		e.add("gauge", "bobtail_config_info", "The configuration in force; always 1.", map[string]string{"hash": v.applied}, 1)
	}
	for _, src := range v.sources {
		e.add("gauge", "bobtail_config_applied_generation", "metadata.generation of each object the configuration in force was made from.",
			map[string]string{"kind": src.Kind, "namespace": src.Namespace, "name": src.Name}, float64(src.Generation))
	}
	for code, n := range v.refusals {
		e.add("counter", "bobtail_config_refused_total", "Configurations refused, by reason.", map[string]string{"reason": code}, float64(n))
	}
	e.add("counter", "bobtail_dataplane_restarts_total", "New lives of the dataplane this sidecar saw.", nil, float64(v.restarts))
	e.add("counter", "bobtail_config_watch_failures_total", "Rounds in which the ConfigMap could not be read.", nil, float64(s.watchFailures.Load()))
	e.add("gauge", "bobtail_config_watch_failing_seconds", "For how long every attempt to read the ConfigMap has failed; 0 when the last did not.", nil, float64(s.health.state().FailingSeconds))
	if s.tracer != nil {
		const name, help = "bobtail_traces_lost_total", "What of traced requests no receiver saw, by reason."
		e.add("counter", name, help, map[string]string{"reason": "not_taken"}, float64(s.tracer.exporter.Lost()))
		e.add("counter", "bobtail_traces_sent_total", "Traced requests handed to the exporter of spans.", nil, float64(s.tracer.sent.Load()))
		e.add("counter", name, help, map[string]string{"reason": "overwritten"}, float64(s.tracer.lost.Load()))
		e.add("counter", name, help, map[string]string{"reason": "unreadable"}, float64(s.tracer.bad.Load()))
	}
}

// collectSamples passes on what the dataplane keeps; times become seconds, the
// unit of everything in Prometheus.
func collectSamples(e *exposition, kind string, samples []dataplane.Sample) {
	for _, c := range samples {
		name, value := "bobtail_"+metricName(c.Name), c.Value
		if stem, ok := strings.CutSuffix(name, "_nanoseconds"); ok {
			name, value = stem+"_seconds", value/1e9
		}
		e.add(kind, name, "Kept by the dataplane; see docs/reference/metrics.md.", c.Labels, value)
	}
}

// collectState exposes what R-128 asks of every worker a router knows.
func collectState(e *exposition, s *dataplane.State) {
	e.add("gauge", "bobtail_uptime_seconds", "Age of the dataplane process.", nil, s.UptimeSeconds)
	for _, r := range s.Routers {
		if r.HeardMillisecondsAgo >= 0 {
			e.add("gauge", "bobtail_router_heard_seconds", "Time since the server last heard a router.",
				map[string]string{"router": r.Address}, float64(r.HeardMillisecondsAgo)/1000)
		}
	}
	for _, m := range s.Members {
		l := map[string]string{"worker": net.JoinHostPort(m.Address, strconv.Itoa(m.Port))}
		e.add("gauge", "bobtail_worker_joined", "1 when the worker joined this router.", l, bit(m.Joined))
		e.add("gauge", "bobtail_worker_eligible", "1 when the worker may get requests.", l, bit(m.Eligible))
		e.add("gauge", "bobtail_worker_suspect", "1 when FEEDBACK is overdue.", l, bit(m.Suspect))
		e.add("gauge", "bobtail_worker_ejected", "1 when the worker is ejected as a black hole.", l, bit(m.Ejected))
		e.add("gauge", "bobtail_worker_credits", "n: how many requests the worker takes from this router.", l, float64(m.N))
		e.add("gauge", "bobtail_worker_outstanding", "Requests at the worker.", l, float64(m.Outstanding))
		e.add("counter", "bobtail_worker_sent_total", "Requests forwarded to the worker.", l, float64(m.Sent))
		e.add("counter", "bobtail_worker_done_total", "Requests the worker finished.", l, float64(m.Done))
		e.add("gauge", "bobtail_worker_lost", "Requests that never reached the worker in its present life.", l, float64(m.Lost))
		if m.FeedbackAgeMilliseconds >= 0 {
			e.add("gauge", "bobtail_worker_feedback_age_seconds", "Time since the last FEEDBACK.", l, float64(m.FeedbackAgeMilliseconds)/1000)
		}
	}
}

// collectClasses exposes the latency of every class that admission control has
// seen, and of the requests it marked. A dataplane that keeps no
// such histograms has said so; that is no failure.
func (s *service) collectClasses(ctx context.Context, e *exposition, counters []dataplane.Sample) {
	names := map[string]string{}
	for _, c := range counters {
		class := c.Labels["class"]
		switch {
		case c.Name == "router_admission_arrived_total" && class != "":
			names["class"+class] = class
		case c.Name == "router_degraded_total" && c.Labels["result"] == "marked" && c.Value > 0:
			names["marked"] = "marked"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if h, err := ask(ctx, s.link, histogramOf(name, 1)); err == nil && h.Histogram != nil && h.Histogram.Total() > 0 {
			collectHistogram(e, "bobtail_router_class_latency_seconds",
				"Request in to FEEDBACK by class of admission control, while an objective is enforced; marked: requests that mode Degrade marked.",
				map[string]string{"class": names[name]}, h.Histogram)
		}
	}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// collectHistogram writes a classic histogram (dataplane.Bounds).
func collectHistogram(e *exposition, name, help string, labels map[string]string, h *ll7.Histogram) {
	line := func(sample, le string, value float64) {
		l := map[string]string{}
		for k, v := range labels {
			l[k] = v
		}
		if le != "" {
			l["le"] = le
		}
		e.line("histogram", name, help, sample, l, value)
	}
	for bound, below := range dataplane.Bounds(h) {
		line(name+"_bucket", strconv.FormatFloat(bound, 'g', -1, 64), float64(below))
	}
	line(name+"_bucket", "+Inf", float64(h.Total()))
	line(name+"_sum", "", float64(h.SumNanoseconds())/1e9)
	line(name+"_count", "", float64(h.Total()))
}
