// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

const violates = `pods "echo-router-x" is forbidden: violates PodSecurity "baseline:latest": non-default capabilities (container "router" must not include "BPF", "NET_ADMIN")`

func TestBarredByLabel(t *testing.T) {
	for level, barred := range map[string]bool{"": false, "privileged": false, "baseline": true, "restricted": true, "nonsense": true} {
		if got := barredByLabel("demo", level); (got != "") != barred {
			t.Errorf("%q: %q", level, got)
		} else if barred && !strings.Contains(got, "namespace demo has the label pod-security.kubernetes.io/enforce="+level) {
			t.Errorf("%q: %q names not both", level, got)
		}
	}
}

func TestDenied(t *testing.T) {
	for name, c := range map[string]struct {
		message string
		change  func(*appsv1.Deployment)
		want    bool
	}{
		"Pod Security":                  {violates, nil, true},
		"a webhook":                     {`admission webhook "k.example" denied the request: root is not allowed`, nil, true},
		"a policy":                      {`ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no capabilities`, nil, true},
		"OpenShift":                     {`pods "x" is forbidden: unable to validate against any security context constraint: []`, nil, true},
		"a quota":                       {`pods "x" is forbidden: exceeded quota: q`, nil, false},
		"a webhook that is ill":         {`Internal error occurred: failed calling webhook "k.example": timeout`, nil, false},
		"nothing":                       {"", nil, false},
		"said of the template before":   {violates, func(d *appsv1.Deployment) { d.Generation = 2 }, false},
		"pods without the fast path":    {violates, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].SecurityContext.Capabilities.Add = nil }, false},
		"pods that are not ours at all": {violates, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers = nil }, false},
	} {
		d := routers(t, true)
		d.Generation, d.Status.ObservedGeneration = 1, 1
		refuse(d, c.message)
		if c.change != nil {
			c.change(d)
		}
		if got := denied(d); (got != "") != c.want || c.want && got != c.message {
			t.Errorf("%s: %q", name, got)
		}
	}
	if denied(nil) != "" {
		t.Error("there is no Deployment")
	}
}

// routers is the Deployment as it is rendered.
func routers(t *testing.T, fast bool) *appsv1.Deployment {
	t.Helper()
	for _, o := range render.Objects(render.Input{Service: aService(), FastPath: fast}) {
		if d, ok := o.(*appsv1.Deployment); ok && d.Name == "echo-router" {
			return d
		}
	}
	t.Fatal("no routers")
	return nil
}

// refuse does what the Deployment controller does when pods are refused.
func refuse(d *appsv1.Deployment, message string) {
	d.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message,
	}}
}

// A denial holds for as long as what it depends on, and is bounded in length.
func TestDenialsAreRemembered(t *testing.T) {
	var m denialsSeen
	service := types.NamespacedName{Namespace: "demo", Name: "echo"}
	look := func(s *snapshot, level string, chooser v1alpha1.FastPathChooser) string {
		s.fastPath = fastPathAsked{chooser: chooser, level: level, denial: m.get(service)}
		held := heldDenial(s)
		m.put(service, held)
		return held.why
	}
	s := &snapshot{service: aService(), now: start, routerDeployment: routers(t, true)}
	const byService, byCluster = v1alpha1.FastPathByService, v1alpha1.FastPathByCluster
	if look(s, "", byService) != "" {
		t.Error("nothing was denied")
	}
	again := func() {
		t.Helper()
		refuse(s.routerDeployment, violates)
		if look(s, "", byService) != violates {
			t.Fatal("not seen")
		}
		s.routerDeployment.Status.Conditions = nil
		if look(s, "", byService) != violates {
			t.Fatal("not remembered")
		}
	}
	again()
	if look(s, "privileged", byService) != "" || look(s, "", byService) != "" {
		t.Error("another label does not ask again")
	}
	again()
	if look(s, "", byCluster) != "" {
		t.Error("another choice does not ask again")
	}
	again()
	m.forget(service)
	if look(s, "", byService) != "" {
		t.Error("a service that was gone is remembered")
	}
	again()
	s.service.UID = "another"
	if look(s, "", byService) != "" {
		t.Error("another service of that name is not asked for")
	}
	again()
	s.now = start.Add(remembered - time.Second)
	if look(s, "", byService) == "" {
		t.Error("forgotten too early")
	}
	s.now = start.Add(remembered)
	if look(s, "", byService) != "" {
		t.Error("remembered for ever")
	}
}

func TestALongDenialIsCutBetweenCharacters(t *testing.T) {
	got := barredByDenial(strings.Repeat("n", 63), "x"+strings.Repeat("ü", 5000))
	if n := utf8.RuneCountInString(got); n > 900 || !utf8.ValidString(got) || !strings.Contains(got, "xüü") {
		t.Errorf("%d characters; with the count of routers the field takes 1024: %q", n, got)
	}
}

func TestFastPathStatusOfABarredService(t *testing.T) {
	on, without := says(true, "Active", ""), says(false, "", "")
	for _, c := range []struct {
		answers []stateRead
		state   v1alpha1.FastPathState
		message string
	}{
		{[]stateRead{without, without}, v1alpha1.FastPathInactive, "0 of 2 routers decide requests in the kernel; because"},
		{[]stateRead{on, without}, v1alpha1.FastPathPartial, "1 of 2 routers decide requests in the kernel; because"},
		{[]stateRead{silent, silent}, v1alpha1.FastPathInactive, "0 of 0 routers decide requests in the kernel; because"},
	} {
		s := &snapshot{service: aService(), routers: pods("rR rR"), states: map[string]stateRead{}}
		for i, p := range s.routers {
			s.states[p.Name] = c.answers[i]
		}
		got := fastPathStatus(s, fastPath{v1alpha1.FastPathByCluster, "because"})
		if got.State != c.state || got.Reason != "PodSecurity" || got.Message != c.message {
			t.Errorf("%+v", got)
		}
	}
}

func (b *bench) routers() *appsv1.Deployment {
	b.t.Helper()
	d := &appsv1.Deployment{}
	if err := b.Client.Get(context.Background(), types.NamespacedName{Namespace: "demo", Name: "echo-router"}, d); err != nil {
		b.t.Fatal(err)
	}
	return d
}

// label changes the namespace and lets the time pass in which that is not seen.
func (b *bench) label(level string) {
	b.t.Helper()
	b.now = b.now.Add(levelBelieved)
	if err := b.Client.Update(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo", Labels: map[string]string{enforceLabel: level}}}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) wantFastPath(given bool, chooser v1alpha1.FastPathChooser, reason string) {
	b.t.Helper()
	s := &v1alpha1.RpcService{}
	if err := b.Client.Get(context.Background(), key, s); err != nil {
		b.t.Fatal(err)
	}
	if got := render.HasFastPath(b.routers()); got != given {
		b.t.Errorf("routers with the fast path: %v, want %v", got, given)
	}
	f := s.Status.FastPath
	if chooser == "" && f != nil || chooser != "" && (f == nil || f.ChosenBy != chooser || f.Reason != reason) {
		b.t.Errorf("status %+v, want %s by %q", f, reason, chooser)
	}
}

// The cluster's choice reaches the routers and the status, gives way to the label
// of the namespace, and to the service's own word.
func TestReconcileFollowsTheClusterAndTheNamespace(t *testing.T) {
	b := newBench(t)
	b.must(2)
	b.wantFastPath(false, "", "")
	b.FastPath = v1alpha1.FastPathAuto
	b.must(2)
	b.wantFastPath(true, v1alpha1.FastPathByCluster, "RollingOut")
	for _, level := range []string{"baseline", "restricted"} {
		b.label(level)
		b.must(2)
		b.wantFastPath(false, v1alpha1.FastPathByCluster, "PodSecurity")
		if !b.told("pod-security.kubernetes.io/enforce=" + level) {
			t.Error("nobody was told of the label")
		}
		b.label("privileged")
		b.must(2)
		b.wantFastPath(true, v1alpha1.FastPathByCluster, "RollingOut")
	}
	s := &v1alpha1.RpcService{}
	if err := b.Client.Get(context.Background(), key, s); err != nil {
		t.Fatal(err)
	}
	s.Spec.Router.FastPath = v1alpha1.FastPathOff
	if err := b.Client.Update(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	b.must(2)
	b.wantFastPath(false, "", "")
}

// Where pods are refused without a label that says so, routers are made that are
// not, and stay.
func TestReconcileGivesWayToADenial(t *testing.T) {
	b := newBench(t)
	b.FastPath = v1alpha1.FastPathAuto
	b.must(2)
	b.wantFastPath(true, v1alpha1.FastPathByCluster, "RollingOut")
	d := b.routers()
	refuse(d, violates)
	d.Status.ObservedGeneration = d.Generation
	if err := b.Client.Status().Update(context.Background(), d); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		b.must(1)
		b.wantFastPath(false, v1alpha1.FastPathByCluster, "PodSecurity")
	}
	if !b.told("violates PodSecurity") {
		t.Error("nobody was told why")
	}
	b.label("privileged")
	b.must(1)
	b.wantFastPath(true, v1alpha1.FastPathByCluster, "RollingOut")
}

// A namespace that cannot be read makes no guess of it.
func TestReconcileWaitsForTheNamespace(t *testing.T) {
	b := newBench(t)
	if err := b.Client.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}); err != nil {
		t.Fatal(err)
	}
	b.must(1) // nobody asks
	b.FastPath = v1alpha1.FastPathAuto
	if err := b.reconcile(1); err == nil || !strings.Contains(err.Error(), "read the labels of namespace demo") {
		t.Errorf("%v", err)
	}
}

// The role of an older chart does not let the operator read namespaces: the service
// is reconciled all the same, and what is refused tells of the level.
func TestReconcileWithoutTheRightToLook(t *testing.T) {
	b := newBench(t)
	b.FastPath = v1alpha1.FastPathAuto
	b.Live = interceptor.NewClient(b.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if o.GetObjectKind().GroupVersionKind().Kind == "Namespace" {
				return apierrors.NewForbidden(corev1.Resource("namespaces"), k.Name, nil)
			}
			return c.Get(ctx, k, o, opts...)
		},
	})
	b.must(2)
	b.wantFastPath(true, v1alpha1.FastPathByCluster, "RollingOut")
}

// A label is not read anew by each service and every second.
func TestLevelsAreBelievedForAMoment(t *testing.T) {
	var m levelsRead
	m.put("a", "baseline", start)
	if level, ok := m.get("a", start.Add(levelBelieved-1)); !ok || level != "baseline" {
		t.Errorf("%q, %v", level, ok)
	}
	if _, ok := m.get("a", start.Add(levelBelieved)); ok {
		t.Error("believed for ever")
	}
	if _, ok := m.get("b", start); ok {
		t.Error("another namespace has it")
	}
	m.put("b", "", start.Add(levelBelieved))
	if len(m.all) != 1 {
		t.Errorf("%d namespaces are remembered, want 1", len(m.all))
	}
}
