// SPDX-License-Identifier: Apache-2.0

package redirection

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

func bySwitch(name string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationSwitch] = name }
}

// What the switch says stands in the Service's conditions, by name.
func TestConditionsOfASwitchedService(t *testing.T) {
	s := service("web", 1, "192.0.2.1", bySwitch("leaf"))
	held := v1alpha1.SwitchService{Namespace: "shop", Name: "web", ConfigHash: crabplan.Revision(&s), Workers: 2}
	older, far, refused := held, held, held
	older.ConfigHash = "older"
	far.UnreachableWorkers = []string{"172.16.0.9"}
	refused.Reason, refused.Message = v1alpha1.ReasonOtherProgram, "the switch runs Bobtail's program \"router\""
	for name, row := range map[string]struct {
		answer *v1alpha1.SwitchService
		there  bool
		want   string
	}{
		"no switch":   {nil, false, "False SwitchNotFound, False NotAccepted"},
		"not asked":   {nil, true, "True Accepted, False SwitchNotProgrammed"},
		"not written": {&older, true, "True Accepted, False SwitchNotProgrammed"},
		"refused":     {&refused, true, "False OtherProgram, False NotAccepted"},
		"unreachable": {&far, true, "True EndpointsExcluded, True Programmed"},
		"held":        {&held, true, "True Accepted, True Programmed"},
	} {
		board := switchboard.New()
		if row.there {
			var all []v1alpha1.SwitchService
			if row.answer != nil {
				all = append(all, *row.answer)
			}
			board.Answer("leaf", all, true)
		}
		d := withSwitch(decision{service: &s, accepted: verdict.Yes(v1alpha1.ReasonAccepted, "served"), programmed: verdict.Yes(v1alpha1.ReasonProgrammed, "3 nodes")}, board)
		got := string(d.accepted.Status) + " " + d.accepted.Reason + ", " + string(d.programmed.Status) + " " + d.programmed.Reason
		if got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
		if name == "held" && !strings.Contains(d.programmed.Message, "ProgrammableSwitch leaf holds it with 2 servers") {
			t.Error(d.programmed.Message)
		}
	}
	waiting := withSwitch(decision{service: &s, accepted: verdict.Yes(v1alpha1.ReasonAccepted, ""), programmed: verdict.No(v1alpha1.ReasonReconciling, "nodes")}, func() *switchboard.Board {
		b := switchboard.New()
		b.Answer("leaf", nil, true)
		return b
	}())
	if waiting.programmed.Reason != v1alpha1.ReasonReconciling {
		t.Errorf("what the nodes lack is not told: %+v", waiting.programmed)
	}
}

// What a switch could never do is refused before it is asked.
func TestRefusedBeforeASwitch(t *testing.T) {
	for want, change := range map[string]func(*corev1.Service){
		v1alpha1.ReasonIPv6OnSwitch: func(s *corev1.Service) {
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		},
		v1alpha1.ReasonInvalidAnnotation: func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationPolicy] = "Least" },
		v1alpha1.ReasonInvalidAnnotation + " ": func(s *corev1.Service) {
			s.Annotations[v1alpha1.AnnotationSwitch] = "Not_a_name"
		},
		v1alpha1.ReasonInvalidAnnotation + "  ": func(s *corev1.Service) {
			s.Spec.LoadBalancerClass, s.Spec.Type = nil, corev1.ServiceTypeNodePort
			s.Annotations[v1alpha1.AnnotationRedirect] = "enabled"
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		},
	} {
		s := service("web", 1, "192.0.2.1", bySwitch("leaf"))
		change(&s)
		out, _ := decide(snapshot{services: []corev1.Service{s}, pool: pool(t, "192.0.2.0/28")})
		if len(out) != 1 || out[0].accepted.Status != metav1.ConditionFalse || out[0].accepted.Reason != strings.TrimSpace(want) || len(out[0].vips) != 0 ||
			!strings.Contains(out[0].accepted.Message, v1alpha1.AnnotationSwitch) {
			t.Errorf("%s: %+v", want, out)
		}
	}
	s := service("web", 1, "192.0.2.1", bySwitch("leaf"))
	out, _ := decide(snapshot{services: []corev1.Service{s, service("other", 2, "192.0.2.2", nil)}, pool: pool(t, "192.0.2.0/28")})
	if len(out[0].vips) != 1 || out[0].vips[0].Switch != "leaf" || len(out[1].vips) != 0 {
		t.Errorf("%+v", out)
	}
	plain := service("web", 1, "192.0.2.1", nil)
	if crabplan.Revision(&s) == crabplan.Revision(&plain) {
		t.Error("nodes need not acknowledge that a switch has the address now")
	}
}
