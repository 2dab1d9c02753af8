// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// front is the Service of a TCP service as it is now.
func (w *world) front() *corev1.Service {
	w.t.Helper()
	s := &corev1.Service{}
	if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: w.name}, s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// onTCP makes a service of protocol TCP on a cluster without an agent.
func onTCP(t *testing.T, name string) *world {
	t.Helper()
	operator(t)
	w := newWorld(t, name)
	w.create(`{spec: {protocol: TCP, tcp: {port: 8080}, router: {placement: None}}}`)
	t.Cleanup(w.freeAddress)
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonNoAgents)
	return w
}

// freeAddress deletes the service, and then its Service: nobody collects garbage
// here. An operator that has not heard of the first may make the second anew.
func (w *world) freeAddress() {
	_ = direct.Delete(context.Background(), w.service())
	gone := 0
	eventually(w.t, "the Service is gone, and stays so", func() (bool, string) {
		if gone++; !apierrors.IsNotFound(direct.Delete(context.Background(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name}})) {
			gone = 0
		}
		return gone == 10, "still there" // a second
	})
}

// servingTCP brings it to Ready on a cluster of one node.
func servingTCP(t *testing.T, name string) *world {
	t.Helper()
	w := onTCP(t, name)
	for range 2 {
		w.pod(v1alpha1.ComponentServer, 1).setReady()
	}
	acknowledge(t, "node-a", w.front())
	w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	return w
}

// Without agents the service is there, by its name; with them it is programmed when
// all of them say so, of every generation anew. Not parallel, like all that asks for
// an address: the pool and the agents are the cluster's.
func TestTCPServiceIsProgrammedByAgents(t *testing.T) {
	w := onTCP(t, "web")
	s := w.service()
	if m := condition(s, v1alpha1.ConditionProgrammed).Message; s.Status.Address != "web."+w.ns+".svc:8080" || !strings.HasSuffix(m, "by its ClusterIP, "+s.Status.Address) {
		t.Errorf("address %s, %q", s.Status.Address, m)
	}
	w.pod(v1alpha1.ComponentServer, 1).setReady()
	second := w.pod(v1alpha1.ComponentServer, 1)
	acknowledge(t, "node-a", w.front())
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWorkersNotReady)
	second.setReady()
	s = w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	if !strings.HasPrefix(s.Status.Address, "192.0.2.") || !strings.HasSuffix(s.Status.Address, ":8080") || len(s.Status.Addresses) != 1 || s.Status.ReadyWorkers != 2 {
		t.Errorf("status %+v", s.Status)
	}
	if header, row := shown(t, table(t, w.ns, "rpcservices", "web")); header != "NAME READY PROGRAMMED WORKERS POLICY DEVICE AGE" || !strings.HasPrefix(row, "web True True 2/2 RoundRobin Kernel ") {
		t.Errorf("%s\n%s", header, row)
	}
	w.patch(&v1alpha1.RpcService{}, "web", `{"spec":{"tcp":{"policy":"JSQ"}}}`)
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonReconciling)
	f := w.front()
	if f.Annotations[v1alpha1.AnnotationPolicy] != "Least" {
		t.Errorf("annotations %v", f.Annotations)
	}
	acknowledge(t, "node-a", f)
	w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	acknowledge(t, "node-b")
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonReconciling)
}

// CRAB's refusal is told by its name, and what users annotate stays theirs.
func TestTCPServiceIsRefusedByName(t *testing.T) {
	w := servingTCP(t, "refused")
	w.patch(&corev1.Service{}, "refused", `{"metadata":{"annotations":{"bobtail.dev/vip":"203.0.113.1"}}}`)
	s := w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonOutsidePool)
	if m := condition(s, v1alpha1.ConditionProgrammed).Message; !strings.Contains(m, "CRAB refuses Service refused: the address 203.0.113.1") || !strings.Contains(m, "by its ClusterIP") {
		t.Errorf("%q", m)
	}
	w.patch(&corev1.Service{}, "refused", `{"metadata":{"annotations":{"bobtail.dev/vip":null,"bobtail.dev/node-weights":"node-a=2"}}}`)
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonReconciling)
	acknowledge(t, "node-a", w.front())
	w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	w.patch(&v1alpha1.RpcService{}, "refused", `{"spec":{"tcp":{"policy":"Random"}}}`)
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonReconciling)
	if a := w.front().Annotations; a["bobtail.dev/node-weights"] != "node-a=2" || a[v1alpha1.AnnotationPolicy] != "Random" {
		t.Errorf("annotations %v", a)
	}
}

// What is made is what is needed, and no more; autoscalers find what they need.
func TestTCPServiceMakesLittle(t *testing.T) {
	w := servingTCP(t, "little")
	for _, want := range []struct {
		list  client.ObjectList
		names string
	}{
		{&appsv1.DeploymentList{}, "little-server"}, {&corev1.ServiceList{}, "little"}, {&networkingv1.NetworkPolicyList{}, "little-server"},
		{&policyv1.PodDisruptionBudgetList{}, "little-server"}, {&corev1.ConfigMapList{}, ""}, {&corev1.SecretList{}, ""},
		{&rbacv1.RoleList{}, ""}, {&rbacv1.RoleBindingList{}, ""},
	} {
		if err := direct.List(context.Background(), want.list, client.InNamespace(w.ns), client.HasLabels{v1alpha1.LabelService}); err != nil {
			t.Fatal(err)
		}
		if names := strings.Join(ownedNames(t, want.list, w.service().UID), " "); names != want.names {
			t.Errorf("%T: %q, want %q", want.list, names, want.names)
		}
	}
	scale := &autoscalingv1.Scale{}
	if err := direct.SubResource("scale").Get(context.Background(), w.service(), scale); err != nil {
		t.Fatal(err)
	}
	if scale.Status.Replicas != 2 || scale.Status.Selector != "bobtail.dev/component=server,bobtail.dev/service=little" {
		t.Errorf("scale %+v", scale.Status)
	}
	scale.Spec.Replicas = 0
	if err := direct.SubResource("scale").Update(context.Background(), w.service(), client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonScaledToZero)
}

// An objective on a cluster without agents says that nobody measures, and what can be done; nobody enforces it.
func TestObjectiveOnTCPService(t *testing.T) {
	w := onTCP(t, "unseen")
	w.objective(`{spec: {enforcement: {mode: Reject}}}`)
	slo := w.waitMet(metav1.ConditionUnknown, v1alpha1.ReasonNoMeasurementSource)
	if c := meta.FindStatusCondition(slo.Status.Conditions, v1alpha1.ConditionAccepted); c.Reason != v1alpha1.ReasonNothingEnforces || !strings.Contains(c.Message, "set the mode to Observe") {
		t.Errorf("%+v", c)
	}
	w.patch(&v1alpha1.ServiceLevelObjective{}, "echo-p99", `{"spec":{"enforcement":{"mode":"Observe"}}}`)
	eventually(t, "accepted, and told of experiments", func() (bool, string) {
		slo = w.waitMet(metav1.ConditionUnknown, v1alpha1.ReasonNoMeasurementSource)
		c := meta.FindStatusCondition(slo.Status.Conditions, v1alpha1.ConditionMet)
		ok := meta.IsStatusConditionTrue(slo.Status.Conditions, v1alpha1.ConditionAccepted) && strings.Contains(c.Message, "a LatencyExperiment with `target.targetRef` unseen")
		return ok, c.Message
	})
}
