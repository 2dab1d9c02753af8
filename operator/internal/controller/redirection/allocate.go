// SPDX-License-Identifier: Apache-2.0

// Who gets which addresses: one of each family a Service has.
package redirection

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// allocate gives every Service that may have addresses its own, in place, and says
// what stood against it, and which Services lack a family they only prefer to have.
// against is what stands against a Service besides what it says itself.
// An address that a Service has is kept; nobody else gets it.
func allocate(services []corev1.Service, nodes []corev1.Node, pool crabplan.Pool, against map[types.NamespacedName][]crabplan.Refusal) (refused, lacking map[types.NamespacedName][]crabplan.Refusal, given bool) {
	refused, lacking = map[types.NamespacedName][]crabplan.Refusal{}, map[types.NamespacedName][]crabplan.Refusal{}
	var wanting []*corev1.Service
	for i := range services {
		if s := &services[i]; !crabplan.WantsVIP(s) {
			continue
		} else if no := against[crabplan.Name(s)]; len(no) > 0 {
			refused[crabplan.Name(s)] = no
			s.Status.LoadBalancer.Ingress = nil
		} else if len(judgeAddress(s)) == 0 {
			wanting = append(wanting, s)
		} else {
			s.Status.LoadBalancer.Ingress = nil // what nobody serves is not published
		}
	}
	slices.SortFunc(wanting, func(a, b *corev1.Service) int { return crabplan.Older(a, b) })
	a := allocation{pool: pool, taken: takenBy(wanting, nodes, pool)}
	for _, s := range wanting {
		no, warned, news := a.serve(s)
		given = given || news
		if len(no) > 0 {
			refused[crabplan.Name(s)] = no
		}
		if len(warned) > 0 {
			lacking[crabplan.Name(s)] = warned
		}
	}
	return refused, lacking, given
}

// judgeAddress is what stands against the Service's addresses whoever has which.
func judgeAddress(s *corev1.Service) []crabplan.Refusal {
	alone := s.DeepCopy()
	delete(alone.Annotations, v1alpha1.AnnotationRedirect) // refused node ports take nobody's address
	return crabplan.Judge(alone)
}

// takenBy says who has which address: nodes, then Services, the older one first.
func takenBy(services []*corev1.Service, nodes []corev1.Node, pool crabplan.Pool) map[netip.Addr]string {
	taken := map[netip.Addr]string{}
	for _, n := range nodes {
		for _, a := range n.Status.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil {
				taken[addr] = "node " + n.Name
			}
		}
	}
	for _, s := range services {
		for _, addr := range crabplan.Addresses(s) {
			if _, other := taken[addr]; !other && pool.Contains(addr) {
				taken[addr] = crabplan.Name(s).String()
			}
		}
	}
	return taken
}

// allocation is the pool while it is given away.
type allocation struct {
	pool  crabplan.Pool
	taken map[netip.Addr]string
}

// had are the addresses that a Service has and that are its own.
func (a allocation) had(s *corev1.Service) map[corev1.IPFamily]netip.Addr {
	had := map[corev1.IPFamily]netip.Addr{}
	for _, family := range crabplan.Families(s) {
		if addr, have := crabplan.Address(s, family); have && a.taken[addr] == crabplan.Name(s).String() {
			had[family] = addr
		}
	}
	return had
}

// doesWithout tells whether a family that cannot be had is a lack, not a refusal.
func doesWithout(s *corev1.Service, had map[corev1.IPFamily]netip.Addr) bool {
	return policyOf(s) == corev1.IPFamilyPolicyPreferDualStack || len(had) > 0 && requires(s)
}

// serve gives one Service its addresses. One that requires both families and
// cannot have one of them gets nothing new; what it has it keeps, and goes on being
// served by, with a warning. One that prefers them is served by the other, with a
// warning.
func (a allocation) serve(s *corev1.Service) (refused, lacking []crabplan.Refusal, news bool) {
	had, want := a.had(s), map[corev1.IPFamily]netip.Addr{}
	wishes, refusal := wishesOf(s)
	if refusal != nil {
		return []crabplan.Refusal{*refusal}, nil, a.publish(s, had, had)
	}
	for _, family := range crabplan.Families(s) {
		addr, refusal := a.choose(s, family, wishes[family], had[family])
		if addr.IsValid() {
			want[family] = addr
		}
		switch {
		case refusal == nil:
		case refusal.Rule == v1alpha1.ReasonPoolExhausted && doesWithout(s, had):
			lacking = append(lacking, *refusal)
		default:
			refused = append(refused, *refusal)
		}
	}
	if len(want) == 0 { // there is no other family to be served by
		refused, lacking = append(refused, lacking...), nil
	}
	if len(refused)+len(lacking) > 0 && requires(s) {
		want = had
	}
	for i := range lacking {
		lacking[i].Rule = v1alpha1.ReasonFamilyMissing
		lacking[i].Message += "; " + meanwhile(s, had)
	}
	return refused, lacking, a.publish(s, had, want)
}

// meanwhile says by what a Service is served that lacks a family.
func meanwhile(s *corev1.Service, had map[corev1.IPFamily]netip.Addr) string {
	if !requires(s) {
		return "the Service is served by its other family alone, because its ipFamilyPolicy PreferDualStack only prefers both"
	}
	var kept []string
	for _, family := range crabplan.Families(s) {
		if had[family].IsValid() {
			kept = append(kept, had[family].String())
		}
	}
	return fmt.Sprintf("its ipFamilyPolicy RequireDualStack asks for both, and the Service goes on being served by %s alone, which it had before; until then set PreferDualStack or SingleStack if that is enough",
		strings.Join(kept, " and "))
}

func requires(s *corev1.Service) bool { return policyOf(s) == corev1.IPFamilyPolicyRequireDualStack }

func policyOf(s *corev1.Service) corev1.IPFamilyPolicy {
	if s.Spec.IPFamilyPolicy == nil {
		return corev1.IPFamilyPolicySingleStack
	}
	return *s.Spec.IPFamilyPolicy
}

// publish writes the addresses into the Service's status, those of its first family
// first, and says whether one of them is new.
func (a allocation) publish(s *corev1.Service, had, want map[corev1.IPFamily]netip.Addr) (news bool) {
	mode := corev1.LoadBalancerIPModeProxy // or kube-proxy answers for it on every node (C-44)
	s.Status.LoadBalancer.Ingress = nil
	for _, family := range crabplan.Families(s) {
		is, was := want[family], had[family]
		if was.IsValid() && is != was {
			delete(a.taken, was)
		}
		if !is.IsValid() {
			continue
		}
		a.taken[is] = crabplan.Name(s).String()
		news = news || is != was
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: is.String(), IPMode: &mode})
	}
	return news
}

// wishesOf are the addresses a Service asks for, at most one of each of its families.
func wishesOf(s *corev1.Service) (map[corev1.IPFamily]netip.Addr, *crabplan.Refusal) {
	source, text := "annotation "+v1alpha1.AnnotationVIP, s.Annotations[v1alpha1.AnnotationVIP]
	if text == "" {
		source, text = "spec.loadBalancerIP", s.Spec.LoadBalancerIP
	}
	out := map[corev1.IPFamily]netip.Addr{}
	no := func(format string, args ...any) (map[corev1.IPFamily]netip.Addr, *crabplan.Refusal) {
		return nil, &crabplan.Refusal{Service: crabplan.Name(s), Rule: v1alpha1.ReasonInvalidAnnotation, Message: fmt.Sprintf(format, args...)}
	}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		addr, err := netip.ParseAddr(part)
		family := crabplan.FamilyOf(addr)
		switch {
		case err != nil || addr.Zone() != "" || addr.Is4In6():
			return no("%s asks for %q, which is no IP address: name one address, or one of each family with a comma between them", source, part)
		case !slices.Contains(crabplan.Families(s), family):
			return no("%s asks for %s, and the Service has no %s: add that to ipFamilies, or ask for another address", source, addr, family)
		case out[family].IsValid():
			return no("%s asks for %s and %s, two addresses of %s: name one", source, out[family], addr, family)
		}
		out[family] = addr
	}
	return out, nil
}

// choose says which address of a family a Service should have: the one it asks for,
// the one it has, or a free one.
func (a allocation) choose(s *corev1.Service, family corev1.IPFamily, wish, had netip.Addr) (netip.Addr, *crabplan.Refusal) {
	name := crabplan.Name(s)
	no := func(rule, format string, args ...any) (netip.Addr, *crabplan.Refusal) {
		r := crabplan.Refusal{Service: name, Rule: rule, Message: fmt.Sprintf(format, args...)}
		if had.IsValid() {
			r.Message += fmt.Sprintf("; the Service keeps %s", had)
		}
		return had, &r
	}
	if !wish.IsValid() {
		if had.IsValid() {
			return had, nil
		}
		if addr, ok := a.pool.Choose(name.String(), family, func(addr netip.Addr) bool { return a.taken[addr] != "" }); ok {
			return addr, nil
		}
		if a.pool.Size(family) == 0 {
			return no(v1alpha1.ReasonPoolExhausted, "the pool %s has no %s addresses: add some to crab.vipPool of the chart", a.pool, family)
		}
		return no(v1alpha1.ReasonPoolExhausted, "all %d %s addresses of the pool %s are taken: enlarge crab.vipPool of the chart, or delete a Service of class %s",
			a.pool.Size(family), family, a.pool, v1alpha1.LoadBalancerClass)
	}
	switch by := a.taken[wish]; {
	case !a.pool.Contains(wish):
		return no(v1alpha1.ReasonOutsidePool, "the address %s asked for is not in the pool %s: ask for one of it, or change crab.vipPool of the chart", wish, a.pool)
	case by != "" && by != name.String():
		return no(v1alpha1.ReasonAddressTaken, "the address %s asked for belongs to %s: ask for another one, or for none", wish, by)
	}
	return wish, nil
}
