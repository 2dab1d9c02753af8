// SPDX-License-Identifier: Apache-2.0

// The operator's own metrics, beside those of the controller runtime: how
// reading sidecars goes, and what the objectives say.
package manager

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// reader counts and times the reads of sidecars.
type reader struct {
	next  dataplane.Reader
	reads *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

// objectives shows ServiceLevelObjectives.
type objectives struct {
	met, observed, objective *prometheus.GaugeVec
}

// instrument registers the metrics.
func instrument(next dataplane.Reader) (*reader, *objectives, error) {
	r := &reader{
		next: next,
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bobtail_operator_sidecar_reads_total", Help: "Reads of sidecars by operation and result.",
		}, []string{"operation", "result"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "bobtail_operator_sidecar_read_duration_seconds", Help: "Time to read one sidecar.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}, []string{"operation"}),
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"namespace", "name"})
	}
	o := &objectives{
		met:       gauge("bobtail_slo_met", "1 when the objective is met, 0 when it is missed, NaN when it is not known."),
		observed:  gauge("bobtail_slo_observed_seconds", "Measured percentile; +Inf when it falls on unanswered requests, NaN when it is not known."),
		objective: gauge("bobtail_slo_objective_seconds", "The objective."),
	}
	for _, c := range []prometheus.Collector{r.reads, r.took, o.met, o.observed, o.objective} {
		var already prometheus.AlreadyRegisteredError
		if err := metrics.Registry.Register(c); err != nil && !errors.As(err, &already) {
			return nil, nil, fmt.Errorf("register the operator's metrics: %w", err)
		}
	}
	return r, o, nil
}

// State reads what a dataplane runs.
func (r *reader) State(ctx context.Context, t dataplane.Target) (*dataplane.SidecarState, error) {
	defer r.time("state")()
	s, err := r.next.State(ctx, t)
	r.count("state", err)
	return s, err
}

// Histogram reads a histogram.
func (r *reader) Histogram(ctx context.Context, t dataplane.Target, name string, windowSeconds int) (*dataplane.HistogramReply, error) {
	defer r.time("histogram")()
	h, err := r.next.Histogram(ctx, t, name, windowSeconds)
	r.count("histogram", err)
	return h, err
}

func (r *reader) time(operation string) func() {
	start := time.Now()
	return func() { r.took.WithLabelValues(operation).Observe(time.Since(start).Seconds()) }
}

func (r *reader) count(operation string, err error) {
	result := "Answered"
	var read *dataplane.ReadError
	if errors.As(err, &read) {
		result = string(read.Kind)
	} else if err != nil {
		result = "Error"
	}
	r.reads.WithLabelValues(operation, result).Inc()
}

// observe shows one objective; nil means that it is gone.
func (o *objectives) observe(key types.NamespacedName, slo *v1alpha1.ServiceLevelObjective) {
	if slo == nil {
		for _, g := range []*prometheus.GaugeVec{o.met, o.observed, o.objective} {
			g.DeleteLabelValues(key.Namespace, key.Name)
		}
		return
	}
	o.objective.WithLabelValues(key.Namespace, key.Name).Set(float64(slo.Spec.LatencyMicroseconds) / 1e6)
	o.met.WithLabelValues(key.Namespace, key.Name).Set(metValue(slo))
	o.observed.WithLabelValues(key.Namespace, key.Name).Set(observedValue(slo))
}

func metValue(slo *v1alpha1.ServiceLevelObjective) float64 {
	c := meta.FindStatusCondition(slo.Status.Conditions, v1alpha1.ConditionMet)
	switch {
	case c == nil || c.Status == metav1.ConditionUnknown:
		return math.NaN()
	case c.Status == metav1.ConditionTrue:
		return 1
	}
	return 0
}

func observedValue(slo *v1alpha1.ServiceLevelObjective) float64 {
	switch {
	case slo.Status.ObservedMicroseconds != nil:
		return float64(*slo.Status.ObservedMicroseconds) / 1e6
	case slo.Status.Observed == "+Inf":
		return math.Inf(1)
	}
	return math.NaN()
}
