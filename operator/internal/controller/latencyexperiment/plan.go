// SPDX-License-Identifier: Apache-2.0

// What an experiment means for Lancet, whether it can be run, and what its
// coordinator's last words say. Pure.
package latencyexperiment

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/definition"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/report"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// surroundings is what an experiment refers to, as far as it is there.
type surroundings struct {
	target *v1alpha1.RpcService // nil: none is named, or there is none
	gaps   *string              // nil: likewise
	otlp   string               // where the operator's sidecars send spans
}

// define translates the specification into a load definition.
func define(e *v1alpha1.LatencyExperiment, w surroundings) (definition.Definition, error) {
	spec := e.Spec
	percentile, err := strconv.ParseFloat(spec.Percentile, 64)
	if err != nil {
		return definition.Definition{}, fmt.Errorf("`spec.percentile` %q is no number", spec.Percentile)
	}
	d := definition.Definition{
		Protocol: spec.Workload.Protocol.Word(), Load: load(spec.Load),
		Connections: definition.Connections{
			Count: int(spec.Workload.ConnectionsPerAgent), Outstanding: int(spec.Workload.OutstandingPerConnection),
			TimeoutMicroseconds: int64(spec.Workload.TimeoutMilliseconds) * 1000,
		},
		Requests: requests(spec.Workload),
		Measurement: definition.Measurement{
			Percentile: percentile, WidthMicroseconds: float64(spec.WidthMicroseconds), LimitSeconds: float64(spec.LimitSeconds),
			LatencyAgents: int(spec.LatencyAgents), LatencyRequestsPerSecond: float64(spec.LatencyRequestsPerSecond),
			ArrivalGaps: int(spec.ArrivalGaps),
		},
	}
	if spec.Measure == v1alpha1.MeasureService {
		d.Measurement.Latency = "service"
	}
	var wrong [3]error
	d.Interarrival, wrong[0] = interarrival(spec.Workload, w.gaps)
	d.Traces, wrong[1] = traces(spec.Traces, w.otlp)
	d.Targets, wrong[2] = targets(addresses(e, w.target))
	return d, errors.Join(wrong[:]...)
}

func targets(addresses []string) (out []definition.Target, err error) {
	for _, address := range addresses {
		t, err := definition.ParseTarget(address)
		if err != nil {
			return nil, fmt.Errorf("`spec.target.addresses`: %w", err)
		}
		out = append(out, t)
	}
	return out, nil
}

func load(l v1alpha1.ExperimentLoad) definition.Load {
	out := definition.Load{RequestsPerSecond: float64(l.RequestsPerSecond)}
	if s := l.Sweep; s != nil {
		out.Sweep = &definition.Sweep{From: float64(s.FromRequestsPerSecond), To: float64(s.ToRequestsPerSecond), Points: int(s.Points)}
	}
	for _, s := range l.Steps {
		out.Steps = append(out.Steps, definition.Step{RequestsPerSecond: float64(s.RequestsPerSecond), Seconds: float64(s.Seconds)})
	}
	if s := l.Sine; s != nil {
		out.Sine = &definition.Sine{Mean: float64(s.MeanRequestsPerSecond), Amplitude: float64(s.AmplitudeRequestsPerSecond),
			Period: float64(s.PeriodSeconds), Seconds: float64(s.Seconds), Step: float64(s.StepSeconds)}
	}
	return out
}

// maxGapsBytes leaves room beside them in a ConfigMap, which holds 1 MiB.
const maxGapsBytes = 1_000_000

func interarrival(w v1alpha1.ExperimentWorkload, gaps *string) (definition.Interarrival, error) {
	switch {
	case w.Interarrival == "Fixed":
		return definition.Interarrival{Kind: "fixed"}, nil
	case w.Interarrival != "Trace" || gaps == nil:
		return definition.Interarrival{}, nil
	}
	all, err := definition.ParseGaps(*gaps)
	if err == nil && len(*gaps) > maxGapsBytes {
		err = fmt.Errorf("%d bytes: must be at most %d, as they are copied into the load definition", len(*gaps), maxGapsBytes)
	}
	if err != nil {
		ref := w.GapsFrom.ConfigMapKeyRef
		err = fmt.Errorf("`spec.workload.gapsFrom`: ConfigMap %s, key %s: %w", ref.Name, ref.Key, err)
	}
	return definition.Interarrival{Kind: "table", GapsNanoseconds: all}, err
}

func traces(t *v1alpha1.ExperimentTraces, otlp string) (definition.Traces, error) {
	if t == nil {
		return definition.Traces{}, nil
	}
	percent, err := strconv.ParseFloat(t.SamplePercent, 64)
	if err != nil {
		return definition.Traces{}, fmt.Errorf("`spec.traces.samplePercent` %q is no number", t.SamplePercent)
	}
	out := definition.Traces{Share: percent / 100, OTLPEndpoint: cmp.Or(t.OTLPEndpoint, otlp)}
	if out.OTLPEndpoint == "" {
		return out, errors.New("`spec.traces.otlpEndpoint` must be given: the operator was told of no receiver of spans (its --otlp-endpoint)")
	}
	return out, nil
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
		return []string{render.Address(target, target.Status.Addresses)}
	}
	return e.Spec.Target.Addresses
}

// decideAccepted says whether the experiment can be run, before any pod is made.
func decideAccepted(e *v1alpha1.LatencyExperiment, w surroundings) (definition.Definition, verdict.Verdict) {
	var wrong []verdict.Verdict
	refuse := func(reason, format string, args ...any) {
		wrong = append(wrong, verdict.No(reason, fmt.Sprintf(format, args...)))
	}
	if why := mismatch(e.Spec.Workload.Protocol, w.target); why != "" {
		refuse(v1alpha1.ReasonInvalidExperiment, "%s", why)
	}
	if ref := e.Spec.Target.TargetRef; ref != nil && w.target == nil {
		refuse(v1alpha1.ReasonTargetNotFound, "there is no RpcService %q in namespace %q; create it, or another experiment", ref.Name, e.Namespace)
		w.target = &v1alpha1.RpcService{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: ref.Name}} // to judge the rest
	}
	if from := e.Spec.Workload.GapsFrom; from != nil && w.gaps == nil {
		refuse(v1alpha1.ReasonGapsNotFound, "`spec.workload.gapsFrom`: there is no ConfigMap %q with a key %q in namespace %q; create it, or another experiment",
			from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, e.Namespace)
	}
	d, err := judged(e, w)
	if err != nil {
		refuse(v1alpha1.ReasonInvalidExperiment, "%v", err)
	}
	if refused, none := verdict.Refusals(wrong...); !none {
		return definition.Definition{}, refused
	}
	return d, verdict.Yes(v1alpha1.ReasonAccepted, "the experiment can be run")
}

// judged is the load definition, or everything that is wrong with it.
func judged(e *v1alpha1.LatencyExperiment, w surroundings) (definition.Definition, error) {
	d, err := define(e, w)
	if err == nil {
		err = d.Validate()
	}
	if err == nil {
		err = lancet.CheckPhases(d.Template(), d.Phases(), int(e.Spec.Agents))
		if bad := d.CheckExperiments(); bad != nil { // the document has the fields of a measurement in its spec
			err = errors.Join(err, errors.New(strings.ReplaceAll(bad.Error(), "measurement.", "spec.")))
		}
	}
	return d, err
}

// mismatch says why an RpcService does not understand a workload; "" when it may.
func mismatch(protocol v1alpha1.ExperimentProtocol, target *v1alpha1.RpcService) string {
	switch {
	case target == nil, (protocol == v1alpha1.ExperimentR2P2) != render.TCP(target):
		return ""
	case render.TCP(target):
		return fmt.Sprintf("`spec.workload.protocol` must not be R2P2: `spec.protocol` of RpcService %s is TCP; say what its servers speak over it", target.Name)
	}
	return fmt.Sprintf("`spec.workload.protocol` must be R2P2: that is what RpcService %s speaks", target.Name)
}

// measuredSeconds is how long the loads may be measured in all.
func measuredSeconds(e *v1alpha1.LatencyExperiment, d definition.Definition) int64 {
	seconds := float64(len(d.Experiments())) * float64(e.Spec.LimitSeconds)
	for _, p := range d.Phases() {
		seconds += p.Duration.Seconds()
	}
	return int64(math.Ceil(seconds))
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
func decideReady(accepted verdict.Verdict, o outcome) verdict.Verdict {
	switch {
	case accepted.Status != metav1.ConditionTrue:
		return verdict.No(v1alpha1.ReasonNotAccepted, accepted.Message)
	case !o.over:
		return verdict.No(v1alpha1.ReasonRunning, "agents and coordinator are at work")
	case o.failure != "":
		return verdict.Failed(v1alpha1.ReasonFailed, o.failure)
	}
	return verdict.Yes(v1alpha1.ReasonFinished, "the result stands in status.results")
}

// decideConclusive says whether the result may be trusted.
func decideConclusive(ready verdict.Verdict, results []v1alpha1.ExperimentResult) verdict.Verdict {
	if ready.Status != metav1.ConditionTrue {
		return verdict.Unknown(ready.Reason, ready.Message)
	}
	bad, first := 0, ""
	for _, r := range results {
		if r.Verdict == v1alpha1.VerdictFollowed {
			return verdict.Unknown(v1alpha1.ReasonFollowed, fmt.Sprintf(
				"%d phases were followed; a load that changes has no steady state to qualify", len(results)))
		}
		if r.Verdict == v1alpha1.VerdictInconclusive {
			bad++
			if first == "" {
				first = fmt.Sprintf("at %d requests/s: %s", r.OfferedRequestsPerSecond, r.Reason)
			}
		}
	}
	if bad > 0 {
		return verdict.No(v1alpha1.ReasonInconclusive, fmt.Sprintf("%d of %d loads are inconclusive; %s", bad, len(results), first))
	}
	return verdict.Yes(v1alpha1.ReasonConclusive, fmt.Sprintf("all %d loads are conclusive", len(results)))
}
