// SPDX-License-Identifier: Apache-2.0

package latencyexperiment

import (
	"context"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/netstatus"
)

// What an experiment refers to is read from its own namespace; what is missing is waited for.
func TestWhatIsReferredTo(t *testing.T) {
	recorded := func(namespace, key string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "recorded", Namespace: namespace}, Data: map[string]string{key: "1000 2000"}}
	}
	service := func(namespace string) client.Object {
		return &v1alpha1.RpcService{ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: namespace}, Spec: v1alpha1.RpcServiceSpec{Protocol: v1alpha1.ProtocolR2P2}}
	}
	loaded := func(s *v1alpha1.LatencyExperimentSpec) {
		s.Target, s.Workload.Protocol, s.Workload.Path = ref, "R2P2", ""
	}
	const noGaps, noTarget = "False GapsNotFound, False NotAccepted, False NotAccepted", "False TargetNotFound, False NotAccepted, False NotAccepted"
	for _, c := range []struct {
		change       func(*v1alpha1.LatencyExperimentSpec)
		there        client.Object
		want, target string
		again        time.Duration
	}{
		{traced, recorded("apps", "gaps"), atWork, "a:80 [::1]:81", 0},
		{traced, recorded("apps", "others"), noGaps, "a:80 [::1]:81", 30 * time.Second},
		{traced, recorded("other", "gaps"), noGaps, "a:80 [::1]:81", 30 * time.Second},
		{loaded, service("apps"), atWork, "echo.apps.svc:8000", 0},
		{loaded, service("other"), noTarget, "", 0},
	} {
		s := newStand(t, plain(c.change), c.there)
		e, result := s.step()
		if stated(e) != c.want || e.Status.Target != c.target || result.RequeueAfter != c.again {
			t.Errorf("%s/%s: %s, target %q, again after %s", c.there.GetNamespace(), c.there.GetName(), stated(e), e.Status.Target, result.RequeueAfter)
		}
		if (len(s.applied) > 0) != (c.want == atWork) {
			t.Errorf("%s/%s: applied %v", c.there.GetNamespace(), c.there.GetName(), s.applied)
		}
	}
}

// Agents join the network of a service's device, and send spans where the operator's sidecars do.
func TestAgentsGetWhatTheServiceAndTheOperatorHave(t *testing.T) {
	service := &v1alpha1.RpcService{ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: "apps"}, Spec: v1alpha1.RpcServiceSpec{
		Protocol: v1alpha1.ProtocolR2P2, Device: v1alpha1.RpcServiceDevice{Device: v1alpha1.Device{Type: v1alpha1.DeviceAFXDP, NetworkAttachment: "fast"}}}}
	s := newStand(t, service, plain(func(s *v1alpha1.LatencyExperimentSpec) {
		s.Target, s.Workload.Protocol, s.Workload.Path = ref, "R2P2", ""
		s.Traces = &v1alpha1.ExperimentTraces{SamplePercent: "1"}
	}))
	s.OTLPEndpoint = "http://spans:4318"
	if e, _ := s.step(); stated(e) != atWork {
		t.Fatal(stated(e))
	}
	job, definition := &batchv1.Job{}, &corev1.ConfigMap{}
	s.read("x-agents", job)
	s.read("x-definition", definition)
	if got := job.Spec.Template.Annotations[netstatus.AnnotationNetworks]; !strings.Contains(got, "fast") {
		t.Errorf("networks %q", got)
	}
	if got := definition.Data["definition.yaml"]; !strings.Contains(got, "http://spans:4318") || strings.HasPrefix(got, "{") {
		t.Errorf("definition %s", got)
	}
}

// A switch is asked until the result stands there, and no longer.
func TestASwitchIsAskedUntilTheEnd(t *testing.T) {
	s := newStand(t, switched(func(s *v1alpha1.LatencyExperimentSpec) { s.LimitSeconds = 15 }))
	var now Reading
	counted := false
	s.Counted = func(name, of string) (Reading, bool) {
		if name != "leaf" || of != "apps/x" {
			t.Errorf("counters of %s at %s", of, name)
		}
		return now, counted
	}
	expect := func(want string, again time.Duration, runs int) {
		t.Helper()
		e, result := s.step()
		if stated(e) != want || result.RequeueAfter != again || len(s.Board.Runs("leaf")) != runs || e.Status.Target != "10.0.1.5:8000 10.0.1.6:8000" {
			t.Errorf("%s, again after %s, %d runs, target %q; want %s, %s, %d", stated(e), result.RequeueAfter, len(s.Board.Runs("leaf")), e.Status.Target, want, again, runs)
		}
	}
	expect("False SwitchNotFound, False NotAccepted, False NotAccepted", onSwitchAgain, 1)
	s.Board.Answer("leaf", nil, true)
	expect("True Accepted, False Reconciling, False Running", onSwitchAgain, 1)
	s.Board.Answer("leaf", []v1alpha1.SwitchService{{Namespace: "apps", Name: "x", ConfigHash: "uid"}}, true)
	expect(atWork, onSwitchAgain, 1)
	counted = true
	for second := 0; second <= 15; second += 5 {
		now = reading(second, uint64(second)*1000, 0, time.Millisecond)
		expect(atWork, onSwitchAgain, 1)
	}
	if len(s.runs) != 1 {
		t.Errorf("%d runs remembered", len(s.runs))
	}
	now = reading(20, 15_000, 0, time.Millisecond)
	expect("True Accepted, True Programmed, True Finished", 0, 0)
	if len(s.runs) != 0 {
		t.Errorf("%d runs remembered after the end", len(s.runs))
	}
	expect("True Accepted, True Programmed, True Finished", 0, 0)
	if n := len(s.events.Events); n != 3 {
		t.Errorf("told %d times of a switch that is not there, a run and its end: %s", n, s.told())
	}
}

// A Job that only has the coordinator's name says nothing, nor does one that has gone.
func TestOutcomesOfOtherJobs(t *testing.T) {
	objects := ended(`{"loads":[{"o":2,"a":2}]}`)
	s := newStand(t, objects...)
	e := plain(nil)
	if o, err := s.outcome(context.Background(), e); err != nil || !o.over {
		t.Errorf("its own: %+v, %v", o, err)
	}
	e.UID = "another experiment"
	if o, err := s.outcome(context.Background(), e); err != nil || o.over {
		t.Errorf("another one's: %+v, %v", o, err)
	}
	if o, err := newStand(t).outcome(context.Background(), e); err != nil || o.over {
		t.Errorf("gone: %+v, %v", o, err)
	}
}

// A run goes on while its result cannot be written; what cannot be run is not asked for; what is deleted is withdrawn.
func TestRunsThatAreWithdrawn(t *testing.T) {
	silent := func(string, string) (Reading, bool) { return Reading{}, false }
	s := newStand(t, switched(func(s *v1alpha1.LatencyExperimentSpec) { s.Target.Addresses = []string{"name:80"} }))
	s.Counted = silent
	if e, _ := s.step(); stated(e) != "False InvalidExperiment, False NotAccepted, False NotAccepted" || len(s.Board.Runs("leaf")) != 0 {
		t.Errorf("%s, %d runs", stated(e), len(s.Board.Runs("leaf")))
	}
	s = newStand(t, switched(nil))
	s.Counted = silent
	e, _ := s.step()
	if len(s.Board.Runs("leaf")) != 1 {
		t.Fatal("not asked for")
	}
	e.Finalizers = []string{"bobtail.dev/test"}
	if err := s.Client.Update(context.Background(), e); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(context.Background(), e); err != nil {
		t.Fatal(err)
	}
	if _, result := s.step(); result != (ctrl.Result{}) || len(s.Board.Runs("leaf")) != 0 {
		t.Errorf("being deleted: %+v, %d runs", result, len(s.Board.Runs("leaf")))
	}
	s = newStand(t, switched(nil))
	s.Counted = silent
	gone, _ := s.step()
	if err := s.Client.Delete(context.Background(), gone); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reconcile(context.Background(), ctrl.Request{NamespacedName: at}); err != nil || len(s.Board.Runs("leaf")) != 0 {
		t.Errorf("deleted: %v, %d runs", err, len(s.Board.Runs("leaf")))
	}
}

// A result that was not written is told again at the next look: the switch still counts.
func TestAResultThatWasNotWritten(t *testing.T) {
	s := newStand(t, switched(nil))
	now := reading(0, 0, 0, 0)
	s.Counted = func(string, string) (Reading, bool) { return now, true }
	s.Board.Answer("leaf", []v1alpha1.SwitchService{{Namespace: "apps", Name: "x", ConfigHash: "uid"}}, true)
	s.step()
	now = reading(31, 0, 0, 0)
	s.refuse["patch LatencyExperiment"] = context.DeadlineExceeded
	if _, err := s.Reconcile(context.Background(), ctrl.Request{NamespacedName: at}); err == nil || len(s.Board.Runs("leaf")) != 1 || len(s.runs) != 1 {
		t.Errorf("%v: %d runs, %d remembered", err, len(s.Board.Runs("leaf")), len(s.runs))
	}
	clear(s.refuse)
	if e, _ := s.step(); stated(e) != "True Accepted, True Programmed, False Failed" || len(s.Board.Runs("leaf")) != 0 {
		t.Errorf("%s, %d runs", stated(e), len(s.Board.Runs("leaf")))
	}
}
