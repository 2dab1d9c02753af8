// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

func anObjective(percentile string, microseconds int32) *v1alpha1.ServiceLevelObjective {
	return &v1alpha1.ServiceLevelObjective{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "demo", Generation: 3},
		Spec: v1alpha1.ServiceLevelObjectiveSpec{
			TargetRef: v1alpha1.TargetReference{Kind: "RpcService", Name: "echo"}, Percentile: percentile,
			LatencyMicroseconds: microseconds, WindowSeconds: 30,
		},
	}
}

func aTarget() *v1alpha1.RpcService {
	return &v1alpha1.RpcService{Spec: v1alpha1.RpcServiceSpec{
		RequestTimeoutMilliseconds: 1000, Router: v1alpha1.RpcServiceRouter{Placement: v1alpha1.PlacementSoftware}}}
}

// measured is a router's histogram: `count` requests of `microseconds` each,
// and some that were never answered.
func measured(count int, microseconds uint64, unanswered, seconds int) *dataplane.HistogramReply {
	h := &dataplane.Histogram{}
	for range count {
		h.Record(microseconds * 1000)
	}
	for range unanswered {
		h.RecordInf()
	}
	return &dataplane.HistogramReply{Histogram: h, CoveredSeconds: seconds, Requests: uint64(count + unanswered)}
}

func TestSamplesRequired(t *testing.T) {
	for percentile, want := range map[string]int64{
		"50": 20, "75": 40, "90": 100, "95": 200, "99": 1000, "99.5": 2000, "99.9": 10000, "99.99": 100000, "97": 334,
	} {
		if got, err := samplesRequired(percentile); err != nil || got != want {
			t.Errorf("p%s: %d, %v; want %d", percentile, got, err, want)
		}
	}
	for _, bad := range []string{"", "100", "0", "-1", "x"} {
		if _, err := samplesRequired(bad); err == nil {
			t.Errorf("percentile %q passed", bad)
		}
	}
}

// Percentiles are never averaged: one slow router among two decides the p99 of
// both, where the mean of their p99s would not.
func TestMeasureMergesHistograms(t *testing.T) {
	s := &snapshot{slo: anObjective("99", 1000), target: aTarget(), parts: []part{
		{Name: "a", Required: true, Reply: measured(9800, 100, 0, 30)},
		{Name: "b", Required: true, Reply: measured(200, 5000, 0, 10)},
	}}
	s.parts[0].Reply.Rejected, s.parts[0].Reply.Requests = 500, 10300
	m, err := measure(s)
	if err != nil {
		t.Fatal(err)
	}
	if us := m.value.Microseconds(); m.value.Bound != ll7.Finite || us < 5000 || us > 5045 {
		t.Errorf("p99 %v (%v us), want 5000 within a bucket", m.value, us)
	}
	if m.samples != 10000 || m.rejected != 500 || m.requests != 10500 || m.covered != 30 {
		t.Errorf("%+v", m)
	}
	// 9800/30 + 200/10: the younger router's share is not diluted.
	if m.perSecond < 346 || m.perSecond > 347 {
		t.Errorf("%.1f requests/s, want 346.7", m.perSecond)
	}
	if m.source != v1alpha1.SourceRouter {
		t.Errorf("source %s", m.source)
	}
}

func TestDecideMet(t *testing.T) {
	dead := errors.New("connection refused")
	for _, c := range []struct {
		name       string
		percentile string
		parts      []part
		want       metav1.ConditionStatus
		reason     string
		message    string
	}{
		{"met", "99", []part{{Required: true, Reply: measured(1000, 900, 0, 30)}}, "True", v1alpha1.ReasonObjectiveMet, "p99 is"},
		{"missed", "99", []part{{Required: true, Reply: measured(1000, 1100, 0, 30)}}, "False", v1alpha1.ReasonObjectiveMissed, "the objective 1ms"},
		{"one too few", "99", []part{{Required: true, Reply: measured(999, 900, 0, 30)}}, "Unknown", v1alpha1.ReasonTooFewSamples, "999 requests in the last 30 s; p99 needs 1000"},
		{"nothing at all", "99", []part{{Required: true, Reply: measured(0, 0, 0, 30)}}, "Unknown", v1alpha1.ReasonTooFewSamples, "0 requests"},
		{"unanswered beyond the percentile", "99", []part{{Required: true, Reply: measured(990, 900, 10, 30)}}, "True", v1alpha1.ReasonObjectiveInInterval, ""},
		{"the percentile is unanswered, by one request", "99", []part{{Required: true, Reply: measured(989, 900, 11, 30)}}, "True", v1alpha1.ReasonObjectiveInInterval, "+Inf"},
		{"the whole interval is unanswered", "99", []part{{Required: true, Reply: measured(980, 900, 20, 30)}}, "False", v1alpha1.ReasonObjectiveMissed, "+Inf"},
		{"beyond the histogram", "50", []part{{Required: true, Reply: measured(100, 200_000_000, 0, 30)}}, "False", v1alpha1.ReasonObjectiveMissed, ">=137s"},
		{"a router is silent", "99", []part{{Name: "a", Required: true, Reply: measured(5000, 900, 0, 30)}, {Name: "b", Required: true, Err: dead}},
			"Unknown", v1alpha1.ReasonMeasurementIncomplete, "no histogram from b"},
		{"a draining router is silent", "99", []part{{Required: true, Reply: measured(5000, 900, 0, 30)}, {Err: dead}}, "True", v1alpha1.ReasonObjectiveMet, ""},
		{"a draining router counts", "99", []part{{Required: true, Reply: measured(600, 900, 0, 30)}, {Reply: measured(600, 900, 0, 30)}}, "True", v1alpha1.ReasonObjectiveMet, ""},
		{"an answer without a histogram", "99", []part{{Name: "a", Required: true, Reply: &dataplane.HistogramReply{}}}, "Unknown", v1alpha1.ReasonMeasurementIncomplete, ""},
		{"nobody", "99", nil, "Unknown", v1alpha1.ReasonNoMeasurementSource, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &snapshot{slo: anObjective(c.percentile, 1000), target: aTarget(), parts: c.parts}
			m, err := measure(s)
			if err != nil {
				t.Fatal(err)
			}
			required, err := samplesRequired(c.percentile)
			if err != nil {
				t.Fatal(err)
			}
			if v := decideMet(s.slo, m, required); v.Status != c.want || v.Reason != c.reason || !strings.Contains(v.Message, c.message) {
				t.Errorf("got %s %s: %q; want %s %s: %q", v.Status, v.Reason, v.Message, c.want, c.reason, c.message)
			}
		})
	}
}

// L-43: of 100,000 requests the 95 % interval of p99 ends at the ranks 98,938
// and 99,062. What lies inside is noise, what lies outside is not, whichever side
// the percentile itself falls on.
func TestMetIsAQuestionOfTheInterval(t *testing.T) {
	for slow, want := range map[int]struct {
		status metav1.ConditionStatus
		reason string
	}{
		900:  {metav1.ConditionTrue, v1alpha1.ReasonObjectiveMet},
		930:  {metav1.ConditionTrue, v1alpha1.ReasonObjectiveMet},
		945:  {metav1.ConditionTrue, v1alpha1.ReasonObjectiveInInterval},
		1000: {metav1.ConditionTrue, v1alpha1.ReasonObjectiveInInterval},
		1010: {metav1.ConditionTrue, v1alpha1.ReasonObjectiveInInterval},
		1055: {metav1.ConditionTrue, v1alpha1.ReasonObjectiveInInterval},
		1070: {metav1.ConditionFalse, v1alpha1.ReasonObjectiveMissed},
	} {
		reply := measured(100_000-slow, 900, 0, 30)
		reply.Histogram.Merge(measured(slow, 1030, 0, 30).Histogram)
		s := &snapshot{slo: anObjective("99", 1000), target: aTarget(), parts: []part{{Required: true, Reply: reply}}}
		m, err := measure(s)
		if err != nil {
			t.Fatal(err)
		}
		if v := decideMet(s.slo, m, 1000); v.Status != want.status || v.Reason != want.reason {
			t.Errorf("%d of 100000 slow: %s %s: %q; want %s %s", slow, v.Status, v.Reason, v.Message, want.status, want.reason)
		}
	}
}

// The objective itself is met by a value in the objective's own bucket only
// when the bucket's upper edge is not above it: a bucket is 0.8 % wide, and the
// doubt goes against the service.
func TestDoubtGoesAgainstTheService(t *testing.T) {
	s := &snapshot{slo: anObjective("50", 1000), target: aTarget(), parts: []part{{Required: true, Reply: measured(100, 1000, 0, 30)}}}
	m, err := measure(s)
	if err != nil {
		t.Fatal(err)
	}
	edge := ll7.UpperEdge(ll7.Index(1_000_000))
	if edge <= 1_000_000 {
		t.Fatalf("the test's value lies on an edge: %d", edge)
	}
	if v := decideMet(s.slo, m, 20); v.Status != metav1.ConditionFalse {
		t.Errorf("%s %s", v.Status, v.Message)
	}
}

func TestDecideAccepted(t *testing.T) {
	for _, c := range []struct {
		name   string
		us     int32
		target *v1alpha1.RpcService
		reason string
	}{
		{"fine", 1000, aTarget(), v1alpha1.ReasonAccepted},
		{"just as long as the timeout", 1_000_000, aTarget(), v1alpha1.ReasonAccepted},
		{"longer than the timeout", 1_000_001, aTarget(), v1alpha1.ReasonObjectiveBeyondTimeout},
		{"no target", 1000, nil, v1alpha1.ReasonTargetNotFound},
	} {
		v := decideAccepted(&snapshot{slo: anObjective("99", c.us), target: c.target})
		if v.Reason != c.reason || (v.Status == metav1.ConditionTrue) != (c.reason == v1alpha1.ReasonAccepted) {
			t.Errorf("%s: %s %s", c.name, v.Status, v.Reason)
		}
	}
}

// K-36: an objective that nobody can enforce and nobody can measure is told both.
func TestK36BothErrorsAreTold(t *testing.T) {
	o, target := anObjective("99", 1_000_001), aTarget()
	o.Spec.Enforcement.Mode = v1alpha1.EnforcementReject
	target.Spec.Router.Placement = v1alpha1.PlacementNone
	v := decideAccepted(&snapshot{slo: o, target: target})
	if v.Reason != v1alpha1.ReasonObjectiveBeyondTimeout || !strings.Contains(v.Message, "later requests count as unanswered; `spec.enforcement.mode`") {
		t.Errorf("%+v", v)
	}
}

func TestSourceFollowsThePlacement(t *testing.T) {
	target := aTarget()
	if (&snapshot{target: target}).measuringComponent() != v1alpha1.ComponentRouter || (&snapshot{target: target}).source() != v1alpha1.SourceRouter {
		t.Error("with routers, routers measure")
	}
	target.Spec.Router.Placement = v1alpha1.PlacementNone
	if (&snapshot{target: target}).measuringComponent() != v1alpha1.ComponentServer || (&snapshot{target: target}).source() != v1alpha1.SourceServer {
		t.Error("without routers, servers measure")
	}
	target.Spec.Router.Placement = v1alpha1.PlacementSwitch
	if s := (&snapshot{target: target}); s.measuringComponent() != v1alpha1.ComponentServer || s.source() != v1alpha1.SourceServer {
		t.Error("where a switch keeps no times, servers measure")
	}
	if s := (&snapshot{target: target, onSwitch: &SwitchMeasured{}}); s.measuringComponent() != v1alpha1.ComponentRouter || s.source() != v1alpha1.SourceSwitch {
		t.Error("the switch measures, and the routers that stand by for it")
	}
	target.Spec.Router.Placement = v1alpha1.PlacementSoftware
	if s := (&snapshot{target: target, onSwitch: &SwitchMeasured{}}); s.source() != v1alpha1.SourceRouter {
		t.Error("a service that leaves a switch is measured by its routers")
	}
}

func TestDuration(t *testing.T) {
	for ns, want := range map[uint64]string{
		0: "0us", 1023: "1.02us", 999_499: "999us", 999_500: "1ms", 1_234_567: "1.23ms", 87_340_000: "87.3ms",
		200_000_000: "200ms", 999_499_999: "999ms", 999_500_000: "1s", 137_438_953_472: "137s", 10_000: "10us",
	} {
		if got := duration(ns); got != want {
			t.Errorf("%d ns: %s, want %s", ns, got, want)
		}
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		rejected, requests uint64
		want               string
	}{{0, 0, "0.0%"}, {0, 10, "0.0%"}, {31, 1000, "3.1%"}, {10, 10, "100.0%"}, {11, 10, "100.0%"}} {
		if got := share(c.rejected, c.requests); got != c.want {
			t.Errorf("%d of %d: %s, want %s", c.rejected, c.requests, got, c.want)
		}
	}
}

// What stands in the status: numbers only where something was measured, and a
// percentile only with a verdict on it.
func TestWriteStatus(t *testing.T) {
	slo := anObjective("99", 1000)
	accepted := verdict.Yes(v1alpha1.ReasonAccepted, "")
	write := func(parts ...part) *v1alpha1.ServiceLevelObjectiveStatus {
		t.Helper()
		s := &snapshot{slo: slo, target: aTarget(), parts: parts}
		m, err := measure(s)
		if err != nil {
			t.Fatal(err)
		}
		writeStatus(slo, &plan{accepted: accepted, programmed: decideProgrammed(s, accepted), met: decideMet(slo, m, 1000), measured: m, required: 1000}, start)
		return &slo.Status
	}
	st := write(part{Required: true, Reply: measured(1000, 900, 0, 10)})
	if st.Observed != "901us" || *st.ObservedMicroseconds != 902 || *st.ObservedHighMicroseconds != 902 || *st.Samples != 1000 ||
		*st.RequestsPerSecond != 100 || st.RejectedShare != "0.0%" || st.Objective != "1ms" || st.WindowSeconds != 10 {
		t.Errorf("measured: %+v", st)
	}
	changed := st.LastChangeTime
	if len(st.Conditions) != 4 || !meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionReady) || changed == nil {
		t.Errorf("conditions %+v", st.Conditions)
	}
	st = write(part{Required: true, Reply: measured(10, 900, 0, 10)})
	if st.Observed != "" || st.ObservedMicroseconds != nil || *st.Samples != 10 || *st.RequestsPerSecond != 1 {
		t.Errorf("too few samples show a percentile: %+v", st)
	}
	if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue {
		t.Errorf("an idle service is still measured: %+v", c)
	}
	st = write(part{Required: true, Reply: measured(0, 0, 1000, 10)})
	if st.Observed != "+Inf" || st.ObservedMicroseconds != nil || *st.Unanswered != 1000 || *st.RequestsPerSecond != 0 {
		t.Errorf("infinite: %+v", st)
	}
	st = write()
	if st.Samples != nil || st.RejectedShare != "" || st.Observed != "" || st.Source != v1alpha1.SourceNone {
		t.Errorf("without a source numbers remain: %+v", st)
	}
	if meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionReady) {
		t.Error("nothing measures, yet Ready")
	}
}

// The time of the last change is that of the answer, not of the words for it.
func TestLastChange(t *testing.T) {
	slo := anObjective("99", 1000)
	yes := verdict.Yes(v1alpha1.ReasonAccepted, "")
	for i, c := range []struct {
		met  verdict.Verdict
		want int // minute of the last change
	}{
		{verdict.Yes(v1alpha1.ReasonObjectiveMet, ""), 0}, {verdict.Yes(v1alpha1.ReasonObjectiveInInterval, ""), 0},
		{verdict.No(v1alpha1.ReasonObjectiveMissed, ""), 2}, {verdict.No(v1alpha1.ReasonObjectiveMissed, "by more"), 2},
		{verdict.Unknown(v1alpha1.ReasonTooFewSamples, ""), 4}, {verdict.Unknown(v1alpha1.ReasonMeasurementIncomplete, ""), 4},
	} {
		writeStatus(slo, &plan{accepted: yes, programmed: yes, met: c.met, required: 1000}, start.Add(time.Duration(i)*time.Minute))
		if at := slo.Status.LastChangeTime; !at.Time.Equal(start.Add(time.Duration(c.want) * time.Minute)) {
			t.Errorf("step %d, %s: changed at %s, want minute %d", i, c.met.Reason, at, c.want)
		}
	}
}

func TestInRotation(t *testing.T) {
	p := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	if !inRotation(p) {
		t.Error("a ready pod is in rotation")
	}
	p.DeletionTimestamp = &metav1.Time{Time: start}
	if inRotation(p) || inRotation(&corev1.Pod{}) {
		t.Error("pods being deleted or not ready are not in rotation")
	}
}
