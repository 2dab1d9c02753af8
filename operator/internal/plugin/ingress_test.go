// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// Of several policies on a pod one that isolates is named, and one that admits is enough, whatever stands before it.
func TestPoliciesAddUp(t *testing.T) {
	policy := func(name string, change func(*networkingv1.NetworkPolicySpec)) networkingv1.NetworkPolicy {
		p := *isolating()
		p.Name = name
		change(&p.Spec)
		return p
	}
	closed := policy("closed", func(*networkingv1.NetworkPolicySpec) {})
	second := policy("second", func(*networkingv1.NetworkPolicySpec) {})
	untyped := policy("untyped", func(s *networkingv1.NetworkPolicySpec) { s.PolicyTypes = nil })
	open := policy("open", func(s *networkingv1.NetworkPolicySpec) { s.Ingress = []networkingv1.NetworkPolicyIngressRule{{}} })
	outgoing := policy("outgoing", func(s *networkingv1.NetworkPolicySpec) {
		s.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
	})
	others := policy("others", func(s *networkingv1.NetworkPolicySpec) { s.PodSelector.MatchLabels = map[string]string{"app": "db"} })
	bad := policy("bad", func(s *networkingv1.NetworkPolicySpec) {
		s.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
	})
	type list = []networkingv1.NetworkPolicy
	for name, c := range map[string]struct {
		policies list
		isolates string
		admitted bool
		failed   bool
	}{
		"none":                        {list{}, "", false, false},
		"only of others":              {list{outgoing, others}, "", false, false},
		"after those of others":       {list{outgoing, others, closed}, "closed", false, false},
		"the first is named":          {list{closed, second}, "closed", false, false},
		"without types it is ingress": {list{untyped}, "untyped", false, false},
		"one admits, first":           {list{open, closed}, "open", true, false},
		"one admits, last":            {list{closed, second, open}, "closed", true, false},
		"a selector nobody reads":     {list{closed, bad}, "", false, true},
	} {
		isolates, admitted, err := judge(aPod("web", ""), c.policies, aPod("cart-server-a", v1alpha1.ComponentServer), nil)
		if isolates != c.isolates || admitted != c.admitted || (err != nil) != c.failed {
			t.Errorf("%s: %q isolates, admitted %t, %v", name, isolates, admitted, err)
		}
	}
}
