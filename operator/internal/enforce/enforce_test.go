// SPDX-License-Identifier: Apache-2.0

package enforce

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// aService with routers of its own, whose requests time out after 10 ms.
func aService() *v1alpha1.RpcService {
	s := &v1alpha1.RpcService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	s.Spec.RequestTimeoutMilliseconds = 10
	s.Spec.Router.Placement = v1alpha1.PlacementSoftware
	return s
}

// rejecting is an objective of it that is to be enforced, made so many seconds after others.
func rejecting(name string, after int64) v1alpha1.ServiceLevelObjective {
	slo := v1alpha1.ServiceLevelObjective{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.Unix(1000+after, 0)}}
	slo.Spec.TargetRef.Name, slo.Spec.Percentile, slo.Spec.LatencyMicroseconds = "cart", "99", 500
	slo.Spec.Enforcement.Mode = v1alpha1.EnforcementReject
	return slo
}

// An objective is enforced when it says so and is not on its way out.
func TestWanted(t *testing.T) {
	for mode, want := range map[v1alpha1.EnforcementMode]bool{"": false, v1alpha1.EnforcementObserve: false, v1alpha1.EnforcementReject: true, v1alpha1.EnforcementDegrade: true} {
		slo := rejecting("a", 0)
		if slo.Spec.Enforcement.Mode = mode; Wanted(&slo) != want {
			t.Errorf("%q: wanted %v", mode, !want)
		}
		slo.DeletionTimestamp = &metav1.Time{Time: time.Unix(2000, 0)}
		if Wanted(&slo) {
			t.Errorf("%q: wanted while it is deleted", mode)
		}
	}
}

// Who cannot enforce says so with the field that stands in the way: no router, a switch that marks nothing, servers that
// do not read marks, and an objective that lies above the timeout.
func TestRefusal(t *testing.T) {
	degrade := func(_ *v1alpha1.RpcService, slo *v1alpha1.ServiceLevelObjective) {
		slo.Spec.Enforcement.Mode = v1alpha1.EnforcementDegrade
	}
	for what, c := range map[string]struct {
		change func(*v1alpha1.RpcService, *v1alpha1.ServiceLevelObjective)
		reason string
		says   string
	}{
		"as it should be":   {nil, "", ""},
		"marked by routers": {degrade, "", ""},
		"over TCP": {func(s *v1alpha1.RpcService, _ *v1alpha1.ServiceLevelObjective) {
			s.Spec.Protocol = v1alpha1.ProtocolTCP
		},
			v1alpha1.ReasonNothingEnforces, "`spec.protocol` of RpcService cart is TCP"},
		"no router": {func(s *v1alpha1.RpcService, _ *v1alpha1.ServiceLevelObjective) {
			s.Spec.Router.Placement = v1alpha1.PlacementNone
		},
			v1alpha1.ReasonNothingEnforces, "`spec.router.placement` of RpcService cart is None"},
		"a switch that refuses": {func(s *v1alpha1.RpcService, _ *v1alpha1.ServiceLevelObjective) {
			s.Spec.Router.Placement = v1alpha1.PlacementSwitch
		}, "", ""},
		"a switch that is to mark": {func(s *v1alpha1.RpcService, slo *v1alpha1.ServiceLevelObjective) {
			s.Spec.Router.Placement = v1alpha1.PlacementSwitch
			degrade(s, slo)
		}, v1alpha1.ReasonNothingEnforces, "the switch's program can only refuse them"},
		"old servers": {func(s *v1alpha1.RpcService, _ *v1alpha1.ServiceLevelObjective) {
			s.Spec.LegacyPeers = v1alpha1.LegacyPeersAllow
		}, "", ""},
		"marks for old servers": {func(s *v1alpha1.RpcService, slo *v1alpha1.ServiceLevelObjective) {
			s.Spec.LegacyPeers = v1alpha1.LegacyPeersAllow
			degrade(s, slo)
		}, v1alpha1.ReasonNothingEnforces, "`spec.legacyPeers` of RpcService cart allows servers that cannot read it"},
		"at the timeout": {func(_ *v1alpha1.RpcService, slo *v1alpha1.ServiceLevelObjective) {
			slo.Spec.LatencyMicroseconds = 10_000
		}, "", ""},
		"above the timeout": {func(_ *v1alpha1.RpcService, slo *v1alpha1.ServiceLevelObjective) {
			slo.Spec.LatencyMicroseconds = 10_001
		}, v1alpha1.ReasonObjectiveBeyondTimeout, "above the request timeout"},
	} {
		s, slo := aService(), rejecting("a", 0)
		if c.change != nil {
			c.change(s, &slo)
		}
		if reason, message := Refusal(s, &slo); reason != c.reason || !strings.Contains(message, c.says) || (message == "") != (c.reason == "") {
			t.Errorf("%s: %q, %q", what, reason, message)
		}
	}
}

// The oldest of those that can be is enforced, of one second the one whose name comes first; what cannot be stands in
// nobody's way.
func TestChoose(t *testing.T) {
	elsewhere, ofAnother, watching, tooSlow, ofAGroup := rejecting("a", 0), rejecting("b", 0), rejecting("c", 0), rejecting("d", 0), rejecting("e", 0)
	elsewhere.Namespace, ofAnother.Spec.TargetRef.Name, watching.Spec.Enforcement.Mode, tooSlow.Spec.LatencyMicroseconds = "lab", "web", v1alpha1.EnforcementObserve, 1_000_000
	ofAGroup.Spec.TargetRef.Kind = v1alpha1.TargetGroup
	useless := []v1alpha1.ServiceLevelObjective{elsewhere, ofAnother, watching, tooSlow, ofAGroup}
	for _, c := range []struct {
		all  []v1alpha1.ServiceLevelObjective
		want string
	}{
		{nil, ""}, {useless, ""}, {append(slices.Clone(useless), rejecting("x", 9)), "x"},
		{[]v1alpha1.ServiceLevelObjective{rejecting("y", 2), rejecting("z", 1), rejecting("x", 3)}, "z"},
		{[]v1alpha1.ServiceLevelObjective{rejecting("z", 1), rejecting("x", 1), rejecting("y", 1)}, "x"},
		{[]v1alpha1.ServiceLevelObjective{rejecting("x", 1), rejecting("z", 1)}, "x"},
	} {
		got := ""
		if slo := Choose(aService(), c.all); slo != nil {
			got = slo.Name
		}
		if got != c.want {
			t.Errorf("of %d: %q, want %q", len(c.all), got, c.want)
		}
	}
}

// What routers are told: the controller that tracks unless another is asked for, the percentile in parts, and the classes
// that may be refused, of which those that must not be are left out unless somebody allows them.
func TestAdmission(t *testing.T) {
	if got, err := Admission(nil); got != nil || err != nil {
		t.Errorf("without an objective: %+v, %v", got, err)
	}
	slo := rejecting("a", 0)
	want := dataplane.Admission{Mode: "Reject", Controller: string(v1alpha1.ControllerTrack), LatencyMicroseconds: 500, PercentilePer100000: 99_000, DroppableClasses: []int{0, 3, 4, 5, 6, 7}}
	if got, err := Admission(&slo); err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	slo.Spec.Enforcement.Controller = v1alpha1.ControllerAIAD
	slo.Spec.Enforcement.Classes = []v1alpha1.TrafficClass{{Policy: "Sticky", Droppable: v1alpha1.DroppableAllow}, {Policy: "Priority5", Droppable: v1alpha1.DroppableDeny}, {Policy: "Unrestricted"}}
	want.Controller, want.DroppableClasses = string(v1alpha1.ControllerAIAD), []int{1, 3, 4, 6, 7}
	if got, err := Admission(&slo); err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	slo.Spec.Percentile = "most"
	if got, err := Admission(&slo); err == nil || got != nil || !strings.Contains(err.Error(), `percentile "most" of ServiceLevelObjective a`) {
		t.Errorf("%+v, %v", got, err)
	}
	for text, want := range map[string]int{"99": 99_000, "99.9": 99_900, "99.999": 99_999, "0.5": 500, "50": 50_000} {
		if got, ok := PercentilePer100000(text); !ok || got != want {
			t.Errorf("%s: %d, %v", text, got, ok)
		}
	}
	if _, ok := PercentilePer100000(""); ok {
		t.Error("nothing is a percentile")
	}
}

// A configuration names the objective that it enforces, and which version of it.
func TestSource(t *testing.T) {
	slo := rejecting("a", 0)
	slo.UID, slo.Generation = "u", 4
	if got := Source(&slo); got != (dataplane.Source{Kind: "ServiceLevelObjective", Namespace: "shop", Name: "a", UID: "u", Generation: 4}) {
		t.Errorf("%+v", got)
	}
}
