// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/connectivity"
)

// text of an error; empty of none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// The least and the most of each bound are taken, what lies beyond them is not.
func TestBoundsOfATrial(t *testing.T) {
	for _, c := range []struct {
		most    int
		timeout time.Duration
		want    string
	}{
		{1, time.Second, ""},
		{20, time.Hour, ""},
		{0, time.Minute, "--most-nodes: must be 1 to 20; got 0"},
		{21, time.Minute, "--most-nodes: must be 1 to 20; got 21"},
		{2, time.Second - 1, "--timeout: must be 1s to 1h; got 999.999999ms"},
		{2, time.Hour + 1, "--timeout: must be 1s to 1h; got 1h0m0.000000001s"},
	} {
		if got := text(paths{most: c.most, timeout: c.timeout}.check()); got != c.want {
			t.Errorf("%d nodes, %s: %q, want %q", c.most, c.timeout, got, c.want)
		}
	}
}

func TestBoundsOfTheWindow(t *testing.T) {
	for window, want := range map[string]string{
		"1": "", "600": "", "0": "--window: must be 1 to 600 seconds; got 0", "601": "--window: must be 1 to 600 seconds; got 601",
	} {
		if _, _, err := execute(t, webService(t), "top", "--window="+window); text(err) != want {
			t.Errorf("%s: %v, want %q", window, err, want)
		}
	}
}

// Of a pod's conditions only the one of its scheduling says why it does not run, and only when it is false.
func TestStanding(t *testing.T) {
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status, Message: "why"}
	}
	for _, c := range []struct {
		name, pod  string
		conditions []corev1.PodCondition
		want       string
	}{
		{"no pod", "", nil, "no pod was made: a quota or an admission policy?"},
		{"nothing said", "p", nil, `its pod is "Pending"`},
		{"not ready", "p", []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionFalse)}, `its pod is "Pending"`},
		{"scheduled", "p", []corev1.PodCondition{condition(corev1.PodScheduled, corev1.ConditionTrue)}, `its pod is "Pending"`},
		{"behind another one", "p", []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionFalse), condition(corev1.PodScheduled, corev1.ConditionFalse)},
			"its pod is not scheduled: why"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: c.pod}, Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: c.conditions}}
		if got := standing(pod); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Only a reason that time does not mend ends the wait, whichever container has it.
func TestStuck(t *testing.T) {
	waits := func(reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}}}
	}
	for _, c := range []struct {
		name string
		all  []corev1.ContainerStatus
		want string
	}{
		{"nothing said", nil, ""},
		{"runs", []corev1.ContainerStatus{{}}, ""},
		{"is being made", []corev1.ContainerStatus{waits("ContainerCreating")}, ""},
		{"the second one", []corev1.ContainerStatus{waits("ContainerCreating"), waits("ErrImagePull")}, "ErrImagePull of image i: why"},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "i"}}}, Status: corev1.PodStatus{ContainerStatuses: c.all}}
		if got := stuck(pod); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A service whose connections take the way they should has no finding of it; each other standing has one.
func TestFindingsOnTheWayOfConnections(t *testing.T) {
	for _, c := range []struct {
		name      string
		status    metav1.ConditionStatus
		reason    string
		condition bool
		want      bool
	}{
		{"nothing is said", "", "", false, false},
		{"programmed", metav1.ConditionTrue, v1alpha1.ReasonProgrammed, true, false},
		{"true for another reason", metav1.ConditionTrue, v1alpha1.ReasonNoAgents, true, true},
		{"not programmed", metav1.ConditionFalse, v1alpha1.ReasonProgrammed, true, true},
		{"not, for a reason", metav1.ConditionFalse, v1alpha1.ReasonNoAgents, true, true},
	} {
		service := aService()
		if service.Status.Conditions = nil; c.condition {
			service.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgrammed, Status: c.status, Reason: c.reason, Message: "why"}}
		}
		found := findingsTCP(anSLO(), service)
		if got := slices.ContainsFunc(found, func(f finding) bool { return f.Cause == causeRedirected }); got != c.want {
			t.Errorf("%s: %+v", c.name, found)
		}
	}
}

func TestBoundsOfALoad(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*load)
		want   string
	}{
		{"the least", func(l *load) {
			l.rate, l.duration, l.timeout, l.connections, l.requestBytes = 1e-9, time.Second, time.Millisecond, 1, 0
		}, ""},
		{"the most", func(l *load) {
			l.duration, l.timeout, l.connections, l.output = time.Hour, 10*time.Minute, 16384, "json"
		}, ""},
		{"no rate", func(l *load) { l.rate = 0 }, "--rate: must be above 0 requests a second, and finite"},
		{"an endless rate", func(l *load) { l.rate = math.Inf(1) }, "--rate: must be above 0 requests a second, and finite"},
		{"a rate that is no number", func(l *load) { l.rate = math.NaN() }, "--rate: must be above 0 requests a second, and finite"},
		{"too short", func(l *load) { l.duration = time.Second - 1 }, "--duration: must be 1s to 1h; got 999.999999ms"},
		{"too long", func(l *load) { l.duration = time.Hour + 1 }, "--duration: must be 1s to 1h; got 1h0m0.000000001s"},
		{"too impatient", func(l *load) { l.timeout = time.Millisecond - 1 }, "--timeout: must be 1ms to 10m; got 999.999µs"},
		{"too patient", func(l *load) { l.timeout = 10*time.Minute + 1 }, "--timeout: must be 1ms to 10m; got 10m0.000000001s"},
		{"no socket", func(l *load) { l.connections = 0 }, "--connections: must be 1 to 16384; got 0"},
		{"too many sockets", func(l *load) { l.connections = 16385 }, "--connections: must be 1 to 16384; got 16385"},
		{"less than nothing", func(l *load) { l.requestBytes = -1 }, "--request-bytes: must not be below 0; got -1"},
		{"another report", func(l *load) { l.output = "yaml" }, `--report: must be table or json; got "yaml"`},
	} {
		l := load{rate: 1000, duration: 10 * time.Second, timeout: time.Second, connections: 16, requestBytes: 64, output: "table"}
		c.change(&l)
		if got := text(l.check()); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// All answers by all servers are fine; each answer and each server that is missing is a warning, no answer a failure.
func TestVerdictOfAWay(t *testing.T) {
	for _, c := range []struct {
		servers, answered int
		nodes             map[string]int
		outcome           outcome
		says              string
	}{
		{1, 3, map[string]int{"a": 3}, fine, "n to there: 3 of 3 answered"},
		{1, 2, map[string]int{"a": 2}, warning, "n to there: 2 of 3 answered"},
		{1, 0, nil, failed, "n to there: 0 of 3 answered"},
		{2, 3, map[string]int{"a": 2, "b": 1}, fine, "n to there: 3 of 3 answered, by 2 of 2 servers"},
		{2, 3, map[string]int{"a": 3}, warning, "n to there: 3 of 3 answered, by 1 of 2 servers"},
	} {
		w := way{to: "there", servers: c.servers}
		w.Tries = 3
		v := w.verdict("n", connectivity.Result{Answered: c.answered, Nodes: c.nodes})
		if v.Outcome != c.outcome || v.Says != c.says || (v.Next == "") != (c.outcome == fine) && c.outcome != failed {
			t.Errorf("%+v: %+v", c, v)
		}
	}
}

// Until the last worker is ready, or while one is suspect or ejected, that is a finding.
func TestReadinessToTheWorker(t *testing.T) {
	for _, c := range []struct {
		desired, ready   int32
		suspect, ejected int
		found            bool
	}{{2, 2, 0, 0, false}, {2, 3, 0, 0, false}, {2, 1, 0, 0, true}, {2, 2, 1, 0, true}, {2, 2, 0, 1, true}} {
		service := aService()
		service.Status.DesiredWorkers, service.Status.ReadyWorkers = c.desired, c.ready
		o := &observation{}
		o.suspect, o.ejected = c.suspect, c.ejected
		if got := ofReadiness(service, o) != nil; got != c.found {
			t.Errorf("%+v: found %v", c, got)
		}
	}
}

// Either sort of error says that the API server was not reached.
func TestUnreachable(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"of a request", fmt.Errorf("get: %w", &url.Error{Op: "Get", URL: "u", Err: errors.New("x")}), true},
		{"of the network", fmt.Errorf("get: %w", &net.OpError{Op: "dial", Err: errors.New("x")}), true},
		{"another", errors.New("x"), false},
	} {
		if got := unreachable(c.err); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// The container itself must have been restarted, be it one of those that run first.
func TestRestarted(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "init", RestartCount: 1}},
		ContainerStatuses:     []corev1.ContainerStatus{{Name: "fresh"}, {Name: "old", RestartCount: 2}},
	}}
	for name, want := range map[string]bool{"init": true, "fresh": false, "old": true, "none": false} {
		if got := restarted(pod, name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
