// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// Nobody sees the requests of a TCP service: that is said, with what can be done,
// and nothing else is.
func TestObjectiveOnTCP(t *testing.T) {
	target := aTarget()
	target.Name, target.Spec.Protocol, target.Spec.TCP = "web", v1alpha1.ProtocolTCP, &v1alpha1.RpcServiceTCP{Port: 80}
	slo := anObjective("99", 5_000_000) // above the timeout, which is about messages of R2P2
	s := &snapshot{slo: slo, target: target, slow: true}
	m, err := measure(s)
	if err != nil {
		t.Fatal(err)
	}
	accepted, met := decideAccepted(s), decideMet(slo, m, 1000)
	if accepted.status != metav1.ConditionTrue {
		t.Errorf("accepted: %+v", accepted)
	}
	writeStatus(slo, accepted, decideProgrammed(s, accepted), met, m, 1000, start)
	var l ledgers
	_, led := l.count(types.NamespacedName{Name: "p"}, slo, nil, start)
	writeSlow(slo, s, led, m, 1000, start)
	for kind, want := range map[string]struct {
		status metav1.ConditionStatus
		reason string
	}{
		v1alpha1.ConditionMet:           {metav1.ConditionUnknown, v1alpha1.ReasonNoMeasurementSource},
		v1alpha1.ConditionReady:         {metav1.ConditionFalse, v1alpha1.ReasonNotMeasuring},
		v1alpha1.ConditionCapacityKnown: {metav1.ConditionFalse, v1alpha1.ReasonNoMeasurementSource},
		v1alpha1.ConditionAttainable:    {metav1.ConditionUnknown, v1alpha1.ReasonNoMeasurementSource},
	} {
		c := meta.FindStatusCondition(slo.Status.Conditions, kind)
		if c == nil || c.Status != want.status || c.Reason != want.reason || !strings.Contains(c.Message, "LatencyExperiment with `target.targetRef` web") {
			t.Errorf("%s: %+v, want %+v", kind, c, want)
		}
	}
	if st := slo.Status; st.Source != v1alpha1.SourceNone || st.Observed != "" || st.Samples != nil || st.Capacity != nil || st.ErrorBudgets != nil {
		t.Errorf("numbers of nothing: %+v", st)
	}
}
