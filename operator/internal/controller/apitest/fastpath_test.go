// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// enforce labels the namespace, as its owner would.
func enforce(t *testing.T, ns, level string) {
	t.Helper()
	body := fmt.Sprintf(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%q}}}`, level)
	o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	if err := direct.Patch(context.Background(), o, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		t.Fatal(err)
	}
}

func (w *world) routers() *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{}
	if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: w.name + "-router"}, d); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return d
}

// admitted says whether the API server takes a pod of that Deployment in a namespace.
func admitted(d *appsv1.Deployment, ns string) error {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "try-"}, Spec: *d.Spec.Template.Spec.DeepCopy()}
	p.Spec.ServiceAccountName = "" // nobody makes accounts of a namespace here
	return direct.Create(context.Background(), p, client.DryRunAll)
}

// waitFastPath waits until routers and status are as they should.
func (w *world) waitFastPath(given bool, chooser v1alpha1.FastPathChooser, reason string) *v1alpha1.FastPathStatus {
	w.t.Helper()
	var f *v1alpha1.FastPathStatus
	eventually(w.t, fmt.Sprintf("fast path %v, %s by %q", given, reason, chooser), func() (bool, string) {
		f = w.service().Status.FastPath
		d := w.routers()
		ok := f == nil && chooser == "" || f != nil && f.ChosenBy == chooser && f.Reason == reason
		return ok && d.Name != "" && render.HasFastPath(d) == given, fmt.Sprintf("%+v, routers %v", f, render.HasFastPath(d))
	})
	return f
}

// Whoever asked for it: what a namespace does not admit is not asked of it, and the
// status names the label. The API server itself says which pods it admits.
func TestFastPathUnderPodSecurity(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		level, change string
		chooser       v1alpha1.FastPathChooser
	}{
		{"restricted", `{spec: {router: {fastPath: Auto}}}`, v1alpha1.FastPathByService},
		{"baseline", `{}`, v1alpha1.FastPathByCluster},
	} {
		t.Run(c.level, func(t *testing.T) {
			operator(t)
			w := newWorld(t, "held")
			enforce(t, w.ns, c.level)
			w.create(c.change)
			f := w.waitFastPath(false, c.chooser, v1alpha1.FastPathReasonPodSecurity)
			if f.State != v1alpha1.FastPathInactive || !strings.Contains(f.Message, w.ns+" has the label pod-security.kubernetes.io/enforce="+c.level) {
				t.Errorf("%+v", f)
			}
			if err := admitted(w.routers(), w.ns); err != nil {
				t.Errorf("the routers are refused: %v", err)
			}
			enforce(t, w.ns, "privileged")
			w.waitFastPath(true, c.chooser, v1alpha1.FastPathReasonNoAnswer)
			fast := w.routers()
			if err := admitted(fast, w.ns); err != nil {
				t.Errorf("the routers are refused: %v", err)
			}
			enforce(t, w.ns, c.level)
			w.waitFastPath(false, c.chooser, v1alpha1.FastPathReasonPodSecurity)
			if err := admitted(fast, w.ns); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
				t.Errorf("routers made for it are met with: %v", err)
			}
		})
	}
}

// Without a label only the refusal shows. What the Deployment controller would write
// is written here, in the API server's own words.
func TestFastPathWherePodsAreRefused(t *testing.T) {
	t.Parallel()
	operator(t)
	w := newWorld(t, "refused")
	w.create(`{}`)
	w.waitFastPath(true, v1alpha1.FastPathByCluster, v1alpha1.FastPathReasonNoAnswer)
	elsewhere := namespace(t)
	enforce(t, elsewhere, "baseline")
	words := admitted(w.routers(), elsewhere)
	if words == nil {
		t.Fatal("a pod with the capabilities was admitted under baseline")
	}
	eventually(t, "the Deployment shows the refusal", func() (bool, string) {
		d := w.routers()
		before := d.DeepCopy()
		d.Status.ObservedGeneration = d.Generation
		d.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: words.Error(),
		}}
		err := direct.Status().Patch(context.Background(), d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		return err == nil, fmt.Sprint(err)
	})
	f := w.waitFastPath(false, v1alpha1.FastPathByCluster, v1alpha1.FastPathReasonPodSecurity)
	if !strings.Contains(f.Message, "violates PodSecurity") {
		t.Errorf("%+v", f)
	}
	if err := admitted(w.routers(), elsewhere); err != nil {
		t.Errorf("the routers are refused: %v", err)
	}
}

// The cluster's choice passes by what could not use it and what says Off: their
// routers are as with Off, and the status says nothing of it.
func TestClusterChoicePassesBy(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"off":      `{spec: {router: {fastPath: "Off"}}}`,
		"policy":   `{spec: {router: {policy: JSQ}}}`,
		"holdback": `{spec: {router: {holdBack: {packets: 1, microseconds: 1}}}}`,
		"hedging":  `{spec: {hedging: {mode: Probe}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			operator(t)
			w := newWorld(t, name)
			w.create(change)
			w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonNoPods)
			w.waitFastPath(false, "", "")
		})
	}
}

// The choice may be taken by the service and given back at any time.
func TestFieldIsGivenBack(t *testing.T) {
	t.Parallel()
	operator(t)
	w := newWorld(t, "back")
	w.create(`{spec: {router: {fastPath: "Off"}}}`)
	w.waitFastPath(false, "", "")
	w.patch(&v1alpha1.RpcService{}, w.name, `{"spec":{"router":{"fastPath":null}}}`)
	w.waitFastPath(true, v1alpha1.FastPathByCluster, v1alpha1.FastPathReasonNoAnswer)
	w.patch(&v1alpha1.RpcService{}, w.name, `{"spec":{"router":{"fastPath":"Auto"}}}`)
	w.waitFastPath(true, v1alpha1.FastPathByService, v1alpha1.FastPathReasonNoAnswer)
}
