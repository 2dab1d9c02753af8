// SPDX-License-Identifier: Apache-2.0

package latencyexperiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// stand is a reconciler with an API server that refuses on request.
type stand struct {
	*Reconciler
	t       *testing.T
	events  *events.FakeRecorder
	refuse  map[string]error // by verb and kind
	applied []string
}

var at = client.ObjectKey{Namespace: "apps", Name: "x"}

func newStand(t *testing.T, objects ...client.Object) *stand {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	s := &stand{t: t, events: events.NewFakeRecorder(100), refuse: map[string]error{}}
	refused := func(verb string, o any) error { return s.refuse[verb+" "+kindOf(o)] }
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.LatencyExperiment{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Apply: s.apply,
			Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if err := refused("get", o); err != nil {
					return err
				}
				return c.Get(ctx, k, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				if err := refused("list", l); err != nil {
					return err
				}
				return c.List(ctx, l, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if err := refused("create", o); err != nil {
					return err
				}
				return c.Create(ctx, o.DeepCopyObject().(client.Object), opts...) // it would take the kind out of o
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, _ string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if err := refused("patch", o); err != nil {
					return err
				}
				return c.Status().Patch(ctx, o, p, opts...)
			},
		}).Build()
	s.Reconciler = &Reconciler{Client: c, Live: c, Events: s.events, Now: func() time.Time { return time.Unix(5000, 0) }, Registry: "registry.test", Version: "7.8.9", Board: switchboard.New()}
	return s
}

// kindOf names typed objects by their Go type, which say nothing of their kind themselves.
func kindOf(o any) string {
	if m, partial := o.(*metav1.PartialObjectMetadata); partial {
		return "head of " + m.Kind
	}
	name := fmt.Sprintf("%T", o)
	return name[strings.LastIndex(name, ".")+1:]
}

// apply makes what is not there: the fake client cannot merge every kind.
func (s *stand) apply(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		return err
	}
	if err := s.refuse["apply "+u.GetKind()]; err != nil {
		return err
	}
	if _, has := u.Object["status"]; has {
		s.t.Errorf("%s %s is applied with a status, of which others are the owners", u.GetKind(), u.GetName())
	}
	s.applied = append(s.applied, u.GetKind()+" "+u.GetName())
	return client.IgnoreAlreadyExists(c.Create(ctx, u))
}

// step reconciles once and gives what stands there afterwards.
func (s *stand) step() (*v1alpha1.LatencyExperiment, ctrl.Result) {
	s.t.Helper()
	result, err := s.Reconcile(context.Background(), ctrl.Request{NamespacedName: at})
	if err != nil {
		s.t.Fatal(err)
	}
	e := &v1alpha1.LatencyExperiment{}
	s.read(at.Name, e)
	return e, result
}

func (s *stand) read(name string, o client.Object) {
	s.t.Helper()
	if err := s.Client.Get(context.Background(), client.ObjectKey{Namespace: at.Namespace, Name: name}, o); err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
}

// told is the events since the last call.
func (s *stand) told() string {
	var out []string
	for {
		select {
		case one := <-s.events.Events:
			out = append(out, one)
		default:
			return strings.Join(out, "; ")
		}
	}
}

// stated are the conditions that matter, as status and reason.
func stated(e *v1alpha1.LatencyExperiment) string {
	var out []string
	for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
		if c := meta.FindStatusCondition(e.Status.Conditions, kind); c != nil {
			out = append(out, string(c.Status)+" "+c.Reason)
		}
	}
	return strings.Join(out, ", ")
}

func plain(change func(*v1alpha1.LatencyExperimentSpec)) *v1alpha1.LatencyExperiment {
	e := experiment(func(*v1alpha1.LatencyExperimentSpec) {})
	e.UID = "uid"
	if change != nil {
		change(&e.Spec)
	}
	return e
}

const atWork = "True Accepted, True Programmed, False Running"

// Everything is made at first and told once; an experiment that is under way is left alone, whatever becomes of its specification.
func TestAnExperimentIsBegunOnce(t *testing.T) {
	s := newStand(t, plain(nil))
	e, result := s.step()
	if stated(e) != atWork || e.Status.Target != "a:80 [::1]:81" || e.Status.ObservedGeneration != 3 || result != (ctrl.Result{}) {
		t.Errorf("%s, target %q, %+v", stated(e), e.Status.Target, result)
	}
	if told := s.told(); !strings.HasPrefix(told, "Normal Running ") || strings.Contains(told, ";") {
		t.Errorf("told %q", told)
	}
	if got := strings.Join(s.applied, ", "); got != "ConfigMap x-definition, Service x-agents, NetworkPolicy x-agents, NetworkPolicy x-coordinator, Job x-agents, Job x-coordinator" {
		t.Errorf("applied %s", got)
	}
	s.made()
	e.Spec.Percentile = "no number"
	if err := s.Client.Update(context.Background(), e); err != nil {
		t.Fatal(err)
	}
	again, _ := s.step()
	if len(s.applied) != 6 || s.told() != "" || stated(again) != atWork || again.ResourceVersion != e.ResourceVersion {
		t.Errorf("at work already: %v applied, %s", s.applied, stated(again))
	}
}

// made looks at the token and the coordinator's Job.
func (s *stand) made() {
	s.t.Helper()
	token, job := &corev1.Secret{}, &batchv1.Job{}
	s.read("x-token", token)
	s.read("x-coordinator", job)
	if n := len(token.Data["token"]); n != 64 || strings.Trim(string(token.Data["token"]), "0") == "" {
		s.t.Errorf("a token of %d characters", n)
	}
	if c := job.Spec.Template.Spec.Containers[0]; *job.Spec.ActiveDeadlineSeconds != 900+780 || c.Image != "registry.test/bobtail/lancet:7.8.9" {
		s.t.Errorf("%d s, image %s", *job.Spec.ActiveDeadlineSeconds, c.Image)
	}
}

// A beginning that was cut short is taken up with the same token: agents may run already.
func TestATokenIsMadeOnce(t *testing.T) {
	s := newStand(t, plain(nil))
	s.refuse["apply Job"] = errors.New("not now")
	if _, err := s.Reconcile(context.Background(), ctrl.Request{NamespacedName: at}); err == nil || !strings.Contains(err.Error(), "apply Job x-agents: not now") {
		t.Fatal(err)
	}
	first, second := &corev1.Secret{}, &corev1.Secret{}
	s.read("x-token", first)
	clear(s.refuse)
	if e, _ := s.step(); stated(e) != atWork {
		t.Errorf("taken up: %s", stated(e))
	}
	if s.read("x-token", second); string(first.Data["token"]) != string(second.Data["token"]) {
		t.Error("agents at work have another token than the coordinator")
	}
}

// What has the name of one of the objects and is not of this experiment is left as it is, and named.
func TestObjectsInTheWay(t *testing.T) {
	other := true
	head := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: "apps", OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "LatencyExperiment", Name: "x", UID: "an earlier one", Controller: &other}}}
	}
	for want, o := range map[string]client.Object{
		"Secret x-token":         &corev1.Secret{ObjectMeta: head("x-token")},
		"ConfigMap x-definition": &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x-definition", Namespace: "apps"}},
		"Job x-coordinator":      &batchv1.Job{ObjectMeta: head("x-coordinator"), Status: finished("Complete").Status},
	} {
		s := newStand(t, plain(nil), o)
		e, result := s.step()
		c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionAccepted)
		if stated(e) != "False NameConflict, False NotAccepted, False NotAccepted" || c.Message != want+" exists and is not of this experiment: remove it, or name the experiment otherwise" {
			t.Errorf("%s: %s: %s", want, stated(e), c.Message)
		}
		if told := s.told(); result.RequeueAfter != 30*time.Second || e.Status.Target == "" || !strings.HasPrefix(told, "Warning NotAccepted "+want) {
			t.Errorf("%s: %+v, target %q, told %q", want, result, e.Status.Target, told)
		}
		for _, applied := range s.applied {
			if applied == want {
				t.Errorf("%s was written over", want)
			}
		}
	}
}

// ended is a coordinator's Job that ended, and what its pod said.
func ended(words string) []client.Object {
	job := finished("Complete")
	job.Namespace, job.OwnerReferences = "apps", []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "LatencyExperiment", Name: "x", UID: "uid", Controller: ptr(true)}}
	pod := said(job, v1alpha1.ComponentCoordinator, words)
	pod.Namespace, pod.Labels = "apps", render.ExperimentSelector("x", v1alpha1.ComponentCoordinator)
	elsewhere := said(job, v1alpha1.ComponentCoordinator, `{"e":"of another namespace"}`)
	elsewhere.Name, elsewhere.Namespace, elsewhere.Labels = "a", "other", pod.Labels
	return []client.Object{job, &pod, &elsewhere}
}

// The result is read once and stays, though Job and pods are cleared away.
func TestAResultStays(t *testing.T) {
	for _, c := range []struct{ words, want, event string }{
		{`{"loads":[{"o":2,"a":2,"v":2,"l":2,"h":2,"c":true}]}`, "True Accepted, True Programmed, True Finished", "Normal Finished "},
		{`gone`, "True Accepted, True Programmed, False Failed", "Warning Failed the coordinator ended with status 0 and said nothing that can be read"},
	} {
		objects := ended(c.words)
		s := newStand(t, append(objects, plain(nil))...)
		e, result := s.step()
		if stated(e) != c.want || result != (ctrl.Result{}) || len(s.applied) != 0 {
			t.Errorf("%s: %s, %+v, applied %v", c.words, stated(e), result, s.applied)
		}
		if told := s.told(); !strings.HasPrefix(told, c.event) {
			t.Errorf("told %q, want %q", told, c.event)
		}
		for _, o := range objects[:2] {
			if err := s.Client.Delete(context.Background(), o); err != nil {
				t.Fatal(err)
			}
		}
		if again, _ := s.step(); stated(again) != c.want || again.ResourceVersion != e.ResourceVersion || len(s.applied) != 0 || s.told() != "" {
			t.Errorf("%s: run again: %s, %v", c.words, stated(again), s.applied)
		}
	}
}

// What an API server refuses is told, by the name of what was asked.
func TestReconcileTellsErrors(t *testing.T) {
	asking := func(s *v1alpha1.LatencyExperimentSpec) {
		s.Target, s.Workload.Protocol, s.Workload.Path = ref, "R2P2", ""
	}
	for _, c := range []struct {
		refuse, says string
		change       func(*v1alpha1.LatencyExperimentSpec)
		objects      []client.Object
	}{
		{"get LatencyExperiment", "no", nil, nil},
		{"get Job", "read the coordinator's Job: no", nil, nil},
		{"get RpcService", "read the target: no", asking, nil},
		{"get ConfigMap", "read the gaps: no", traced, nil},
		{"create Secret", "create the token: no", nil, nil},
		{"get head of ConfigMap", "read x-definition: no", nil, nil},
		{"apply Service", "apply Service x-agents: no", nil, nil},
		{"list PodList", "list the coordinator's pods: no", nil, ended("{}")},
		{"patch LatencyExperiment", "write the status: no", nil, nil},
	} {
		s := newStand(t, append(c.objects, plain(c.change))...)
		s.refuse[c.refuse] = errors.New("no")
		if _, err := s.Reconcile(context.Background(), ctrl.Request{NamespacedName: at}); err == nil || err.Error() != c.says {
			t.Errorf("%s: %v, want %s", c.refuse, err, c.says)
		}
		if told := s.told(); told != "" {
			t.Errorf("%s: told %q of what is not written", c.refuse, told)
		}
	}
	s := newStand(t)
	if result, err := s.Reconcile(context.Background(), ctrl.Request{NamespacedName: at}); err != nil || result != (ctrl.Result{}) {
		t.Errorf("an experiment that is gone: %+v, %v", result, err)
	}
}

// A status that somebody else wrote meanwhile is looked at again a moment later; one of an experiment that is gone is nobody's.
func TestStatusesThatCannotBeWritten(t *testing.T) {
	resource := schema.GroupResource{Resource: "latencyexperiments"}
	for _, e := range []*v1alpha1.LatencyExperiment{plain(nil), switched(nil)} {
		s := newStand(t, e)
		s.refuse["patch LatencyExperiment"] = apierrors.NewConflict(resource, "x", errors.New("older"))
		if _, result := s.step(); result.RequeueAfter != time.Second || s.told() != "" {
			t.Errorf("placement %q: %+v after a conflict", e.Spec.Placement, result)
		}
		s.refuse["patch LatencyExperiment"] = apierrors.NewNotFound(resource, "x")
		if _, result := s.step(); result.RequeueAfter == time.Second {
			t.Errorf("placement %q: %+v after it has gone", e.Spec.Placement, result)
		}
	}
}
