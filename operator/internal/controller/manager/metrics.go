// SPDX-License-Identifier: Apache-2.0

// The operator's own metrics, beside those of the controller runtime: how
// reading sidecars goes, and what the objectives say.
package manager

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/redirection"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/slo"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// answered is the result of a read that went well; others are a ReadError's kind.
const answered = "Answered"

// reader counts and times the reads of sidecars.
type reader struct {
	next  dataplane.Reader
	reads *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

// objectives shows ServiceLevelObjectives.
type objectives struct {
	met, observed, objective, allowed  *prometheus.GaugeVec
	capacityLow, capacityHigh          *prometheus.GaugeVec
	requests, violations, rejectedOnes *prometheus.CounterVec

	mu      sync.Mutex
	targets map[types.NamespacedName]string // the service each is shown with
}

func (o *objectives) gauges() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{o.met, o.observed, o.objective, o.allowed, o.capacityLow, o.capacityHigh}
}

func (o *objectives) counters() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{o.requests, o.violations, o.rejectedOnes}
}

// operations of the reads.
var operations = []string{"state", "histogram", "history", "connects"}

// build shows that an operator is there, whether or not it leads or has anything to
// do: that no operator shows itself is an alert.
func build(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "bobtail_build_info", Help: "An operator is there; the version is that of its images; always 1.",
		ConstLabels: prometheus.Labels{"component": "operator", "version": version},
	}, func() float64 { return 1 })
}

// instrument registers the metrics.
func instrument(next dataplane.Reader, version string) (*reader, *objectives, error) {
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
	for _, operation := range operations { // a rate begins at the first read
		r.reads.WithLabelValues(operation, answered)
	}
	o := newObjectives()
	collectors := []prometheus.Collector{build(version), r.reads, r.took}
	for _, g := range o.gauges() {
		collectors = append(collectors, g)
	}
	for _, c := range o.counters() {
		collectors = append(collectors, c)
	}
	for _, c := range collectors {
		var already prometheus.AlreadyRegisteredError
		if err := metrics.Registry.Register(c); err != nil && !errors.As(err, &already) {
			return nil, nil, fmt.Errorf("register the operator's metrics: %w", err)
		}
	}
	return r, o, nil
}

// instrumentPool registers the metrics of CRAB's pool of addresses.
func instrumentPool() (func(redirection.PoolUse), error) {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "bobtail_crab_pool_" + name, Help: help}, []string{"family"})
	}
	size := gauge("size", "Addresses in CRAB's pool, by family.")
	free := gauge("free", "Addresses of the pool that belong to no Service and no node, by family.")
	exhausted := gauge("exhausted", "Services without an address of a family because the pool had none left.")
	for _, c := range []prometheus.Collector{size, free, exhausted} {
		var already prometheus.AlreadyRegisteredError
		if err := metrics.Registry.Register(c); err != nil && !errors.As(err, &already) {
			return nil, fmt.Errorf("register the metrics of CRAB's pool: %w", err)
		}
	}
	return func(u redirection.PoolUse) {
		for family, of := range u {
			size.WithLabelValues(string(family)).Set(float64(of.Size))
			free.WithLabelValues(string(family)).Set(float64(of.Free))
			exhausted.WithLabelValues(string(family)).Set(float64(of.Waiting))
		}
	}, nil
}

func newObjectives() *objectives {
	labels := []string{"namespace", "name", "service"}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &objectives{
		targets:      map[types.NamespacedName]string{},
		met:          gauge("bobtail_slo_met", "1 when the objective is met, 0 when it is missed, NaN when it is not known, or below 1."),
		observed:     gauge("bobtail_slo_observed_seconds", "Measured percentile; +Inf when it falls on unanswered requests, NaN when it is not known, or below 1."),
		objective:    gauge("bobtail_slo_objective_seconds", "The objective."),
		allowed:      gauge("bobtail_slo_allowed_share", "Share of requests that may miss the objective: 0.01 for p99."),
		capacityLow:  gauge("bobtail_slo_capacity_low", "Lower end of the estimated capacity, requests a second; NaN when it is not known, or below 1."),
		capacityHigh: gauge("bobtail_slo_capacity_high", "Upper end of the estimated capacity, requests a second; NaN when it is not known, or below 1."),
		requests:     counter("bobtail_slo_requests_total", "Requests measured against the objective."),
		violations:   counter("bobtail_slo_violations_total", "Requests that missed the objective, the unanswered ones included."),
		rejectedOnes: counter("bobtail_slo_rejected_total", "Requests rejected; they are not among the measured ones."),
	}
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

// Parts reads a histogram in stretches.
func (r *reader) Parts(ctx context.Context, t dataplane.Target, name string, windowSeconds, parts int) (*dataplane.HistogramReply, error) {
	defer r.time("histogram")()
	h, err := r.next.Parts(ctx, t, name, windowSeconds, parts)
	r.count("histogram", err)
	return h, err
}

// History reads the record of a day.
func (r *reader) History(ctx context.Context, t dataplane.Target) (*dataplane.History, error) {
	defer r.time("history")()
	h, err := r.next.History(ctx, t)
	r.count("history", err)
	return h, err
}

// Connects reads an agent's record of a Service.
func (r *reader) Connects(ctx context.Context, t dataplane.Target, namespace, service string, windowSeconds, parts int) (*dataplane.Connects, error) {
	defer r.time("connects")()
	c, err := r.next.Connects(ctx, t, namespace, service, windowSeconds, parts)
	r.count("connects", err)
	return c, err
}

func (r *reader) time(operation string) func() {
	start := time.Now()
	return func() { r.took.WithLabelValues(operation).Observe(time.Since(start).Seconds()) }
}

func (r *reader) count(operation string, err error) {
	result := answered
	var read *dataplane.ReadError
	if errors.As(err, &read) {
		result = string(read.Kind)
	} else if err != nil {
		result = "Error"
	}
	r.reads.WithLabelValues(operation, result).Inc()
}

// observe shows one objective; nil means that it is gone.
func (o *objectives) observe(key types.NamespacedName, objective *v1alpha1.ServiceLevelObjective, counted slo.Counted) {
	if objective == nil {
		o.show(key, "")
		return
	}
	service := objective.Spec.TargetRef.Name
	o.show(key, service)
	set := func(g *prometheus.GaugeVec, v float64) { g.WithLabelValues(key.Namespace, key.Name, service).Set(v) }
	add := func(c *prometheus.CounterVec, n uint64) {
		c.WithLabelValues(key.Namespace, key.Name, service).Add(float64(n))
	}
	set(o.objective, float64(objective.Spec.LatencyMicroseconds)/1e6)
	set(o.allowed, allowedShare(objective))
	set(o.met, metValue(objective))
	set(o.observed, observedValue(objective))
	low, high := capacityOf(objective)
	set(o.capacityLow, low)
	set(o.capacityHigh, high)
	add(o.requests, counted.Requests)
	add(o.violations, counted.Violations)
	add(o.rejectedOnes, counted.Rejected)
}

// show forgets the series of an objective that was shown with another service; "" is
// none, it is gone.
func (o *objectives) show(key types.NamespacedName, service string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	was, shown := o.targets[key]
	if service == "" {
		delete(o.targets, key)
	} else {
		o.targets[key] = service
	}
	if !shown || was == service {
		return
	}
	for _, g := range o.gauges() {
		g.DeleteLabelValues(key.Namespace, key.Name, was)
	}
	for _, c := range o.counters() {
		c.DeleteLabelValues(key.Namespace, key.Name, was)
	}
}

// capacityOf is NaN when it is not known, or below 1. Attainable and yet 0 is less than one
// request a second, of which the status holds whole ones: NaN as well, since a
// capacity of none would be an alarm at any load.
func capacityOf(slo *v1alpha1.ServiceLevelObjective) (low, high float64) {
	c := slo.Status.Capacity
	attainable := meta.IsStatusConditionTrue(slo.Status.Conditions, v1alpha1.ConditionAttainable)
	if c == nil || c.HighRequestsPerSecond == 0 && attainable {
		return math.NaN(), math.NaN()
	}
	return float64(c.LowRequestsPerSecond), float64(c.HighRequestsPerSecond)
}

func allowedShare(slo *v1alpha1.ServiceLevelObjective) float64 {
	p, err := strconv.ParseFloat(slo.Spec.Percentile, 64)
	if err != nil {
		return math.NaN()
	}
	return (100 - p) / 100
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
