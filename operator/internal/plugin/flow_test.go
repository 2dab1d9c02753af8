// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func TestOfFlowControl(t *testing.T) {
	load, admitted := int32(60), int32(55)
	for name, c := range map[string]struct {
		status *v1alpha1.FlowControlStatus
		want   string // "": nothing to say
	}{
		"not asked for":      {nil, ""},
		"in force and quiet": {&v1alpha1.FlowControlStatus{Reason: v1alpha1.FlowControlInForce, Replicas: 2}, ""},
		"not reported":       {&v1alpha1.FlowControlStatus{Reason: v1alpha1.FlowControlNotReported, Message: "none is ready"}, "NotReported: none is ready"},
		"throttling": {&v1alpha1.FlowControlStatus{Reason: v1alpha1.FlowControlInForce, Replicas: 2, Throttling: 1, LoadPercent: &load, AdmittedPercent: &admitted},
			"1 of 2 servers hold clients back; the closest to its limit has a load of 60 % of a core, and 55 % are admitted"},
		"not obeyed": {&v1alpha1.FlowControlStatus{Reason: v1alpha1.FlowControlInForce, Replicas: 2, Refused: 1200},
			"0 of 2 servers hold clients back; about 1200 requests came from clients that had been told to be silent"},
	} {
		got := ofFlowControl(&v1alpha1.RpcService{Status: v1alpha1.RpcServiceStatus{FlowControl: c.status}})
		if (got == nil) != (c.want == "") || got != nil && (got.Evidence != c.want || got.Cause != causeFlow) {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}
