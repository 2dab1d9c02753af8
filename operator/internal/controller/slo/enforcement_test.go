// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/enforce"
)

// enforcing is a snapshot in which everything is as it should be.
func enforcing() *snapshot {
	slo, target := anObjective("99", 1000), aTarget()
	slo.UID, slo.Spec.Enforcement.Mode = "u", v1alpha1.EnforcementReject
	target.Name, target.Namespace, target.Status.ConfigHash = "echo", "demo", "before"
	target.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionTrue}}
	return &snapshot{slo: slo, target: target, enforcement: enforcement{
		chosen: slo, config: &dataplane.Config{Sources: []dataplane.Source{{Kind: "RpcService"}, enforce.Source(slo)}}, hashes: []string{"now", "before"},
	}}
}

func TestDecideProgrammed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*snapshot)
		want   metav1.ConditionStatus
		reason string
		says   string
	}{
		{"enforced", func(*snapshot) {}, "True", v1alpha1.ReasonProgrammed, "Reject"},
		{"only observes", func(s *snapshot) { s.slo.Spec.Enforcement.Mode = v1alpha1.EnforcementObserve }, "True", v1alpha1.ReasonNothingToProgram, "observes"},
		{"an older one", func(s *snapshot) {
			other := s.slo.DeepCopy()
			other.Name = "first"
			s.enforcement.chosen = other
		}, "False", v1alpha1.ReasonConflict, "ServiceLevelObjective first"},
		{"no configuration", func(s *snapshot) { s.enforcement.config = nil }, "False", v1alpha1.ReasonReconciling, "echo"},
		{"an earlier generation", func(s *snapshot) { s.slo.Generation++ }, "False", v1alpha1.ReasonReconciling, "this generation"},
		{"a namesake that is gone", func(s *snapshot) { s.slo.UID = "v" }, "False", v1alpha1.ReasonReconciling, "this generation"},
		{"written, not acknowledged", func(s *snapshot) { s.target.Status.ConfigHash = "another" }, "False", v1alpha1.ReasonReconciling, "acknowledged"},
		{"refused", func(s *snapshot) { s.target.Status.Conditions[0].Status = "False" }, "False", v1alpha1.ReasonReconciling, "acknowledged"},
		{"no router", func(s *snapshot) { s.target.Spec.Router.Placement = v1alpha1.PlacementNone }, "False", v1alpha1.ReasonNotAccepted, "needs a router"},
		{"no request to reject", func(s *snapshot) {
			s.target.Spec.Protocol, s.target.Spec.TCP = v1alpha1.ProtocolTCP, &v1alpha1.RpcServiceTCP{Port: 80}
		}, "False", v1alpha1.ReasonNotAccepted, "is TCP: its requests go straight to the servers"},
		{"peers that cannot read marks", func(s *snapshot) {
			s.slo.Spec.Enforcement.Mode, s.target.Spec.LegacyPeers = v1alpha1.EnforcementDegrade, v1alpha1.LegacyPeersAllow
		}, "False", v1alpha1.ReasonNotAccepted, "legacyPeers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := enforcing()
			c.change(s)
			v := decideProgrammed(s, decideAccepted(s))
			if v.Status != c.want || v.Reason != c.reason || !strings.Contains(v.Message, c.says) {
				t.Errorf("%+v, want %s (%s) saying %q", v, c.want, c.reason, c.says)
			}
			if ready := decideReady(decideAccepted(s), v, verdict.Yes(v1alpha1.ReasonObjectiveMet, "")); (ready.Status == metav1.ConditionTrue) != (c.want == "True") {
				t.Errorf("Ready %+v beside Programmed %s", ready, v.Status)
			}
		})
	}
}

// Oldest first, whatever the order of the list, the name or the change.
func TestTheOldestIsEnforced(t *testing.T) {
	s := enforcing()
	at := time.Unix(1000, 0)
	make := func(name string, age int, change func(*v1alpha1.ServiceLevelObjective)) v1alpha1.ServiceLevelObjective {
		o := *s.slo.DeepCopy()
		o.Name, o.CreationTimestamp = name, metav1.NewTime(at.Add(-time.Duration(age)*time.Second))
		change(&o)
		return o
	}
	keep := func(*v1alpha1.ServiceLevelObjective) {}
	all := []v1alpha1.ServiceLevelObjective{
		make("young", 1, keep), make("b", 10, keep), make("a", 10, keep),
		make("observes", 90, func(o *v1alpha1.ServiceLevelObjective) { o.Spec.Enforcement.Mode = v1alpha1.EnforcementObserve }),
		make("elsewhere", 80, func(o *v1alpha1.ServiceLevelObjective) { o.Spec.TargetRef.Name = "other" }),
		make("going", 70, func(o *v1alpha1.ServiceLevelObjective) { o.DeletionTimestamp = &metav1.Time{Time: at} }),
		make("cannot", 60, func(o *v1alpha1.ServiceLevelObjective) { o.Spec.LatencyMicroseconds = 5_000_000 }),
	}
	if got := enforce.Choose(s.target, all); got == nil || got.Name != "a" {
		t.Errorf("%+v", got)
	}
	if got := enforce.Choose(s.target, all[3:]); got != nil {
		t.Errorf("%s", got.Name)
	}
}

func TestAdmissionOfAnObjective(t *testing.T) {
	s := enforcing()
	s.slo.Spec.Percentile = "99.95"
	a, err := enforce.Admission(s.slo)
	if err != nil || a.PercentilePer100000 != 99950 || a.Controller != "Track" || a.LatencyMicroseconds != 1000 || len(a.DroppableClasses) != 6 {
		t.Fatalf("%+v %v", a, err)
	}
	s.slo.Spec.Enforcement = v1alpha1.Enforcement{Mode: v1alpha1.EnforcementDegrade, Controller: v1alpha1.ControllerAIAD, Classes: []v1alpha1.TrafficClass{
		{Policy: "Sticky", Droppable: v1alpha1.DroppableAllow}, {Policy: "Priority7", Droppable: v1alpha1.DroppableDeny}}}
	a, _ = enforce.Admission(s.slo)
	if want := []int{0, 1, 3, 4, 5, 6}; a.Mode != "Degrade" || a.Controller != "AIAD" || len(a.DroppableClasses) != len(want) {
		t.Fatalf("%+v", a)
	}
	if none, err := enforce.Admission(nil); none != nil || err != nil {
		t.Errorf("%v %v", none, err)
	}
}
