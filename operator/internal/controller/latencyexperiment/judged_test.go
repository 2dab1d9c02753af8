// SPDX-License-Identifier: Apache-2.0

package latencyexperiment

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/definition"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/report"
)

// Nothing of a specification is dropped, or mistaken for something beside it.
func TestDefinitionIsWhole(t *testing.T) {
	e := experiment(func(s *v1alpha1.LatencyExperimentSpec) {
		s.Workload.ConnectionsPerAgent, s.Workload.OutstandingPerConnection = 7, 3
		s.LatencyAgents, s.LatencyRequestsPerSecond, s.ArrivalGaps = 4, 5, 6
	})
	d, err := define(e, surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (definition.Connections{Count: 7, Outstanding: 3, TimeoutMicroseconds: 500_000}); !reflect.DeepEqual(d.Connections, want) {
		t.Errorf("%+v, want %+v", d.Connections, want)
	}
	want := definition.Measurement{Percentile: 99.9, WidthMicroseconds: 50, LimitSeconds: 900, LatencyAgents: 4, LatencyRequestsPerSecond: 5, ArrivalGaps: 6}
	if !reflect.DeepEqual(d.Measurement, want) {
		t.Errorf("%+v, want %+v", d.Measurement, want)
	}
	if d.Protocol != "http" || d.Interarrival.Kind != "" || len(d.Targets) != 2 || d.Traces != (definition.Traces{}) {
		t.Errorf("%+v", d)
	}
}

func TestLoad(t *testing.T) {
	for _, c := range []struct {
		from v1alpha1.ExperimentLoad
		want definition.Load
	}{
		{v1alpha1.ExperimentLoad{RequestsPerSecond: 5}, definition.Load{RequestsPerSecond: 5}},
		{v1alpha1.ExperimentLoad{Sweep: &v1alpha1.ExperimentSweep{FromRequestsPerSecond: 1, ToRequestsPerSecond: 2, Points: 3}}, definition.Load{Sweep: &definition.Sweep{From: 1, To: 2, Points: 3}}},
		{v1alpha1.ExperimentLoad{Steps: []v1alpha1.ExperimentStep{{RequestsPerSecond: 1, Seconds: 2}, {RequestsPerSecond: 3, Seconds: 4}}},
			definition.Load{Steps: []definition.Step{{RequestsPerSecond: 1, Seconds: 2}, {RequestsPerSecond: 3, Seconds: 4}}}},
		{v1alpha1.ExperimentLoad{Sine: &v1alpha1.ExperimentSine{MeanRequestsPerSecond: 1, AmplitudeRequestsPerSecond: 2, PeriodSeconds: 3, Seconds: 4, StepSeconds: 5}},
			definition.Load{Sine: &definition.Sine{Mean: 1, Amplitude: 2, Period: 3, Seconds: 4, Step: 5}}},
	} {
		if got := load(c.from); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

// Whatever is wrong is told in the words of the document, and all of it.
func TestRefusals(t *testing.T) {
	numbers := func(s *v1alpha1.LatencyExperimentSpec) { s.Percentile = "most" }
	for says, change := range map[string]func(*v1alpha1.LatencyExperimentSpec){
		"`spec.percentile` \"most\" is no number":           numbers,
		"`spec.traces.samplePercent` \"some\" is no number": func(s *v1alpha1.LatencyExperimentSpec) { s.Traces = &v1alpha1.ExperimentTraces{SamplePercent: "some"} },
		"`spec.target.addresses`: ":                         func(s *v1alpha1.LatencyExperimentSpec) { s.Target.Addresses = []string{"a:80", "b"} },
		"`spec.traces.otlpEndpoint` must be given: the operator was told of no receiver of spans (its --otlp-endpoint)\n`spec.target.addresses`: ": func(s *v1alpha1.LatencyExperimentSpec) {
			s.Target.Addresses, s.Traces = []string{"b"}, &v1alpha1.ExperimentTraces{SamplePercent: "1"}
		},
		"`spec.workload.gapsFrom`: there is no ConfigMap": traced,
		"spec.limitSeconds": func(s *v1alpha1.LatencyExperimentSpec) { s.Load.RequestsPerSecond = 10 },
	} {
		d, accepted := decideAccepted(experiment(change), surroundings{})
		if accepted.OK() || !strings.Contains(accepted.Message, says) || strings.Contains(accepted.Message, "measurement.") {
			t.Errorf("%s: %s", says, accepted.Message)
		}
		if !reflect.DeepEqual(d, definition.Definition{}) {
			t.Errorf("%s: refused, and still defined: %+v", says, d)
		}
	}
}

// Gaps count when the arrivals are recorded ones, and as many bytes as a ConfigMap has room for.
func TestInterarrival(t *testing.T) {
	full := strings.Repeat("1 ", 10)
	full += strings.Repeat(" ", maxGapsBytes-len(full))
	from := &v1alpha1.ExperimentGapsSource{}
	for _, c := range []struct {
		kind  string
		gaps  *string
		want  string
		many  int
		wrong bool
	}{
		{"Fixed", &full, "fixed", 0, false},
		{"Poisson", &full, "", 0, false},
		{"Trace", nil, "", 0, false},
		{"Trace", &full, "table", 10, false},
		{"Trace", ptr(full + " "), "table", 10, true},
	} {
		got, err := interarrival(v1alpha1.ExperimentWorkload{Interarrival: c.kind, GapsFrom: from}, c.gaps)
		if got.Kind != c.want || len(got.GapsNanoseconds) != c.many || (err != nil) != c.wrong {
			t.Errorf("%s: %q with %d gaps, %v", c.kind, got.Kind, len(got.GapsNanoseconds), err)
		}
	}
}

// A Job is over when it is complete or has failed, and only then.
func TestEnding(t *testing.T) {
	condition := func(kind batchv1.JobConditionType, status corev1.ConditionStatus) batchv1.JobCondition {
		return batchv1.JobCondition{Type: kind, Status: status, Reason: "R" + string(kind), Message: "m"}
	}
	for want, all := range map[string][]batchv1.JobCondition{
		"":            {condition(batchv1.JobComplete, corev1.ConditionFalse), condition(batchv1.JobSuspended, corev1.ConditionTrue), condition(batchv1.JobFailed, corev1.ConditionUnknown)},
		"RComplete m": {condition(batchv1.JobSuspended, corev1.ConditionTrue), condition(batchv1.JobComplete, corev1.ConditionTrue)},
		"RFailed m":   {condition(batchv1.JobFailureTarget, corev1.ConditionTrue), condition(batchv1.JobFailed, corev1.ConditionTrue)},
	} {
		if got := ending(&batchv1.Job{Status: batchv1.JobStatus{Conditions: all}}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A coordinator that says why it failed is quoted; of one that still runs, beside a
// container that ended, nothing is known.
func TestOutcomeOfAFailure(t *testing.T) {
	job := finished("Failed")
	if o := decideOutcome([]corev1.Pod{said(job, v1alpha1.ComponentCoordinator, `{"error":"agent 1 is gone"}`)}, job); !o.over || o.failure != "agent 1 is gone" {
		t.Errorf("%+v", o)
	}
	garbled := said(job, v1alpha1.ComponentCoordinator, "killed")
	garbled.Status.ContainerStatuses[0].State.Terminated.ExitCode = 137
	if o := decideOutcome([]corev1.Pod{garbled}, job); !o.over || !strings.Contains(o.failure, "ended with status 137") || !strings.HasSuffix(o.failure, "; kubectl logs x-coordinator-1") {
		t.Errorf("%+v", o)
	}
	running := said(job, "x", "")
	running.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: v1alpha1.ComponentCoordinator, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	if o := decideOutcome([]corev1.Pod{running}, job); !o.over || o.failure != "the coordinator's Job ended without a result: Failed " {
		t.Errorf("%+v", o)
	}
	if o := decideOutcome([]corev1.Pod{said(job, v1alpha1.ComponentCoordinator, `{"error":"early"}`)}, &batchv1.Job{ObjectMeta: job.ObjectMeta}); o.over {
		t.Errorf("%+v", o)
	}
}

func TestDecideReady(t *testing.T) {
	yes, no := verdict.Yes(v1alpha1.ReasonAccepted, ""), verdict.No(v1alpha1.ReasonTargetNotFound, "why")
	for _, c := range []struct {
		accepted verdict.Verdict
		o        outcome
		want     verdict.Verdict
	}{
		{no, outcome{over: true}, verdict.No(v1alpha1.ReasonNotAccepted, "why")},
		{yes, outcome{}, verdict.No(v1alpha1.ReasonRunning, "agents and coordinator are at work")},
		{yes, outcome{failure: "not yet"}, verdict.No(v1alpha1.ReasonRunning, "agents and coordinator are at work")},
		{yes, outcome{over: true, failure: "broke"}, verdict.Failed(v1alpha1.ReasonFailed, "broke")},
		{yes, outcome{over: true}, verdict.Yes(v1alpha1.ReasonFinished, "the result stands in status.results")},
	} {
		if got := decideReady(c.accepted, c.o); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

func TestDecideConclusive(t *testing.T) {
	yes := verdict.Yes(v1alpha1.ReasonFinished, "")
	good := v1alpha1.ExperimentResult{Verdict: v1alpha1.VerdictConclusive}
	bad := func(rate int64, why string) v1alpha1.ExperimentResult {
		return v1alpha1.ExperimentResult{Verdict: v1alpha1.VerdictInconclusive, OfferedRequestsPerSecond: rate, Reason: why}
	}
	for _, c := range []struct {
		ready   verdict.Verdict
		results []v1alpha1.ExperimentResult
		want    verdict.Verdict
	}{
		{verdict.No(v1alpha1.ReasonRunning, "at work"), []v1alpha1.ExperimentResult{good}, verdict.Unknown(v1alpha1.ReasonRunning, "at work")},
		{yes, []v1alpha1.ExperimentResult{good, good}, verdict.Yes(v1alpha1.ReasonConclusive, "all 2 loads are conclusive")},
		{yes, []v1alpha1.ExperimentResult{good, bad(7, "a"), bad(9, "b")}, verdict.No(v1alpha1.ReasonInconclusive, "2 of 3 loads are inconclusive; at 7 requests/s: a")},
		{yes, []v1alpha1.ExperimentResult{{Verdict: v1alpha1.VerdictFollowed}, bad(7, "a")}, verdict.Unknown(v1alpha1.ReasonFollowed, "2 phases were followed; a load that changes has no steady state to qualify")},
	} {
		if got := decideConclusive(c.ready, c.results); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

// Results come over whole, and are called what they are.
func TestResults(t *testing.T) {
	all := []report.SummaryLoad{
		{Offered: 10, Achieved: 9, Value: ptr[int64](3), Low: ptr[int64](2), High: ptr[int64](4), Conclusive: true, Reason: "r", Start: 5},
		{Offered: -1, Achieved: -1, Start: -1},
	}
	want := []v1alpha1.ExperimentResult{
		{OfferedRequestsPerSecond: 10, AchievedRequestsPerSecond: 9, ObservedMicroseconds: ptr[int64](3), ObservedLowMicroseconds: ptr[int64](2), ObservedHighMicroseconds: ptr[int64](4), Verdict: v1alpha1.VerdictConclusive, Reason: "r"},
		{Verdict: v1alpha1.VerdictInconclusive},
	}
	if got := results(report.Summary{Loads: all}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	got := results(report.Summary{Loads: all, Changing: true})
	if got[0].Verdict != v1alpha1.VerdictFollowed || *got[0].StartSeconds != 5 || got[1].Verdict != v1alpha1.VerdictFollowed || *got[1].StartSeconds != 0 {
		t.Errorf("%+v", got)
	}
	e := experiment(func(*v1alpha1.LatencyExperimentSpec) {})
	yes := verdict.Yes(v1alpha1.ReasonAccepted, "")
	if writeStatus(e, yes, yes, outcome{summary: report.Summary{Loads: all}}, time.Now()); e.Status.Loads != 0 || e.Status.Results != nil || e.Status.Observed != "" {
		t.Errorf("results before the end: %+v", e.Status)
	}
	if writeStatus(e, yes, yes, outcome{over: true, summary: report.Summary{Loads: all}}, time.Now()); e.Status.Loads != 2 || e.Status.Observed != "3us (2-4us) at 10/s" {
		t.Errorf("%+v", e.Status)
	}
}

// The column names the highest load that may be trusted, and the first of phases as slow as each other.
func TestObserved(t *testing.T) {
	of := func(v v1alpha1.ExperimentVerdict, rate int64, numbers ...int64) v1alpha1.ExperimentResult {
		r := v1alpha1.ExperimentResult{Verdict: v, OfferedRequestsPerSecond: rate}
		for i, into := range []**int64{&r.ObservedMicroseconds, &r.ObservedLowMicroseconds, &r.ObservedHighMicroseconds}[:len(numbers)] {
			*into = &numbers[i]
		}
		return r
	}
	const yes, no, followed = v1alpha1.VerdictConclusive, v1alpha1.VerdictInconclusive, v1alpha1.VerdictFollowed
	headless := of(yes, 9, 5, 4)
	lowless := of(yes, 9, 5, 4, 6)
	lowless.ObservedLowMicroseconds = nil
	blank := of(yes, 9, 5, 4, 6)
	blank.ObservedMicroseconds = nil
	for _, c := range []struct {
		want string
		all  []v1alpha1.ExperimentResult
	}{
		{"", nil},
		{"", []v1alpha1.ExperimentResult{of(no, 1, 2, 1, 3)}},
		{"", []v1alpha1.ExperimentResult{headless}},
		{"", []v1alpha1.ExperimentResult{lowless}},
		{"", []v1alpha1.ExperimentResult{blank}},
		{"20us (10-30us) at 5/s", []v1alpha1.ExperimentResult{of(yes, 1, 2, 1, 3), of(yes, 5, 20, 10, 30), of(no, 7, 21, 11, 31)}},
		{"up to 50us at 2/s", []v1alpha1.ExperimentResult{of(followed, 1, 40), of(followed, 2, 50), of(followed, 3, 50), of(followed, 4, 45)}},
		{"", []v1alpha1.ExperimentResult{of(followed, 1, 40), of(followed, 2)}},
	} {
		if got := observed(c.all); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// An experiment is over once its result stands there, whether it is one or a failure.
func TestOverAndAgain(t *testing.T) {
	for reason, want := range map[string]bool{"": false, v1alpha1.ReasonFinished: true, v1alpha1.ReasonFailed: true, v1alpha1.ReasonRunning: false, v1alpha1.ReasonNotAccepted: false} {
		e := &v1alpha1.LatencyExperiment{}
		if reason != "" {
			e.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: reason}}
		}
		if over(e) != want {
			t.Errorf("%q: over %t", reason, over(e))
		}
	}
	for reason, want := range map[string]time.Duration{v1alpha1.ReasonNameConflict: 30 * time.Second, v1alpha1.ReasonGapsNotFound: 30 * time.Second, v1alpha1.ReasonTargetNotFound: 0, v1alpha1.ReasonAccepted: 0} {
		if got := again(verdict.No(reason, "")); got != want {
			t.Errorf("%s: again after %s", reason, got)
		}
	}
}

// Seconds that are begun count whole: a Job is not cut off in the last one.
func TestMeasuredSecondsAreRoundedUp(t *testing.T) {
	d := definition.Definition{Load: definition.Load{Sine: &definition.Sine{Mean: 10, Amplitude: 1, Period: 1.5, Seconds: 1.5, Step: 0.5}}}
	var all float64
	for _, p := range d.Phases() {
		all += p.Duration.Seconds()
	}
	e := experiment(func(*v1alpha1.LatencyExperimentSpec) {})
	if got := measuredSeconds(e, d); all != 1.5 || got != int64(math.Ceil(all)) || got != 2 {
		t.Errorf("%d s for %v s", got, all)
	}
	d = definition.Definition{Load: definition.Load{Sweep: &definition.Sweep{From: 1, To: 3, Points: 3}}}
	if got := measuredSeconds(e, d); got != 3*900 {
		t.Errorf("%d s of three loads", got)
	}
}
