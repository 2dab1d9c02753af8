// SPDX-License-Identifier: Apache-2.0

package latencyexperiment

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// A service that changes wakes the experiments on it, in its namespace: not those on others, nor those on addresses.
func TestServicesWakeTheirExperiments(t *testing.T) {
	s := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	named := func(namespace, name string, target v1alpha1.ExperimentTarget) *v1alpha1.LatencyExperiment {
		e := experiment(func(s *v1alpha1.LatencyExperimentSpec) { s.Target = target })
		e.Namespace, e.Name = namespace, name
		return e
	}
	other := v1alpha1.ExperimentTarget{TargetRef: &v1alpha1.TargetReference{Kind: "RpcService", Name: "cart"}}
	r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(s).WithObjects(
		named("apps", "addresses", v1alpha1.ExperimentTarget{Addresses: []string{"a:80"}}), named("apps", "first", ref), named("apps", "other", other),
		named("apps", "second", ref), named("elsewhere", "first", ref)).Build()}
	got := r.experimentsOf(t.Context(), &v1alpha1.RpcService{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "echo"}})
	if len(got) != 2 || got[0].String() != "apps/first" || got[1].String() != "apps/second" {
		t.Errorf("woken: %v", got)
	}
}

// Keys are written before anything is measured only where that is asked for.
func TestKeysArePreloadedWhereAsked(t *testing.T) {
	for said, want := range map[string]bool{"": false, "None": false, "AllKeys": true} {
		if got := requests(v1alpha1.ExperimentWorkload{Preload: said}).Preload; got != want {
			t.Errorf("%q: %t", said, got)
		}
	}
	for said, want := range map[string]string{"": "", "GetSet": "get-set", "YCSBE": "ycsb-e"} {
		r := requests(v1alpha1.ExperimentWorkload{Mix: said, Keys: 7, Path: "/p"})
		if r.Mix != want || r.Keys != 7 || r.Path != "/p" || r.ReadRatio != nil {
			t.Errorf("%q: %+v", said, r)
		}
	}
}
