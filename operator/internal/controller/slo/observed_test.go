// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// The operator's metrics hear of every measurement, with what was written, and of an objective that is gone; who has no
// metrics measures all the same.
func TestMetricsHearOfEveryMeasurement(t *testing.T) {
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	slo := anObjective("99", 500)
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(slo).WithStatusSubresource(slo).Build()
	var heard []*v1alpha1.ServiceLevelObjective
	r := &Reconciler{Client: c, Events: events.NewFakeRecorder(10), Now: func() time.Time { return start },
		Observe: func(key types.NamespacedName, o *v1alpha1.ServiceLevelObjective, _ Counted) {
			if key.String() != "demo/p" {
				t.Errorf("told of %s", key)
			}
			heard = append(heard, o)
		}}
	asked := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "demo", Name: "p"}}
	next, err := r.Reconcile(t.Context(), asked)
	if err != nil || next.RequeueAfter != longest || len(heard) != 1 || heard[0] == nil || len(heard[0].Status.Conditions) == 0 {
		t.Fatalf("again in %s, %v; told %+v", next.RequeueAfter, err, heard)
	}
	if err := c.Delete(t.Context(), slo); err != nil {
		t.Fatal(err)
	}
	next, err = r.Reconcile(t.Context(), asked)
	if err != nil || next.RequeueAfter != 0 || len(heard) != 2 || heard[1] != nil {
		t.Errorf("gone: again in %s, %v; told %+v", next.RequeueAfter, err, heard)
	}
	r.Observe = nil
	if _, err := r.Reconcile(t.Context(), asked); err != nil {
		t.Errorf("without metrics: %v", err)
	}
}
