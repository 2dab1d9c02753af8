// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// observation is what all routers and servers of a service say together.
// Histograms are merged, then asked for percentiles.
type observation struct {
	latency, hold, service ll7.Histogram
	requests, rejected     uint64
	perSecond              float64 // completed
	held                   float64 // requests waiting in the routers now
	drops                  map[string]float64
	suspect, ejected       int
	unread                 []string  // what could not be read, and why
	gaps                   []finding // pods that should serve and do not
}

// offered is the rate with the rejected requests, as far as they are known.
func (o *observation) offered() float64 {
	if o.rejected >= o.requests {
		return o.perSecond
	}
	return o.perSecond * float64(o.requests) / float64(o.requests-o.rejected)
}

// observe reads the last `window` seconds, and counters since the routers began.
func (c *cluster) observe(ctx context.Context, s *v1alpha1.RpcService, window int) (*observation, error) {
	o := &observation{drops: map[string]float64{}}
	if overTCP(s) {
		return o, nil
	}
	measuring := v1alpha1.ComponentRouter
	if p := s.Spec.Router.Placement; p == v1alpha1.PlacementNone || p == v1alpha1.PlacementSwitch {
		measuring = v1alpha1.ComponentServer
	}
	for _, component := range []string{v1alpha1.ComponentRouter, v1alpha1.ComponentServer} {
		all, err := c.allPods(ctx, s, component)
		if err != nil {
			return nil, err
		}
		o.gaps = append(o.gaps, gaps(s, component, all)...)
		pods := running(all)
		for _, one := range c.observeAll(ctx, pods, component, component == measuring, window) {
			o.merge(one)
		}
	}
	return o, nil
}

// reads bounds how many pods are read at a time: the way leads through the API server.
const reads = 16

// observeAll reads the pods at the same time, so that one whose node is gone holds
// up nobody, and answers in their order.
func (c *cluster) observeAll(ctx context.Context, pods []corev1.Pod, component string, measures bool, window int) []*observation {
	out, slots := make([]*observation, len(pods)), make(chan struct{}, reads)
	var wait sync.WaitGroup
	for i := range pods {
		out[i] = &observation{drops: map[string]float64{}}
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := c.observePod(ctx, out[i], &pods[i], component, measures, window); err != nil {
				out[i].unread = append(out[i].unread, err.Error())
			}
		})
	}
	wait.Wait()
	return out
}

// merge adds what one pod says.
func (o *observation) merge(one *observation) {
	o.latency.Merge(&one.latency)
	o.hold.Merge(&one.hold)
	o.service.Merge(&one.service)
	o.requests += one.requests
	o.rejected += one.rejected
	o.perSecond += one.perSecond
	o.held += one.held
	for reason, n := range one.drops {
		o.drops[reason] += n
	}
	// Every router judges the same workers: the worst judgement counts.
	o.suspect, o.ejected = max(o.suspect, one.suspect), max(o.ejected, one.ejected)
	o.unread = append(o.unread, one.unread...)
}

func (c *cluster) observePod(ctx context.Context, o *observation, pod *corev1.Pod, component string, measures bool, window int) error {
	histogram := func(name string) (*dataplane.HistogramReply, error) {
		return read[dataplane.HistogramReply](ctx, c, pod, "v1/histogram", map[string]string{"name": name, "windowSeconds": strconv.Itoa(window)})
	}
	if measures {
		h, err := histogram("latency")
		if err != nil {
			return err
		}
		o.latency.Merge(h.Histogram)
		o.requests += h.Requests
		o.rejected += h.Rejected
		if h.Histogram != nil {
			o.perSecond += float64(h.Histogram.Total()-h.Histogram.Inf()) / math.Max(1, float64(h.CoveredSeconds))
		}
	}
	other, into := "hold", &o.hold
	if component == v1alpha1.ComponentServer {
		other, into = "service", &o.service
	}
	h, err := histogram(other)
	if err != nil {
		return err
	}
	into.Merge(h.Histogram)
	if component == v1alpha1.ComponentRouter {
		return c.observeRouter(ctx, o, pod)
	}
	return nil
}

func (c *cluster) observeRouter(ctx context.Context, o *observation, pod *corev1.Pod) error {
	counters, err := read[dataplane.Counters](ctx, c, pod, "v1/counters", nil)
	if err != nil {
		return err
	}
	for _, s := range counters.Counters {
		if s.Name == "router_dropped_total" {
			o.drops[s.Labels["reason"]] += s.Value
		}
	}
	for _, g := range counters.Gauges {
		if g.Name == "router_held" {
			o.held += g.Value
		}
	}
	state, err := read[dataplane.SidecarState](ctx, c, pod, "v1/state", nil)
	if err != nil || state.Dataplane == nil {
		return err
	}
	for _, m := range state.Dataplane.Members {
		if m.Suspect {
			o.suspect++
		}
		if m.Ejected {
			o.ejected++
		}
	}
	return nil
}

// short writes a duration with three digits.
func short(d time.Duration) string {
	for unit := time.Nanosecond; ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
}

// percentile for people: "12.3ms", "+Inf", "-" of nothing.
func percentile(h *ll7.Histogram, p string) string {
	v, err := h.Percentile(p)
	switch {
	case err != nil || v.Bound == ll7.NoValue:
		return "-"
	case v.Bound == ll7.Infinite:
		return "+Inf"
	case v.Bound == ll7.AtLeast:
		return ">" + short(time.Duration(v.Nanoseconds))
	}
	return short(time.Duration(v.Nanoseconds))
}

func share(part, whole uint64) string {
	if whole == 0 {
		return "0.0%"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(whole))
}
