// SPDX-License-Identifier: Apache-2.0

// How many requests a second the service can take within its objective, from
// the service times that servers measure and a queueing model.
package slo

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/queueing"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// trustedLoad is up to which load of the workers the difference between what is
// measured and what the model says is taken for overhead; above it, the model's
// own error in waiting times would be.
const trustedLoad = 0.7

// decideCapacity estimates. What cannot be estimated has a reason instead of a
// number.
func decideCapacity(s *snapshot, m measurement, required int64) (verdict.Verdict, *v1alpha1.CapacityEstimate) {
	unknown := func(reason, format string, args ...any) (verdict.Verdict, *v1alpha1.CapacityEstimate) {
		return verdict.No(reason, fmt.Sprintf(format, args...)), nil
	}
	if s.group != nil {
		return unknown(v1alpha1.ReasonNoMeasurementSource, "%s", groupCapacity)
	}
	times := &dataplane.Histogram{}
	for _, p := range s.services {
		if p.Err == nil && p.Reply != nil {
			times.Merge(p.Reply.Histogram)
		}
	}
	silent := unread(s.services)
	switch workers := s.target.Status.ReadyWorkers; {
	case render.TCP(s.target):
		return unknown(v1alpha1.ReasonNoMeasurementSource, "%s", unseen(s.target))
	case workers == 0:
		return unknown(v1alpha1.ReasonWorkersNotReady, "no worker of %s is ready", s.target.Name)
	case len(silent) > 0:
		return unknown(v1alpha1.ReasonMeasurementIncomplete, "no service times from %s", strings.Join(silent, ", "))
	case times.Total() < uint64(max(required, 0)):
		return unknown(v1alpha1.ReasonTooFewSamples, "%d service times in the last %d s; p%s needs %d",
			times.Total(), serviceWindow, s.slo.Spec.Percentile, required)
	}
	return estimate(s, m, times, required)
}

// decideAttainable warns of an objective below what the service itself takes.
func decideAttainable(capacity verdict.Verdict) verdict.Verdict {
	switch {
	case capacity.Status != metav1.ConditionTrue:
		return verdict.Unknown(capacity.Reason, capacity.Message)
	case capacity.Reason == v1alpha1.ReasonServiceAboveObjective:
		return verdict.No(capacity.Reason, capacity.Message)
	}
	return verdict.Yes(v1alpha1.ReasonEstimated, "some load meets the objective; status.capacity says which")
}

func estimate(s *snapshot, m measurement, times *dataplane.Histogram, required int64) (verdict.Verdict, *v1alpha1.CapacityEstimate) {
	q, err := question(s, times)
	if err != nil {
		return verdict.No(v1alpha1.ReasonInvalidConfiguration, err.Error()), nil
	}
	overhead := overheadOf(q, s, m, required)
	if overhead != nil {
		q.Overhead = float64(*overhead) / 1e6
	}
	e := queueing.Capacity(q)
	rate := func(v float64) int64 { return int64(math.Floor(v)) }
	out := &v1alpha1.CapacityEstimate{
		RequestsPerSecond: rate(e.Middle), LowRequestsPerSecond: rate(e.Low), HighRequestsPerSecond: rate(e.High),
		Range:   rangeOf(e.Low, e.High),
		Workers: s.target.Status.ReadyWorkers, ServiceSamples: *integer(times.Total()),
		MeanServiceMicroseconds: int64(math.Ceil(q.Service.Mean() * 1e6)),
		ServiceVariation:        fmt.Sprintf("%.2f", q.Service.SquaredVariation()),
		OverheadMicroseconds:    overhead,
	}
	objective := duration(uint64(s.slo.Spec.LatencyMicroseconds) * 1000)
	if e.High == 0 { // not below 1: slow workers take one request in several seconds
		return verdict.Yes(v1alpha1.ReasonServiceAboveObjective, fmt.Sprintf(
			"p%s of the service time alone is %s and %s of overhead come on top: no load meets the objective of %s; raise `spec.latencyMicroseconds` above the sum",
			s.slo.Spec.Percentile, floor(s, times), duration(uint64(math.Round(q.Overhead*1e9))), objective)), out
	}
	return verdict.Yes(v1alpha1.ReasonEstimated, fmt.Sprintf(
		"%s requests/s keep p%s within %s on %d workers", out.Range, s.slo.Spec.Percentile, objective, out.Workers)), out
}

// rangeOf writes both ends for people, rounded down: whole requests a second, and
// three digits where that would say nothing of slow workers.
func rangeOf(low, high float64) string {
	if high >= 10 {
		return fmt.Sprintf("%d-%d", int64(low), int64(high))
	}
	return digits(low) + "-" + digits(high)
}

// digits is v with its first three digits, the others cut off.
func digits(v float64) string {
	if v <= 0 {
		return "0"
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(v)))
	return strconv.FormatFloat(math.Floor(v*scale*(1+1e-12))/scale, 'f', -1, 64) // 9.99 · 100 is 998.99…
}

// floor is the percentile of the service time alone, for people.
func floor(s *snapshot, times *dataplane.Histogram) string {
	v, err := times.Percentile(s.slo.Spec.Percentile)
	if err != nil {
		return "unknown"
	}
	return written(v)
}

func question(s *snapshot, times *dataplane.Histogram) (queueing.Question, error) {
	p, _ := new(big.Rat).SetString(s.slo.Spec.Percentile)
	share, _ := new(big.Rat).Quo(p, big.NewRat(100, 1)).Float64()
	policy, depth, err := queueing.OfRouter(s.target.Spec.Router)
	return queueing.Question{
		Service: queueing.FromHistogram(times), Policy: policy, Depth: depth,
		Workers: int(s.target.Status.ReadyWorkers), P: share, Limit: float64(s.slo.Spec.LatencyMicroseconds) / 1e6,
	}, err
}

// overheadOf is what requests take beyond waiting and service, as measured while
// nothing but that was in the way; at other times the last answer stays. Nil when
// it was never known.
func overheadOf(q queueing.Question, s *snapshot, m measurement, required int64) *int64 {
	if m.samples >= uint64(max(required, 1)) && settled(q, s, m) {
		us := int64(math.Ceil(q.OverheadAt(m.perSecond, m.meanSeconds) * 1e6))
		return &us
	}
	if old := s.slo.Status.Capacity; old != nil {
		return old.OverheadMicroseconds
	}
	return nil
}

// changedShare is by how much of the completed requests those in flight may have
// become more or fewer in a window that counts as steady.
const changedShare = 50

// longHold is the share of a service time that requests may have waited in the
// routers, on average, beyond what the model expects.
const longHold = 0.1

// settled says whether the whole window was steady and its queues short. A low
// average is not enough: an overload that began or ended in the window leaves one
// too, and all that its requests waited would pass for overhead.
func settled(q queueing.Question, s *snapshot, m measurement) bool {
	load := m.perSecond * q.Service.Mean() / float64(q.Workers)
	if load > trustedLoad || m.rejected > 0 || m.unanswered > m.samples/changedShare {
		return false
	}
	change := max(m.requests, m.samples) - min(m.requests, m.samples)
	if change > max(uint64(q.Workers), m.samples/changedShare) || len(unread(s.holds)) > 0 {
		return false
	}
	held := 0.0
	for _, p := range s.holds {
		if p.Err == nil && p.Reply != nil && p.Reply.Histogram != nil {
			held += float64(p.Reply.Histogram.SumNanoseconds()) / 1e9
		}
	}
	return held/float64(m.samples) <= q.WaitAt(m.perSecond)+longHold*q.Service.Mean()
}
