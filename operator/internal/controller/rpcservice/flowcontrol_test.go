// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// withFlow is a service with flow control whose servers say so much.
func withFlow(says ...*dataplane.FlowState) *snapshot {
	service := aService()
	service.Spec.FlowControl = &v1alpha1.RpcServiceFlowControl{WaitMicroseconds: 200}
	s := &snapshot{service: service, servers: pods(strings.TrimSpace(strings.Repeat("RJ ", len(says)))), states: map[string]stateRead{}}
	for i, f := range says {
		s.states[s.servers[i].Name] = stateRead{Reply: &dataplane.SidecarState{Dataplane: &dataplane.State{FlowControl: f}}}
	}
	return s
}

// F-49, F-8: status says what servers make of it, of the one closest to its limit.
func TestFlowControlStatus(t *testing.T) {
	calm := &dataplane.FlowState{LoadMillionths: 100_000, AdmittedMillionths: 600_000, Refused: 1000}
	busy := &dataplane.FlowState{Throttling: true, LoadMillionths: 560_000, AdmittedMillionths: 571_000, Refused: 234}
	begun := &dataplane.FlowState{LoadMillionths: 900_000}
	wild := &dataplane.FlowState{Alarm: true, AdmittedMillionths: 50_000}
	for _, c := range []struct {
		name                 string
		says                 []*dataplane.FlowState
		reason               v1alpha1.FlowControlReason
		replicas, throttling int32
		load, admitted       int32 // -1: absent
		refused              int64
	}{
		{"nobody", []*dataplane.FlowState{nil, nil}, v1alpha1.FlowControlNotReported, 0, 0, -1, -1, 0},
		{"one of two", []*dataplane.FlowState{calm, nil}, v1alpha1.FlowControlInForce, 1, 0, 10, 60, 1000},
		{"the busier one", []*dataplane.FlowState{calm, busy}, v1alpha1.FlowControlInForce, 2, 1, 55, 55, 1200},
		{"just begun", []*dataplane.FlowState{{}}, v1alpha1.FlowControlInForce, 1, 0, -1, -1, 0},
		{"one has just begun, the last", []*dataplane.FlowState{calm, busy, begun}, v1alpha1.FlowControlInForce, 3, 1, 55, 55, 1200},
		{"one has just begun, the first", []*dataplane.FlowState{begun, calm, busy}, v1alpha1.FlowControlInForce, 3, 1, 55, 55, 1200},
		{"dispersed", []*dataplane.FlowState{calm, wild}, v1alpha1.FlowControlTooDispersed, 2, 0, 10, 60, 1000},
	} {
		got := flowControlStatus(withFlow(c.says...))
		value := func(p *int32) int32 {
			if p == nil {
				return -1
			}
			return *p
		}
		if got.Reason != c.reason || got.Replicas != c.replicas || got.Throttling != c.throttling || got.Refused != c.refused ||
			value(got.LoadPercent) != c.load || value(got.AdmittedPercent) != c.admitted {
			t.Errorf("%s: %+v load %d admitted %d", c.name, got, value(got.LoadPercent), value(got.AdmittedPercent))
		}
	}
	s := withFlow(busy)
	s.service.Spec.FlowControl = nil
	if got := flowControlStatus(s); got != nil {
		t.Errorf("without flow control: %+v", got)
	}
}

// An enforced objective that allows a request no more in all than it may wait.
func TestFlowControlDefersToAnEnforcedObjective(t *testing.T) {
	s := withFlow(&dataplane.FlowState{})
	slo := v1alpha1.ServiceLevelObjective{}
	slo.Name, slo.Namespace = "strict", s.service.Namespace
	slo.Spec = v1alpha1.ServiceLevelObjectiveSpec{Percentile: "99", LatencyMicroseconds: 200, Enforcement: v1alpha1.Enforcement{Mode: v1alpha1.EnforcementReject}}
	slo.Spec.TargetRef.Name = s.service.Name
	s.objectives = []v1alpha1.ServiceLevelObjective{slo}
	if got := flowControlStatus(s); got.Reason != v1alpha1.FlowControlWaitNotBelowObjective || !strings.Contains(got.Message, "strict") {
		t.Errorf("%+v", got)
	}
	s.objectives[0].Spec.LatencyMicroseconds = 201
	if got := flowControlStatus(s); got.Reason != v1alpha1.FlowControlInForce {
		t.Errorf("%+v", got)
	}
}
