// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// evidence of a finding; empty of none.
func evidence(f *finding) string {
	if f == nil {
		return ""
	}
	return f.Evidence
}

// What servers say of their load is shown when they say all of it.
func TestFlowControlThatIsHalfKnown(t *testing.T) {
	for _, c := range []struct {
		status v1alpha1.FlowControlStatus
		want   string
	}{
		{v1alpha1.FlowControlStatus{Throttling: 1, Replicas: 2}, "1 of 2 servers hold clients back"},
		{v1alpha1.FlowControlStatus{Throttling: 1, Replicas: 2, LoadPercent: new(int32(90))}, "1 of 2 servers hold clients back"},
		{v1alpha1.FlowControlStatus{Throttling: 1, Replicas: 2, AdmittedPercent: new(int32(70))}, "1 of 2 servers hold clients back"},
		{v1alpha1.FlowControlStatus{Refused: 3, Replicas: 2}, "0 of 2 servers hold clients back; about 3 requests came from clients that had been told to be silent"},
		{v1alpha1.FlowControlStatus{Replicas: 2}, ""},
	} {
		service := aService()
		c.status.Reason = v1alpha1.FlowControlInForce
		service.Status.FlowControl = &c.status
		if got := evidence(ofFlowControl(service)); got != c.want {
			t.Errorf("%+v: %q, want %q", c.status, got, c.want)
		}
	}
}

func TestWhatExecutes(t *testing.T) {
	for _, c := range []struct {
		status *v1alpha1.SchedulingStatus
		n      float64
		what   string
	}{{nil, 16, "workers"}, {&v1alpha1.SchedulingStatus{}, 16, "workers"}, {&v1alpha1.SchedulingStatus{AllowedCores: 1}, 1, "cores"}} {
		service := aService()
		service.Status.Scheduling = c.status
		if n, what := executors(service); n != c.n || what != c.what {
			t.Errorf("%+v: %v %s", c.status, n, what)
		}
	}
}

// A service time as long as the objective, with what comes on top of it, is within it.
func TestServiceTimeAtTheObjective(t *testing.T) {
	const v = 2047 // ns, the end of a bucket
	us := int64(1)
	for _, c := range []struct {
		objective time.Duration
		overhead  *int64
		want      string
	}{
		{v, nil, ""}, {v - 1, nil, "2.05µs, the objective"}, {v + 1000, &us, ""}, {v + 999, &us, "1µs of overhead come on top"},
	} {
		slo := anSLO()
		slo.Status.Capacity = &v1alpha1.CapacityEstimate{OverheadMicroseconds: c.overhead}
		o := &observation{service: *steps(map[time.Duration]int{v: 3})}
		if got := evidence(ofServiceTime(slo, o, "99", c.objective)); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// Load counts from 85 % on; the capacity of an objective has to be exceeded, and what never ended has no service time.
func TestLoadAtItsLimits(t *testing.T) {
	for _, c := range []struct {
		name     string
		rate     float64
		ready    int32
		capacity int64
		lost     int
		want     string
	}{
		{"as busy as may be", 0.84, 1, 0, 0, ""},
		{"busy", 0.85, 1, 0, 0, "1 requests/s of 1s on average keep 1 workers 85% busy"},
		{"at the capacity", 2, 16, 2, 0, ""},
		{"above it", 3, 16, 2, 0, "keep 16 workers 19% busy; estimated capacity under the objective 0-2"},
		{"no worker", 9, 0, 0, 0, ""},
		{"some never ended", 1, 1, 0, 3, "requests/s of 1s on average keep 1 workers 100% busy"},
	} {
		service, slo := aService(), anSLO()
		service.Status.ReadyWorkers = c.ready
		slo.Status.Capacity = nil
		if c.capacity > 0 {
			slo.Status.Capacity = &v1alpha1.CapacityEstimate{HighRequestsPerSecond: c.capacity, Range: "0-2"}
		}
		o := &observation{perSecond: c.rate, service: *steps(map[time.Duration]int{time.Second: 4})}
		for range c.lost {
			o.service.RecordInf()
		}
		if got := evidence(ofLoad(service, slo, o)); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	if f := ofLoad(aService(), anSLO(), &observation{perSecond: 1e9}); f != nil {
		t.Errorf("nothing was measured, and yet %+v", f)
	}
}

// objectiveOf which v is as large a part as is worth naming.
func objectiveOf(t *testing.T, v time.Duration) time.Duration {
	t.Helper()
	for d := time.Duration(float64(v)/large) - 2; d < time.Duration(float64(v)/large)+3; d++ {
		if large*float64(d) == float64(v) {
			return d
		}
	}
	t.Fatalf("%d is no such part of anything", v)
	return 0
}

// A part of the latency is named from three tenths of the objective on.
func TestPartsAtThreeTenths(t *testing.T) {
	const wait, busyFor = 1023, 2047
	hold := steps(map[time.Duration]int{wait: 3})
	at := objectiveOf(t, wait)
	for more, want := range map[time.Duration]bool{-1: true, 0: true, 1: false} {
		if f := ofQueueing(&observation{hold: *hold}, "99", at+more); (f != nil) != want {
			t.Errorf("wait, %d more: %+v", more, f)
		}
	}
	all := value(steps(map[time.Duration]int{9 * 1024: 1}), "99")
	o := &observation{latency: *steps(map[time.Duration]int{9 * 1024: 3}), hold: *hold, service: *steps(map[time.Duration]int{busyFor: 3})}
	rest := all - wait - busyFor
	for d := rest; ; d++ { // the least objective of which it is less
		if float64(rest) < large*float64(d) {
			if ofRest(o, "99", d) != nil || ofRest(o, "99", d-1) == nil {
				t.Errorf("rest of %s, objective %s", rest, d)
			}
			break
		}
	}
	for name, none := range map[string]*observation{
		"nothing": {}, "no service time": {latency: o.latency}, "no latency": {service: o.service},
	} {
		if f := ofRest(none, "99", 10); f != nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// So many unanswered requests that the percentile is among them miss the objective alone.
func TestUnansweredRequests(t *testing.T) {
	for lost, want := range map[int]string{0: "", 1: "lost packets", 5: "this alone misses the objective: lost packets"} {
		o := &observation{latency: *steps(map[time.Duration]int{1: 99})}
		for range lost {
			o.latency.RecordInf()
		}
		if f := ofLost(o, "99"); (f != nil) != (lost > 0) || f != nil && !strings.HasPrefix(f.Advice, want) {
			t.Errorf("%d lost: %+v", lost, f)
		}
	}
	if f := ofLost(&observation{}, "99"); f != nil {
		t.Errorf("%+v", f)
	}
}

// Drops are a finding with a rejected request and a reason for it.
func TestDropsNeedBoth(t *testing.T) {
	for _, c := range []struct {
		rejected uint64
		drops    map[string]float64
		want     string
	}{
		{0, map[string]float64{"queue_full": 3}, ""}, {3, nil, ""}, {3, map[string]float64{"queue_full": 0}, ""}, {0, nil, ""},
		{3, map[string]float64{"b": 1, "a": 2, "c": 0}, "3 of 4 requests were rejected (75.0%); by reason since the routers began: a 2, b 1"},
	} {
		if got := evidence(ofDrops(&observation{requests: 4, rejected: c.rejected, drops: c.drops})); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// A condition that holds, or another one, is not why a member's pod does not run.
func TestMemberPodsThatWait(t *testing.T) {
	for _, c := range []struct {
		conditions []corev1.PodCondition
		phase      corev1.PodPhase
		want       string
	}{
		{[]corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, Message: "m"}}, corev1.PodPending, "its pod is Pending"},
		{[]corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: "m"}}, corev1.PodRunning, ""},
		{[]corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "m"}}, corev1.PodPending, "no node takes it: m"},
		{nil, corev1.PodFailed, "its pod is Failed"},
	} {
		if why, _ := waitsFor(&corev1.Pod{Status: corev1.PodStatus{Phase: c.phase, Conditions: c.conditions}}); why != c.want {
			t.Errorf("%+v: %q", c, why)
		}
	}
	if why, _ := waitsFor(nil); why != "there is no such pod" {
		t.Error(why)
	}
}

// Of two disks that have as much, the first is named; of a group that keeps nothing, none.
func TestTheBestDisk(t *testing.T) {
	rows := []memberRow{{Pod: "a", Last: 4}, {Pod: "b", Last: 7}, {Pod: "c", Last: 7}}
	g := stuckGroup()
	if got := withoutMajority(g, rows); !strings.Contains(got, "b has most (entry 7)") || !strings.Contains(got, "--from-member=b --into=orders-b") {
		t.Error(got)
	}
	if got := withoutMajority(g, []memberRow{{Pod: "a"}}); strings.Contains(got, "recover") {
		t.Error(got)
	}
	g.Spec.Storage.Policy = v1alpha1.StorageVolatile
	if got := withoutMajority(g, rows); strings.Contains(got, "recover") {
		t.Error(got)
	}
}

// An operator that may do nothing has what it needs for nothing.
func TestFeaturesOfAnOperatorWithoutRights(t *testing.T) {
	c, set := installation(t)
	operatorMay(set, func(*authorizationv1.SubjectAccessReviewSpec) bool { return false })
	got := c.features(t.Context())
	if len(got) < 5 {
		t.Errorf("%+v", got)
	}
	for _, v := range got {
		if v.Outcome != failed {
			t.Errorf("%+v", v)
		}
	}
}

// Where the kind is not there nothing is said of nodes; what cannot be read is said.
func TestNodesBeforeTheInstallation(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		want int
	}{
		"no such kind":     {&meta.NoKindMatchError{}, 0},
		"no such resource": {apierrors.NewNotFound(schema.GroupResource{Resource: "nodedataplanes"}, ""), 0},
		"another error":    {errors.New("x"), 1},
	} {
		c, _ := aCluster(t, false)
		c.Client = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return row.err },
		})
		if got := c.hosts(t.Context()); len(got) != row.want || len(got) > 0 && got[0].Outcome != unknown {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Without routers of its own, the servers of a service measure; what was never answered is not completed.
func TestWhoMeasures(t *testing.T) {
	for placement, want := range map[v1alpha1.RouterPlacement]float64{v1alpha1.PlacementSoftware: 6000, v1alpha1.PlacementNone: 2, v1alpha1.PlacementSwitch: 2} {
		c, all := aCluster(t, false)
		for _, pod := range []string{"cart-server-a", "cart-server-b"} {
			h := steps(map[time.Duration]int{time.Millisecond: 10})
			for range 5 {
				h.RecordInf()
			}
			all[pod+" v1/histogram?latency"] = reply(h, 0)
		}
		service := aService()
		service.Spec.Router.Placement = placement
		o, err := c.observe(t.Context(), service, 10)
		if err != nil || math.Abs(o.perSecond-want) > 1e-9 {
			t.Errorf("%s: %v requests/s, want %v, %v", placement, o.perSecond, want, err)
		}
	}
}
