// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// F-49: what the specification says of waiting arrives in the document, and absence
// leaves it out; an enforced objective that allows no more in all comes first.
func TestFlowControlIsRendered(t *testing.T) {
	full := &v1alpha1.RpcServiceFlowControl{WaitMicroseconds: 200, Percentile: "99.9", Model: v1alpha1.FlowControlPaper}
	objective := func(latency int) *Objective {
		return &Objective{Admission: &dataplane.Admission{LatencyMicroseconds: latency}}
	}
	for _, c := range []struct {
		name      string
		in        *v1alpha1.RpcServiceFlowControl
		objective *Objective
		want      *dataplane.FlowControl
	}{
		{"absent", nil, objective(100), nil},
		{"least", &v1alpha1.RpcServiceFlowControl{WaitMicroseconds: 1}, nil, &dataplane.FlowControl{WaitMicroseconds: 1, PercentilePer100000: 99000, Model: "Refined"}},
		{"full", full, nil, &dataplane.FlowControl{WaitMicroseconds: 200, PercentilePer100000: 99900, Model: "Paper"}},
		{"a longer objective", full, objective(201), &dataplane.FlowControl{WaitMicroseconds: 200, PercentilePer100000: 99900, Model: "Paper"}},
		{"an objective as long", full, objective(200), nil},
	} {
		s := &v1alpha1.RpcService{Spec: v1alpha1.RpcServiceSpec{FlowControl: c.in}}
		got := flowControl(s, c.objective)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
