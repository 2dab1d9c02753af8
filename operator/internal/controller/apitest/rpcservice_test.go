// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

func (w *world) create(change string) *v1alpha1.RpcService {
	w.t.Helper()
	o := parse(w.t, baseService)
	merge(o.Object, parse(w.t, change).Object)
	o.SetNamespace(w.ns)
	o.SetName(w.name)
	if err := w.api.Create(context.Background(), o); err != nil {
		w.t.Fatal(err)
	}
	return w.service()
}

func (w *world) patch(o client.Object, name, body string) {
	w.t.Helper()
	o.SetNamespace(w.ns)
	o.SetName(name)
	if err := w.api.Patch(context.Background(), o, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		w.t.Fatal(err)
	}
}

// serving brings a service with two servers and two routers to Ready.
func serving(t *testing.T, name, change string) (*world, []*sidecar, []*sidecar) {
	t.Helper()
	operator(t)
	return bringUp(newWorld(t, name), change)
}

func bringUp(w *world, change string) (*world, []*sidecar, []*sidecar) {
	w.t.Helper()
	w.create(change)
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonNoPods)
	workers := int(w.service().Spec.WorkersPerReplica)
	servers := []*sidecar{w.pod(v1alpha1.ComponentServer, workers), w.pod(v1alpha1.ComponentServer, workers)}
	routers := []*sidecar{w.pod(v1alpha1.ComponentRouter, 0), w.pod(v1alpha1.ComponentRouter, 0)}
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonReconciling)
	for _, s := range append(append([]*sidecar{}, servers...), routers...) {
		s.runsLatest()
	}
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	for _, r := range routers {
		r.setReady()
	}
	for _, s := range servers {
		w.waitJoined(s, corev1.ConditionTrue)
		s.setReady()
	}
	w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	return w, servers, routers
}

func (w *world) waitJoined(s *sidecar, status corev1.ConditionStatus) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%s of pod %s is %s", v1alpha1.PodConditionJoined, s.pod, status), func() (bool, string) {
		for _, c := range w.getPod(s.pod).Status.Conditions {
			if c.Type == v1alpha1.PodConditionJoined {
				return c.Status == status, string(c.Status) + " " + c.Message
			}
		}
		return false, "absent"
	})
}

func TestRpcServiceFromApplyToReady(t *testing.T) {
	t.Parallel()
	w, servers, routers := serving(t, "echo", `{spec: {workersPerReplica: 2}}`)
	s := w.service()
	st := s.Status
	if st.Workers != "4/4" || st.ReadyWorkers != 4 || st.DesiredWorkers != 4 || st.Replicas != 2 {
		t.Errorf("workers %q, ready %d, desired %d, replicas %d", st.Workers, st.ReadyWorkers, st.DesiredWorkers, st.Replicas)
	}
	if st.Policy != "JBSQ" || st.Device != "Kernel" || st.Forwarding != "Encapsulated" {
		t.Errorf("in effect: policy %q, device %q, forwarding %q", st.Policy, st.Device, st.Forwarding)
	}
	if len(st.Routers) != 2 || st.Routers[0].Address != routers[0].ip+":8000" || st.Routers[0].State != v1alpha1.RouterReady {
		t.Errorf("routers %+v", st.Routers)
	}
	if st.ObservedGeneration != s.Generation || len(st.Conditions) != 3 {
		t.Errorf("observed %d of %d, %d conditions", st.ObservedGeneration, s.Generation, len(st.Conditions))
	}
	doc, hash := w.config()
	if hash != st.ConfigHash || len(doc.Members) != 2 || doc.Members[0].Address != servers[0].ip || doc.Members[0].Workers != 2 {
		t.Errorf("hash %q, status %q, members %+v", hash, st.ConfigHash, doc.Members)
	}
	if len(doc.Sources) != 1 || doc.Sources[0].UID != string(s.UID) || doc.Sources[0].Generation != s.Generation {
		t.Errorf("sources %+v", doc.Sources)
	}
	secret := &corev1.Secret{}
	if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: "echo-keys"}, secret); err != nil {
		t.Fatal(err)
	}
	if len(secret.Data) != 1 || len(secret.Data["1"]) != 32 || strings.Trim(string(secret.Data["1"]), "0123456789abcdef") != "" {
		t.Errorf("keys: %d entries, %d digits", len(secret.Data), len(secret.Data["1"]))
	}
}

// Everything made for the service is owned by it, so that nothing stays when
// it is deleted, and carries its label.
func TestEverythingIsOwned(t *testing.T) {
	t.Parallel()
	w, _, _ := serving(t, "owned", `{}`)
	uid := w.service().UID
	for _, want := range []struct {
		list  client.ObjectList
		names []string
	}{
		{&appsv1.DeploymentList{}, []string{"owned-router", "owned-server"}},
		{&corev1.ServiceList{}, []string{"owned", "owned-servers"}},
		{&corev1.ConfigMapList{}, []string{"owned-dataplane"}},
		{&corev1.SecretList{}, []string{"owned-keys", "owned-tls"}},
		{&corev1.ServiceAccountList{}, []string{"owned-sidecar"}},
		{&rbacv1.RoleList{}, []string{"owned-sidecar"}},
		{&rbacv1.RoleBindingList{}, []string{"owned-sidecar"}},
		{&networkingv1.NetworkPolicyList{}, []string{"owned-router", "owned-server"}},
		{&policyv1.PodDisruptionBudgetList{}, []string{"owned-router", "owned-server"}},
	} {
		if err := direct.List(context.Background(), want.list, client.InNamespace(w.ns), client.MatchingLabels{v1alpha1.LabelService: "owned"}); err != nil {
			t.Fatal(err)
		}
		names := ownedNames(t, want.list, uid)
		if strings.Join(names, " ") != strings.Join(want.names, " ") {
			t.Errorf("%T: %v, want %v", want.list, names, want.names)
		}
	}
}

func ownedNames(t *testing.T, list client.ObjectList, uid types.UID) []string {
	t.Helper()
	var names []string
	for _, o := range objects(t, list) {
		owner := metav1.GetControllerOf(o)
		if owner == nil || owner.UID != uid || owner.BlockOwnerDeletion != nil || len(o.GetFinalizers()) > 0 {
			t.Errorf("%T %s: owner %+v, finalizers %v", o, o.GetName(), owner, o.GetFinalizers())
		}
		names = append(names, o.GetName())
	}
	return names
}

// A change is programmed only when every peer has acknowledged it, and a
// refusal names the peer and the field while the service goes on.
func TestProgrammedFollowsTheSlowestPeer(t *testing.T) {
	t.Parallel()
	w, servers, routers := serving(t, "slow", `{}`)
	_, old := w.config()
	routers[1].set(func() { routers[1].applied = func(string) string { return old } })
	w.patch(&v1alpha1.RpcService{}, "slow", `{"spec":{"router":{"workerQueueDepth":7}}}`)
	s := w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonReconciling)
	if c := condition(s, v1alpha1.ConditionProgrammed); !strings.Contains(c.Message, routers[1].pod) {
		t.Errorf("the message does not name the one that lags: %q", c.Message)
	}
	if doc, _ := w.config(); doc.Service.WorkerQueueDepth != 7 {
		t.Errorf("workerQueueDepth %d", doc.Service.WorkerQueueDepth)
	}
	_, hash := w.config()
	routers[1].set(func() {
		routers[1].refusal = &dataplane.ApplyError{Code: "InvalidConfig", Field: "service.workerQueueDepth", Message: "must be 1..4; got 7", Hash: hash}
	})
	s = w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonRejected)
	if c := condition(s, v1alpha1.ConditionProgrammed); !strings.Contains(c.Message, "service.workerQueueDepth: must be 1..4; got 7") {
		t.Errorf("the message does not carry the field: %q", c.Message)
	}
	routers[1].set(func() { routers[1].refusal = nil })
	routers[1].runsLatest()
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)

	_ = servers[0].server.Close()
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonUnreachable)
	w.waitJoined(servers[0], corev1.ConditionTrue) // it still serves: the routers say so
}

// a pod is ready while a router has its workers; it stops being so when
// none has.
func TestReadinessFollowsTheRouters(t *testing.T) {
	t.Parallel()
	w, servers, routers := serving(t, "joins", `{}`)
	routers[0].set(func() { routers[0].unjoined = true })
	w.waitJoined(servers[0], corev1.ConditionTrue)
	routers[1].set(func() { routers[1].unjoined = true })
	w.waitJoined(servers[0], corev1.ConditionFalse)
	routers[0].set(func() { routers[0].unjoined = false })
	routers[1].set(func() { routers[1].unjoined = false })
	w.waitJoined(servers[0], corev1.ConditionTrue)
}

// a pod being deleted is no member any more; a router that drains is
// still known to the servers until it is gone.
func TestPeersFollowThePods(t *testing.T) {
	t.Parallel()
	w, servers, _ := serving(t, "peers", `{}`)
	if err := direct.Delete(context.Background(), w.getPod(servers[0].pod)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deleted server is no member", func() (bool, string) {
		doc, _ := w.config()
		return len(doc.Members) == 1 && doc.Members[0].Name == servers[1].pod, fmt.Sprintf("%+v", doc.Members)
	})
	// Same generation, other members: the specification is still programmed,
	// though one peer has not caught up.
	late := w.pod(v1alpha1.ComponentServer, 1)
	late.runsLatest()
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
}

func TestDriftIsUndone(t *testing.T) {
	t.Parallel()
	w, _, _ := serving(t, "drift", `{}`)
	key := types.NamespacedName{Namespace: w.ns, Name: "drift-router"}
	w.patch(&appsv1.Deployment{}, key.Name, `{"spec":{"replicas":9}}`)
	eventually(t, "the Deployment has its 2 replicas again", func() (bool, string) {
		d := &appsv1.Deployment{}
		if err := direct.Get(context.Background(), key, d); err != nil {
			return false, err.Error()
		}
		return *d.Spec.Replicas == 2, fmt.Sprint(*d.Spec.Replicas)
	})
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "drift"}}
	if err := direct.Delete(context.Background(), service); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deleted Service is back", func() (bool, string) {
		err := direct.Get(context.Background(), client.ObjectKeyFromObject(service), service)
		return err == nil, fmt.Sprint(err)
	})
}

// What belongs to somebody else is left alone, and the user is told which it is.
func TestNameConflict(t *testing.T) {
	t.Parallel()
	operator(t)
	w := newWorld(t, "busy")
	foreign := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "busy"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if err := direct.Create(context.Background(), foreign); err != nil {
		t.Fatal(err)
	}
	w.create(`{}`)
	s := w.waitCondition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
	if c := condition(s, v1alpha1.ConditionAccepted); !strings.Contains(c.Message, "Service busy") {
		t.Errorf("the message does not name the object: %q", c.Message)
	}
	w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotAccepted)
	err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: "busy-server"}, &appsv1.Deployment{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a Deployment was made for a service that is not accepted: %v", err)
	}
	if err := direct.Delete(context.Background(), foreign); err != nil {
		t.Fatal(err)
	}
	w.waitCondition(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
}

// While a specification cannot be accepted, the last one keeps serving, and
// keeps up with its pods.
func TestLastGoodConfigurationKeepsServing(t *testing.T) {
	t.Parallel()
	w, _, _ := serving(t, "good", `{}`)
	ctx := context.Background()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "good-router"}}
	// Somebody takes a name over; from here on a change cannot be carried out.
	w.patch(budget, budget.Name, `{"metadata":{"ownerReferences":null,"labels":{"bobtail.dev/service":null}}}`)
	w.patch(&v1alpha1.RpcService{}, "good", `{"spec":{"router":{"workerQueueDepth":9}}}`)
	w.waitCondition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonNotAccepted)
	late := w.pod(v1alpha1.ComponentServer, 1)
	eventually(t, "the new pod is a member of the old configuration", func() (bool, string) {
		doc, _ := w.config()
		return len(doc.Members) == 3 && doc.Service.WorkerQueueDepth == 3, fmt.Sprintf("%+v", doc)
	})
	late.runsLatest()
	if err := direct.Delete(ctx, budget); err != nil {
		t.Fatal(err)
	}
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	if doc, _ := w.config(); doc.Service.WorkerQueueDepth != 9 {
		t.Errorf("workerQueueDepth %d after the conflict is gone", doc.Service.WorkerQueueDepth)
	}
}

func TestWithoutRouter(t *testing.T) {
	t.Parallel()
	operator(t)
	w := newWorld(t, "direct")
	w.create(`{spec: {replicas: 1, router: {placement: None}}}`)
	s := w.pod(v1alpha1.ComponentServer, 1)
	s.runsLatest()
	w.waitJoined(s, corev1.ConditionTrue)
	s.setReady()
	got := w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	if got.Status.Policy != "None" || got.Status.Forwarding != "None" || len(got.Status.Routers) != 0 {
		t.Errorf("policy %q, forwarding %q, routers %v", got.Status.Policy, got.Status.Forwarding, got.Status.Routers)
	}
	service := &corev1.Service{}
	if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: "direct"}, service); err != nil {
		t.Fatal(err)
	}
	if service.Spec.Selector[v1alpha1.LabelComponent] != v1alpha1.ComponentServer {
		t.Errorf("clients are sent to %v", service.Spec.Selector)
	}
}

func condition(s *v1alpha1.RpcService, kind string) metav1.Condition {
	for _, c := range s.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}
