// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// finding is one cause, with what shows it and what helps.
type finding struct {
	Cause    string `json:"cause"`
	Evidence string `json:"evidence"`
	Advice   string `json:"advice"`
}

// Causes, the telling ones first.
const (
	causeNoRouters   = "RoutersAbsent"
	causeNoServers   = "ServersAbsent"
	causeUnscheduled = "PodsUnscheduled"
	causeNotStarted  = "PodsNotStarted"
	causeUnread      = "MeasurementIncomplete"

	causeWorkers   = "TooFewWorkers"
	causeService   = "ServiceTime"
	causeQueueing  = "Queueing"
	causeWorkerQ   = "WorkerQueueOrNetwork"
	causeDrops     = "Drops"
	causeLost      = "Unanswered"
	causeClients   = "ClientIngressRule"
	causeNotServed = "NotReady"
	causeCores     = "CoresMissing"
	causeFlow      = "FlowControl"
)

// busy is the load of the workers above which queues explain themselves: M/M/16
// keeps p99 within 10 service times up to 0.97, one queue each up to 0.54.
const busy = 0.85

// large is the share of the objective above which a part of the latency is
// worth naming.
const large = 0.3

// diagnose says why the objective is not met, or what comes nearest to it.
func diagnose(slo *v1alpha1.ServiceLevelObjective, service *v1alpha1.RpcService, o *observation, blocked []finding) []finding {
	out := slices.Clone(o.gaps)
	if len(o.unread) > 0 {
		out = append(out, finding{causeUnread, strings.Join(o.unread, "; "), "the picture below lacks these pods"})
	}
	add := func(f *finding) {
		if f != nil {
			out = append(out, *f)
		}
	}
	objective := time.Duration(slo.Spec.LatencyMicroseconds) * time.Microsecond
	p := slo.Spec.Percentile
	add(ofReadiness(service, o))
	add(ofCores(service))
	add(ofFlowControl(service))
	tooSlow := ofServiceTime(slo, o, p, objective)
	add(tooSlow)
	add(ofLoad(service, slo, o))
	add(ofQueueing(o, p, objective))
	if tooSlow == nil {
		add(ofRest(o, p, objective))
	}
	add(ofLost(o, p))
	add(ofDrops(o))
	return append(out, blocked...)
}

func ofReadiness(service *v1alpha1.RpcService, o *observation) *finding {
	missing := service.Status.DesiredWorkers - service.Status.ReadyWorkers
	if missing <= 0 && o.suspect == 0 && o.ejected == 0 {
		return nil
	}
	return &finding{causeNotServed,
		fmt.Sprintf("%s workers ready; %d suspect (FEEDBACK overdue), %d ejected (take requests, finish none)", service.Status.Workers, o.suspect, o.ejected),
		"kubectl describe rpcsvc " + service.Name + "; kubectl get pods -l " + v1alpha1.LabelService + "=" + service.Name}
}

// ofCores is what `spec.scheduling` asks for and servers do not have, or do not know of.
func ofCores(service *v1alpha1.RpcService) *finding {
	next := "kubectl describe rpcsvc " + service.Name + "; docs/guides/work-stealing.md"
	if c := meta.FindStatusCondition(service.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Reason == v1alpha1.ReasonServerIgnoresScheduling {
		return &finding{causeCores, c.Message, next}
	}
	if c := meta.FindStatusCondition(service.Status.Conditions, v1alpha1.ConditionCoresAsAsked); c != nil && c.Status == metav1.ConditionFalse {
		return &finding{causeCores, c.Message, next}
	}
	return nil
}

// ofFlowControl is what flow control says of itself: it does not work, it holds clients back, or clients do not obey.
func ofFlowControl(service *v1alpha1.RpcService) *finding {
	f := service.Status.FlowControl
	if f == nil {
		return nil
	}
	next := "kubectl get rpcsvc " + service.Name + " -o jsonpath={.status.flowControl}; docs/guides/flow-control.md"
	if f.Reason != v1alpha1.FlowControlInForce {
		return &finding{causeFlow, fmt.Sprintf("%s: %s", f.Reason, f.Message), next}
	}
	if f.Throttling == 0 && f.Refused == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %d servers hold clients back", f.Throttling, f.Replicas)
	if f.LoadPercent != nil && f.AdmittedPercent != nil {
		text += fmt.Sprintf("; the closest to its limit has a load of %d %% of a core, and %d %% are admitted", *f.LoadPercent, *f.AdmittedPercent)
	}
	if f.Refused > 0 {
		text += fmt.Sprintf("; about %d requests came from clients that had been told to be silent", f.Refused)
	}
	return &finding{causeFlow, text, next}
}

// executors are what executes requests at once: workers, or the cores behind them.
func executors(service *v1alpha1.RpcService) (n float64, what string) {
	if c := service.Status.Scheduling; c != nil && c.AllowedCores > 0 {
		return float64(c.AllowedCores), "cores"
	}
	return float64(service.Status.ReadyWorkers), "workers"
}

// ofServiceTime is what no worker more takes away: the service time, and what the
// operator measured on top of it while nothing was queued.
func ofServiceTime(slo *v1alpha1.ServiceLevelObjective, o *observation, p string, objective time.Duration) *finding {
	v, overhead := value(&o.service, p), time.Duration(0)
	if c := slo.Status.Capacity; c != nil && c.OverheadMicroseconds != nil {
		overhead = time.Duration(*c.OverheadMicroseconds) * time.Microsecond
	}
	text := fmt.Sprintf("p%s of the service time alone is %s, the objective %s (%d service times)", p, short(v), short(objective), o.service.Total())
	switch {
	case v > objective:
		return &finding{causeService, text, "no number of workers helps: make the service faster, or allow it more time"}
	case v > 0 && v+overhead > objective:
		return &finding{causeService, text + fmt.Sprintf("; %s of overhead come on top, measured at low load", short(overhead)),
			"no number of workers helps: look at the network and the processors of routers and servers, or allow more time"}
	}
	return nil
}

// ofLoad compares the work that arrives with the workers there are.
func ofLoad(service *v1alpha1.RpcService, slo *v1alpha1.ServiceLevelObjective, o *observation) *finding {
	workers, what := executors(service)
	finished := o.service.Total() - o.service.Inf()
	if workers == 0 || finished == 0 {
		return nil
	}
	mean := float64(o.service.SumNanoseconds()) / float64(finished) / 1e9
	load := o.perSecond * mean / workers
	text := fmt.Sprintf("%.0f requests/s of %s on average keep %.0f %s %.0f%% busy", o.perSecond, short(time.Duration(mean*1e9)), workers, what, 100*load)
	over := false
	if c := slo.Status.Capacity; c != nil {
		text += "; estimated capacity under the objective " + c.Range + " requests/s"
		over = c.HighRequestsPerSecond > 0 && o.perSecond > float64(c.HighRequestsPerSecond) // 0: none or less than one meets it
	}
	if load < busy && !over {
		return nil
	}
	return &finding{causeWorkers, text, fmt.Sprintf("kubectl bobtail plan slo/%s --rate=%.0f", slo.Name, o.offered())}
}

func ofQueueing(o *observation, p string, objective time.Duration) *finding {
	v := value(&o.hold, p)
	if float64(v) < large*float64(objective) {
		return nil
	}
	return &finding{causeQueueing,
		fmt.Sprintf("p%s of the wait in the routers is %s, %.0f%% of the objective; %.0f requests wait now", p, short(v), 100*float64(v)/float64(objective), o.held),
		"more workers, or enforcement (`spec.enforcement`) so that some are rejected at once; at low load: bursts"}
}

// ofRest is what neither the router's queue nor the service explains. The
// difference of percentiles is no percentile: it says where to look.
func ofRest(o *observation, p string, objective time.Duration) *finding {
	all, hold, service := value(&o.latency, p), value(&o.hold, p), value(&o.service, p)
	rest := all - hold - service
	if all == 0 || o.service.Total() == 0 || float64(rest) < large*float64(objective) {
		return nil
	}
	return &finding{causeWorkerQ,
		fmt.Sprintf("p%s is %s, of which the routers' queue explains %s and the service time %s", p, short(all), short(hold), short(service)),
		"queues at the workers (a smaller `spec.router.workerQueueDepth`), CPU limits, or the network between router and servers"}
}

func ofLost(o *observation, p string) *finding {
	lost, total := o.latency.Inf(), o.latency.Total()
	if lost == 0 {
		return nil
	}
	advice := "lost packets (bobtail_io_rx_dropped_total), servers that died, or client timeouts below the service time"
	if v, err := o.latency.Percentile(p); err == nil && v.Bound == ll7.Infinite {
		advice = "this alone misses the objective: " + advice
	}
	return &finding{causeLost, fmt.Sprintf("%d of %d requests were never answered", lost, total), advice}
}

func ofDrops(o *observation) *finding {
	var parts []string
	for _, reason := range sorted(o.drops) {
		if o.drops[reason] > 0 {
			parts = append(parts, fmt.Sprintf("%s %.0f", reason, o.drops[reason]))
		}
	}
	if o.rejected == 0 || len(parts) == 0 {
		return nil
	}
	return &finding{causeDrops,
		fmt.Sprintf("%d of %d requests were rejected (%s); by reason since the routers began: %s", o.rejected, o.requests, share(o.rejected, o.requests), strings.Join(parts, ", ")),
		"rejected requests are not in the percentile; docs/reference/metrics.md lists the reasons"}
}

func sorted(m map[string]float64) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// value of a percentile; 0 of nothing. What is infinite has a finding of its
// own.
func value(h *ll7.Histogram, p string) time.Duration {
	v, err := h.Percentile(p)
	if err != nil || v.Bound == ll7.NoValue || v.Bound == ll7.Infinite {
		return 0
	}
	return time.Duration(v.Nanoseconds)
}

// quantile turns "99.9" into 0.999.
func quantile(p string) (float64, error) {
	r, ok := new(big.Rat).SetString(p)
	if !ok || r.Sign() <= 0 || r.Cmp(big.NewRat(100, 1)) >= 0 {
		return 0, fmt.Errorf("percentile must be a decimal above 0 and below 100, such as 99.9; got %q", p)
	}
	q, _ := r.Quo(r, big.NewRat(100, 1)).Float64()
	return q, nil
}
