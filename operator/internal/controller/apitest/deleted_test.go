// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"testing"
	"time"

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
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// allOf lists everything that is made for the service; the Secrets, which nobody
// watches, come last.
func (w *world) allOf() []client.Object {
	w.t.Helper()
	var out []client.Object
	for _, list := range []client.ObjectList{
		&corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		&networkingv1.NetworkPolicyList{}, &policyv1.PodDisruptionBudgetList{}, &appsv1.DeploymentList{}, &corev1.SecretList{},
	} {
		if err := direct.List(context.Background(), list, client.InNamespace(w.ns), client.MatchingLabels{v1alpha1.LabelService: w.name}); err != nil {
			w.t.Fatal(err)
		}
		out = append(out, objects(w.t, list)...)
	}
	return out
}

// waitBack waits for another object of that name.
func (w *world) waitBack(o client.Object) {
	w.t.Helper()
	gone := o.GetUID()
	eventually(w.t, fmt.Sprintf("%T %s is made again", o, o.GetName()), func() (bool, string) {
		err := direct.Get(context.Background(), client.ObjectKeyFromObject(o), o)
		return err == nil && o.GetUID() != gone, fmt.Sprint(err)
	})
}

// K-28: each object that is deleted by hand is made again without a person, and the pods
// of a ServiceAccount that is another one are to be replaced.
func TestK28EveryDeletedObjectIsMadeAgain(t *testing.T) {
	t.Parallel()
	w, servers, _ := serving(t, "mended", `{}`)
	born := w.getPod(servers[0].pod).CreationTimestamp
	eventually(t, "a second has passed, as creation times are in seconds", func() (bool, string) {
		return time.Now().After(born.Add(2 * time.Second)), time.Now().String()
	})
	for _, o := range w.allOf() {
		if err := direct.Delete(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		w.waitBack(o)
	}
	account := &corev1.ServiceAccount{}
	if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: "mended-sidecar"}, account); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mended-server", "mended-router"} {
		eventually(t, name+" replaces the pods whose tokens are dead", func() (bool, string) {
			d := &appsv1.Deployment{}
			if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: name}, d); err != nil {
				return false, err.Error()
			}
			got := d.Spec.Template.Annotations[render.AnnotationAccount]
			return got == string(account.UID), got
		})
	}
	// K-29: the keys were among them.
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonKeysLost)
}

// K-3: a service that was deleted without its objects, and applied again, takes them
// over with their keys.
func TestK3AServiceAppliedAgainTakesItsObjectsOver(t *testing.T) {
	t.Parallel()
	w, servers, routers := serving(t, "again", `{}`)
	keys := &corev1.Secret{}
	if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: "again-keys"}, keys); err != nil {
		t.Fatal(err)
	}
	first := string(keys.Data["1"])
	if err := direct.Delete(context.Background(), w.service()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the service is gone", func() (bool, string) {
		err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: "again"}, &v1alpha1.RpcService{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	// What the garbage collector does to the children of --cascade=orphan.
	for _, o := range w.allOf() {
		if err := direct.Patch(context.Background(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`))); err != nil {
			t.Fatal(err)
		}
	}
	anew := w.create(`{}`)
	w.waitCondition(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	for _, s := range append(servers, routers...) {
		s.runsLatest()
	}
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	for _, o := range w.allOf() {
		if owner := metav1.GetControllerOf(o); owner == nil || owner.UID != anew.UID || len(o.GetOwnerReferences()) != 1 {
			t.Errorf("%T %s belongs to %+v", o, o.GetName(), o.GetOwnerReferences())
		}
	}
	if err := direct.Get(context.Background(), client.ObjectKeyFromObject(keys), keys); err != nil || len(keys.Data) != 1 || string(keys.Data["1"]) != first {
		t.Errorf("%d keys, another first one, or %v", len(keys.Data), err)
	}
}
