// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// onGroup is an objective on a group of which the leader measured requests and the others
// none.
func onGroup(microseconds uint64) *snapshot {
	slo := anObjective("99", 1000)
	slo.Spec.TargetRef = v1alpha1.TargetReference{Kind: v1alpha1.TargetGroup, Name: "orders"}
	return &snapshot{slo: slo, group: &v1alpha1.ReplicationGroup{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}, parts: []part{
		{Name: "orders-member-0", Required: true, Reply: measured(0, 0, 0, 30)},
		{Name: "orders-member-1", Required: true, Reply: measured(2000, microseconds, 0, 30)},
		{Name: "orders-member-2", Required: true, Reply: measured(0, 0, 0, 30)},
	}}
}

// G-10: an objective on a group is judged by what its members measured together.
func TestObjectiveOnAGroup(t *testing.T) {
	for _, c := range []struct {
		name   string
		s      *snapshot
		change func(*snapshot)
		met    metav1.ConditionStatus
		reason string
	}{
		{"met", onGroup(300), nil, metav1.ConditionTrue, v1alpha1.ReasonObjectiveMet},
		{"missed", onGroup(3000), nil, metav1.ConditionFalse, v1alpha1.ReasonObjectiveMissed},
		{"a member that could not be read", onGroup(300), func(s *snapshot) { s.parts[1].Reply = nil }, metav1.ConditionUnknown, v1alpha1.ReasonMeasurementIncomplete},
		{"no group", onGroup(300), func(s *snapshot) { s.group, s.parts = nil, nil }, metav1.ConditionUnknown, v1alpha1.ReasonNoMeasurementSource},
		{"enforced", onGroup(300), func(s *snapshot) { s.slo.Spec.Enforcement.Mode = v1alpha1.EnforcementReject }, metav1.ConditionUnknown, v1alpha1.ReasonNoMeasurementSource},
	} {
		if c.change != nil {
			c.change(c.s)
		}
		p, err := planFor(c.s)
		if err != nil {
			t.Fatal(err)
		}
		if p.met.Status != c.met || p.met.Reason != c.reason {
			t.Errorf("%s: Met=%s (%s: %s), want %s (%s)", c.name, p.met.Status, p.met.Reason, p.met.Message, c.met, c.reason)
		}
		if c.met != metav1.ConditionUnknown && p.measured.source != v1alpha1.SourceServer {
			t.Errorf("%s: source %s", c.name, p.measured.source)
		}
	}
}

// G-10: what is not there is said by name.
func TestObjectivesOnGroupsThatAreRefused(t *testing.T) {
	s := onGroup(300)
	s.slo.Spec.Enforcement.Mode = v1alpha1.EnforcementReject
	if v := decideAccepted(s); v.OK() || v.Reason != v1alpha1.ReasonNothingEnforces || !strings.Contains(v.Message, "`spec.enforcement.mode` Reject") {
		t.Errorf("enforced: %+v", v)
	}
	s.group = nil
	if v := decideAccepted(s); v.OK() || v.Reason != v1alpha1.ReasonTargetNotFound || !strings.Contains(v.Message, `ReplicationGroup "orders"`) {
		t.Errorf("not there: %+v", v)
	}
	s = onGroup(300)
	if known, capacity := decideCapacity(s, measurement{}, 1000); known.OK() || capacity != nil || known.Message != groupCapacity {
		t.Errorf("capacity: %+v %+v", known, capacity)
	}
}

// G-10: an objective on a group is none on a service of that name, and the other way round.
func TestTargetsOfTwoKinds(t *testing.T) {
	for _, c := range []struct {
		kind, asked string
		want        bool
	}{
		{"", v1alpha1.TargetService, true}, {v1alpha1.TargetService, v1alpha1.TargetService, true}, {v1alpha1.TargetGroup, v1alpha1.TargetGroup, true},
		{"", v1alpha1.TargetGroup, false}, {v1alpha1.TargetService, v1alpha1.TargetGroup, false}, {v1alpha1.TargetGroup, v1alpha1.TargetService, false},
	} {
		ref := v1alpha1.TargetReference{Kind: c.kind, Name: "echo"}
		if got := ref.Names(c.asked, "echo"); got != c.want || ref.Names(c.asked, "other") {
			t.Errorf("%q is about %s echo: %v", c.kind, c.asked, got)
		}
	}
}
