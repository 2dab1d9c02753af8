// SPDX-License-Identifier: Apache-2.0

// What an experiment means for Lancet, whether it can be run, and what its
// coordinator's last words say. Pure.
package latencyexperiment

import (
	"errors"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/definition"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/report"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

type verdict struct {
	status  metav1.ConditionStatus
	reason  string
	message string
}

// protocols are the agent's names of the API's.
var protocols = map[string]string{
	"R2P2": "r2p2", "Echo": "echo", "Synthetic": "synthetic", "Stss": "stss", "HTTP": "http",
	"MemcachedASCII": "memcached-ascii", "MemcachedBinary": "memcached-binary", "Redis": "redis",
}

// define translates the specification into a load definition.
func define(e *v1alpha1.LatencyExperiment, target *v1alpha1.RpcService) (definition.Definition, error) {
	spec, w := e.Spec, e.Spec.Workload
	percentile, err := strconv.ParseFloat(spec.Percentile, 64)
	if err != nil {
		return definition.Definition{}, fmt.Errorf("`spec.percentile` %q is no number", spec.Percentile)
	}
	d := definition.Definition{
		Protocol:     protocols[w.Protocol],
		Load:         definition.Load{RequestsPerSecond: float64(spec.Load.RequestsPerSecond)},
		Interarrival: definition.Interarrival{Kind: map[string]string{"Fixed": "fixed"}[w.Interarrival]},
		Connections: definition.Connections{
			Count: int(w.ConnectionsPerAgent), Outstanding: int(w.OutstandingPerConnection), TimeoutMicroseconds: int64(w.TimeoutMilliseconds) * 1000,
		},
		Requests: requests(w),
		Measurement: definition.Measurement{
			Percentile: percentile, WidthMicroseconds: float64(spec.WidthMicroseconds), LimitSeconds: float64(spec.LimitSeconds),
			LatencyAgents: int(spec.LatencyAgents), LatencyRequestsPerSecond: float64(spec.LatencyRequestsPerSecond),
			ArrivalGaps: int(spec.ArrivalGaps),
		},
	}
	if spec.Measure == v1alpha1.MeasureService {
		d.Measurement.Latency = "service"
	}
	if s := spec.Load.Sweep; s != nil {
		d.Load.Sweep = &definition.Sweep{From: float64(s.FromRequestsPerSecond), To: float64(s.ToRequestsPerSecond), Points: int(s.Points)}
	}
	for _, address := range addresses(e, target) {
		t, err := definition.ParseTarget(address)
		if err != nil {
			return d, fmt.Errorf("`spec.target.addresses`: %w", err)
		}
		d.Targets = append(d.Targets, t)
	}
	return d, nil
}

func requests(w v1alpha1.ExperimentWorkload) definition.Requests {
	r := definition.Requests{
		RequestBytes: w.RequestBytes, ReplyBytes: w.ReplyBytes, ServiceTime: w.ServiceTimeNanoseconds, Path: w.Path,
		Keys: int(w.Keys), KeyOrder: w.KeyOrder, KeyBytes: w.KeyBytes, ValueBytes: w.ValueBytes, ScanLength: w.ScanLength,
		Mix: map[string]string{"GetSet": "get-set", "YCSBE": "ycsb-e"}[w.Mix], Preload: w.Preload == "AllKeys",
	}
	if w.ReadPercent != nil {
		share := float64(*w.ReadPercent) / 100
		r.ReadRatio = &share
	}
	return r
}

func addresses(e *v1alpha1.LatencyExperiment, target *v1alpha1.RpcService) []string {
	if target != nil {
		return []string{render.Address(target)}
	}
	return e.Spec.Target.Addresses
}

// decideAccepted says whether the experiment can be run, before any pod is made.
func decideAccepted(e *v1alpha1.LatencyExperiment, target *v1alpha1.RpcService) (definition.Definition, verdict) {
	if ref := e.Spec.Target.TargetRef; ref != nil && target == nil {
		return definition.Definition{}, verdict{metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound,
			fmt.Sprintf("there is no RpcService %q in namespace %q; create it, or another experiment", ref.Name, e.Namespace)}
	}
	d, err := define(e, target)
	if err == nil {
		err = d.Validate()
	}
	if err == nil {
		for _, load := range d.Experiments() {
			if bad := load.Validate(); bad != nil {
				err = errors.Join(err, fmt.Errorf("at %.0f requests/s: %w", load.Load, bad))
			}
		}
	}
	if err != nil {
		return d, verdict{metav1.ConditionFalse, v1alpha1.ReasonInvalidExperiment, err.Error()}
	}
	return d, verdict{metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the experiment can be run"}
}

// outcome is what became of the coordinator.
type outcome struct {
	over    bool
	failure string // why there is no result
	summary report.Summary
}

// decideOutcome reads the coordinator's last words. Labels are no proof of origin,
// anybody who may make a pod can set them: only pods the Job controls are heard,
// and of these only the container the operator put there.
func decideOutcome(pods []corev1.Pod, job *batchv1.Job) outcome {
	ended := ending(job)
	if ended == "" {
		return outcome{}
	}
	for _, pod := range pods {
		if !metav1.IsControlledBy(&pod, job) {
			continue
		}
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Terminated == nil || c.Name != v1alpha1.ComponentCoordinator {
				continue
			}
			s, err := report.ParseSummary(c.State.Terminated.Message)
			if err != nil {
				return outcome{over: true, failure: fmt.Sprintf("the coordinator ended with status %d and said nothing that can be read: %v; kubectl logs %s",
					c.State.Terminated.ExitCode, err, pod.Name)}
			}
			return outcome{over: true, failure: s.Error, summary: s}
		}
	}
	return outcome{over: true, failure: "the coordinator's Job ended without a result: " + ended}
}

// ending is why a Job is over, "" while it is not.
func ending(job *batchv1.Job) string {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return fmt.Sprintf("%s %s", c.Reason, c.Message)
		}
	}
	return ""
}

// decideReady is the summary: an experiment is ready once its result stands there,
// whatever the result.
func decideReady(accepted verdict, o outcome) verdict {
	switch {
	case accepted.status != metav1.ConditionTrue:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonNotAccepted, accepted.message}
	case !o.over:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonRunning, "agents and coordinator are at work"}
	case o.failure != "":
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonFailed, o.failure}
	}
	return verdict{metav1.ConditionTrue, v1alpha1.ReasonFinished, "the result stands in status.results"}
}

// decideConclusive says whether the result may be trusted.
func decideConclusive(ready verdict, results []v1alpha1.ExperimentResult) verdict {
	if ready.status != metav1.ConditionTrue {
		return verdict{metav1.ConditionUnknown, ready.reason, ready.message}
	}
	bad, first := 0, ""
	for _, r := range results {
		if r.Verdict == v1alpha1.VerdictInconclusive {
			bad++
			if first == "" {
				first = fmt.Sprintf("at %d requests/s: %s", r.OfferedRequestsPerSecond, r.Reason)
			}
		}
	}
	if bad > 0 {
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonInconclusive, fmt.Sprintf("%d of %d loads are inconclusive; %s", bad, len(results), first)}
	}
	return verdict{metav1.ConditionTrue, v1alpha1.ReasonConclusive, fmt.Sprintf("all %d loads are conclusive", len(results))}
}
