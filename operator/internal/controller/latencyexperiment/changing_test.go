// SPDX-License-Identifier: Apache-2.0

package latencyexperiment

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/definition"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/report"
)

// Steps and sine reach Lancet whole, and the Jobs live as long as they last.
func TestLoadsThatChange(t *testing.T) {
	e := experiment(func(s *v1alpha1.LatencyExperimentSpec) {
		s.WidthMicroseconds, s.Load = 0, v1alpha1.ExperimentLoad{Steps: []v1alpha1.ExperimentStep{{RequestsPerSecond: 100, Seconds: 3}, {RequestsPerSecond: 900, Seconds: 2}}}
	})
	d, accepted := decideAccepted(e, surroundings{})
	if accepted.Status != metav1.ConditionTrue {
		t.Fatal(accepted.Message)
	}
	if p := d.Phases(); len(p) != 2 || p[1].Load != 900 || p[1].Duration != 2*time.Second || len(d.Experiments()) != 0 || measuredSeconds(e, d) != 5 {
		t.Errorf("%+v, %d experiments, %d s", p, len(d.Experiments()), measuredSeconds(e, d))
	}
	e.Spec.Load = v1alpha1.ExperimentLoad{Sine: &v1alpha1.ExperimentSine{
		MeanRequestsPerSecond: 1000, AmplitudeRequestsPerSecond: 500, PeriodSeconds: 8, Seconds: 16, StepSeconds: 2}}
	if d, accepted = decideAccepted(e, surroundings{}); accepted.Status != metav1.ConditionTrue {
		t.Fatal(accepted.Message)
	}
	p := d.Phases()
	if len(p) != 8 || math.Round(p[0].Load) != 1354 || math.Round(p[2].Load) != 646 || p[0].Duration != 2*time.Second || measuredSeconds(e, d) != 16 {
		t.Errorf("%+v, %d s", p, measuredSeconds(e, d))
	}
	e.Spec.Load = v1alpha1.ExperimentLoad{Steps: []v1alpha1.ExperimentStep{{RequestsPerSecond: 900, Seconds: 2}, {RequestsPerSecond: 99, Seconds: 2}}}
	if _, accepted = decideAccepted(e, surroundings{}); accepted.Reason != v1alpha1.ReasonInvalidExperiment ||
		accepted.Message != "load: phase 1: 99 requests/s for 2s are 99 samples for each agent that measures: must be at least 100" {
		t.Errorf("%+v", accepted)
	}
	e = experiment(func(*v1alpha1.LatencyExperimentSpec) {})
	if d, _ = decideAccepted(e, surroundings{}); measuredSeconds(e, d) != 900 {
		t.Errorf("%d s of one steady load", measuredSeconds(e, d))
	}
}

func traced(s *v1alpha1.LatencyExperimentSpec) {
	s.Workload.Interarrival = "Trace"
	s.Workload.GapsFrom = &v1alpha1.ExperimentGapsSource{ConfigMapKeyRef: v1alpha1.ExperimentKeyReference{Name: "recorded", Key: "gaps"}}
}

// Gaps are read before a pod is made; what is wrong with them names the field, the
// ConfigMap and the gap.
func TestGaps(t *testing.T) {
	text := "1000 2000\n\t3000\n"
	d, accepted := decideAccepted(experiment(traced), surroundings{gaps: &text})
	c := d.Configuration(0)
	if accepted.Status != metav1.ConditionTrue || c.Arrivals != "trace" || len(c.TraceNanoseconds) != 3 || c.TraceNanoseconds[2] != 3000 {
		t.Errorf("%+v: %+v", accepted, c)
	}
	if raw, err := written(d); err != nil {
		t.Error(err)
	} else if back, err := definition.Parse(raw); err != nil || len(back.Interarrival.GapsNanoseconds) != 3 {
		t.Errorf("%v: %s", err, raw)
	}
	for name, c := range map[string]struct {
		text   *string
		reason string
		says   string
	}{
		"absent":   {nil, v1alpha1.ReasonGapsNotFound, "`spec.workload.gapsFrom`: there is no ConfigMap \"recorded\" with a key \"gaps\" in namespace \"apps\""},
		"a word":   {ptr("5 6 seven"), v1alpha1.ReasonInvalidExperiment, "`spec.workload.gapsFrom`: ConfigMap recorded, key gaps: gap 3, \"seven\": must be whole nanoseconds"},
		"negative": {ptr("-1"), v1alpha1.ReasonInvalidExperiment, "gap 1, \"-1\""},
		"only 0":   {ptr("0 0"), v1alpha1.ReasonInvalidExperiment, "2 gaps and none above 0"},
		"nothing":  {ptr(" "), v1alpha1.ReasonInvalidExperiment, "0 gaps and none above 0"},
		"too many": {ptr(strings.Repeat("1 ", 65_537)), v1alpha1.ReasonInvalidExperiment, "more than 65536 gaps"},
		"too long": {ptr(strings.Repeat(fmt.Sprintf("%016d ", 1), 60_000)), v1alpha1.ReasonInvalidExperiment, "1020000 bytes: must be at most 1000000"},
	} {
		_, got := decideAccepted(experiment(traced), surroundings{gaps: c.text})
		if got.Status != metav1.ConditionFalse || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %s: %.300s", name, got.Reason, got.Message)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// The example is one that can be run, with the gaps that stand beside it.
func TestExampleThatChanges(t *testing.T) {
	raw, err := os.ReadFile("../../../../examples/latency-experiment-changing.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(string(raw), "\n---\n")
	m, e := &corev1.ConfigMap{}, &v1alpha1.LatencyExperiment{}
	if err := errors.Join(yaml.UnmarshalStrict([]byte(first), m), yaml.UnmarshalStrict([]byte(second), e)); err != nil {
		t.Fatal(err)
	}
	ref := e.Spec.Workload.GapsFrom.ConfigMapKeyRef
	gaps := m.Data[ref.Key]
	e.Spec.Workload.Protocol = "R2P2" // the schema's default
	d, accepted := decideAccepted(e, surroundings{target: &v1alpha1.RpcService{}, gaps: &gaps})
	if accepted.Status != metav1.ConditionTrue || ref.Name != m.Name || len(d.Interarrival.GapsNanoseconds) != 8 || len(d.Phases()) != 3 || d.Traces.Share != 0.01 {
		t.Errorf("%+v, %+v", accepted, d)
	}
}

// Spans go where the experiment says, else where the sidecars send theirs; to
// nowhere is refused.
func TestTraces(t *testing.T) {
	for _, c := range []struct{ own, operators, want string }{
		{"http://a:4318", "", "http://a:4318"}, {"", "http://b:4318", "http://b:4318"}, {"http://a:4318", "http://b:4318", "http://a:4318"}, {"", "", ""},
	} {
		e := experiment(func(s *v1alpha1.LatencyExperimentSpec) {
			s.Workload = v1alpha1.ExperimentWorkload{Protocol: "R2P2", ConnectionsPerAgent: 8, OutstandingPerConnection: 1, TimeoutMilliseconds: 500}
			s.Traces = &v1alpha1.ExperimentTraces{SamplePercent: "0.5", OTLPEndpoint: c.own}
		})
		d, accepted := decideAccepted(e, surroundings{otlp: c.operators})
		if c.want == "" {
			if accepted.Reason != v1alpha1.ReasonInvalidExperiment || !strings.Contains(accepted.Message, "`spec.traces.otlpEndpoint` must be given") {
				t.Errorf("%+v", accepted)
			}
			continue
		}
		if accepted.Status != metav1.ConditionTrue || d.Traces.OTLPEndpoint != c.want || d.Configuration(0).TraceShare != 0.005 {
			t.Errorf("%+v: %+v, %+v", c, accepted, d.Traces)
		}
	}
}

// What was followed is not called inconclusive, and its worst phase stands in the column.
func TestFollowedPhases(t *testing.T) {
	us := func(v int64) *int64 { return &v }
	s := report.Summary{Changing: true, Loads: []report.SummaryLoad{
		{Offered: 100, Achieved: 99, Value: us(40), Low: us(38), High: us(45)}, {Offered: 900, Achieved: 880, Value: us(400), Low: us(350), High: us(480), Start: 3}}}
	e := experiment(func(*v1alpha1.LatencyExperimentSpec) {})
	yes := verdict.Yes(v1alpha1.ReasonAccepted, "")
	writeStatus(e, yes, yes, outcome{over: true, summary: s}, time.Now())
	st := e.Status
	if st.Observed != "up to 400us at 900/s" || st.Loads != 2 || st.Results[1].Verdict != v1alpha1.VerdictFollowed || *st.Results[1].StartSeconds != 3 || *st.Results[0].StartSeconds != 0 {
		t.Errorf("%+v", st)
	}
	for _, c := range st.Conditions {
		if c.Type == v1alpha1.ConditionConclusive && (c.Status != metav1.ConditionUnknown || c.Reason != v1alpha1.ReasonFollowed || !strings.Contains(c.Message, "2 phases")) {
			t.Errorf("%+v", c)
		}
	}
	s.Loads[1].Value = nil
	if writeStatus(e, yes, yes, outcome{over: true, summary: s}, time.Now()); e.Status.Observed != "" {
		t.Errorf("%q where a percentile is infinite", e.Status.Observed)
	}
}
