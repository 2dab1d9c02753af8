// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// What the alert of undecided states goes by: the entry, or 0 where a majority has the same state.
func TestUndecidedStatesAreShown(t *testing.T) {
	s := &groupStates{all: map[types.NamespacedName]v1alpha1.ReplicationGroup{}}
	shown := prometheus.NewRegistry()
	shown.MustRegister(s)
	entry := int64(2048)
	for want, said := range map[float64]*int64{2048: &entry, 0: nil} {
		s.observe(types.NamespacedName{Namespace: "shop", Name: "orders"}, &v1alpha1.ReplicationGroup{Status: v1alpha1.ReplicationGroupStatus{StatesUndecidedEntry: said}})
		families, err := shown.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := -1.0
		for _, f := range families {
			if f.GetName() == "bobtail_group_states_undecided_entry" {
				got = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		if got != want {
			t.Errorf("%v is shown, want %v", got, want)
		}
	}
}
