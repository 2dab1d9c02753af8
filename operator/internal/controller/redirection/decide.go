// SPDX-License-Identifier: Apache-2.0

// What becomes of every Service that CRAB has to do with: its address, and what
// its conditions say. Pure, and about all Services at once, because they share
// one pool and the tables of the nodes.
package redirection

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

type verdict struct {
	status  metav1.ConditionStatus
	reason  string
	message string
}

// snapshot is what gather has seen.
type snapshot struct {
	services []corev1.Service
	slices   []discoveryv1.EndpointSlice
	nodes    []corev1.Node
	agents   []v1alpha1.NodeDataplane
	pool     crabplan.Pool
}

// decision is what one Service's status should say.
type decision struct {
	service *corev1.Service // with the address it should have
	// released: CRAB has nothing to do with it any more.
	released             bool
	accepted, programmed verdict
}

// decide decides about all of them; given says that an address was newly chosen,
// which is to be done on what the API server itself says.
func decide(s snapshot) (out []decision, given bool) {
	in := crabplan.Input{Slices: s.slices, Nodes: s.nodes, Pool: s.pool}
	var gone []decision
	for i := range s.services {
		service := s.services[i].DeepCopy()
		if crabplan.Concerns(service) {
			in.Services = append(in.Services, *service)
		} else {
			gone = append(gone, decision{service: service, released: true})
		}
	}
	refused, given := allocate(in.Services, s.nodes, s.pool)
	plan := crabplan.Make(in)
	for _, r := range plan.Refusals {
		refused[r.Service] = append(refused[r.Service], r)
	}
	excluded := map[types.NamespacedName][]crabplan.VIP{}
	for _, v := range plan.VIPs {
		if v.Excluded+v.Cut > 0 {
			excluded[v.Service] = append(excluded[v.Service], v)
		}
	}
	for i := range in.Services {
		service := &in.Services[i]
		name := crabplan.Name(service)
		d := decision{service: service, accepted: decideAccepted(service, refused[name], excluded[name])}
		d.programmed = decideProgrammed(service, d.accepted, s.agents)
		out = append(out, d)
	}
	return append(out, gone...), given
}

func decideAccepted(service *corev1.Service, refused []crabplan.Refusal, excluded []crabplan.VIP) verdict {
	if len(refused) > 0 {
		var messages []string
		for _, r := range refused {
			if !slices.Contains(messages, r.Message) {
				messages = append(messages, r.Message)
			}
		}
		return verdict{metav1.ConditionFalse, refused[0].Rule, strings.Join(messages, "; ")}
	}
	if len(excluded) > 0 {
		v := excluded[0]
		message := fmt.Sprintf("port %d: %d endpoints listen on another port and get no connections (C-6); let all pods listen on %d", v.Port, v.Excluded, v.Port)
		if v.Excluded == 0 {
			message = fmt.Sprintf("port %d: a pool holds %d servers, %d more get no connections; use a second Service", v.Port, crabplan.MaxBackends, v.Cut)
		}
		return verdict{metav1.ConditionTrue, v1alpha1.ReasonEndpointsExcluded, message}
	}
	if slices.Contains(service.Spec.IPFamilies, corev1.IPv6Protocol) {
		return verdict{metav1.ConditionTrue, v1alpha1.ReasonIPv4Only,
			"the Service is dual-stack and gets an IPv4 address only, because CRAB serves Services by IPv4 (C-9); IPv6 clients reach it by its ClusterIP: set ipFamilyPolicy SingleStack if none should"}
	}
	return verdict{metav1.ConditionTrue, v1alpha1.ReasonAccepted, "CRAB serves this Service"}
}

// named is how many nodes a message names.
const named = 5

// decideProgrammed compares what the agents acknowledge with the Service.
func decideProgrammed(service *corev1.Service, accepted verdict, agents []v1alpha1.NodeDataplane) verdict {
	switch {
	case accepted.status != metav1.ConditionTrue:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonNotAccepted, accepted.message}
	case len(agents) == 0:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonNoAgents, "no node has an agent: is the DaemonSet bobtail-agent running?"}
	}
	var waiting, refusals, fallBacks []string
	for i := range agents {
		a := &agents[i]
		fallBacks = append(fallBacks, fallBacksOf(service, a)...)
		if acknowledges(service, a) {
			continue
		}
		if why := rejection(a); why != "" {
			refusals = append(refusals, a.Name+": "+why)
			continue
		}
		waiting = append(waiting, a.Name)
	}
	switch {
	case len(refusals) > 0:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonRejected, list(refusals)}
	case len(waiting) > 0:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonReconciling,
			fmt.Sprintf("%d of %d nodes have yet to acknowledge: %s", len(waiting), len(agents), list(waiting))}
	case len(fallBacks) > 0:
		return verdict{metav1.ConditionTrue, v1alpha1.ReasonFallingBack, list(fallBacks)}
	}
	return verdict{metav1.ConditionTrue, v1alpha1.ReasonProgrammed, fmt.Sprintf("%d nodes acknowledge it", len(agents))}
}

func list(texts []string) string {
	slices.Sort(texts)
	if len(texts) <= named {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:named], ", "), len(texts)-named)
}

// acknowledges says that the maps of a node hold every port of the Service as it
// is now, and none as it was.
func acknowledges(service *corev1.Service, a *v1alpha1.NodeDataplane) bool {
	revision, held := crabplan.Revision(service), map[int32]bool{}
	for _, v := range entriesOf(service, a) {
		if v.Revision != revision {
			return false
		}
		held[v.Port] = true
	}
	return !slices.ContainsFunc(crabplan.Ports(service), func(p int32) bool { return !held[p] })
}

func entriesOf(service *corev1.Service, a *v1alpha1.NodeDataplane) []v1alpha1.NodeVIP {
	var out []v1alpha1.NodeVIP
	for _, v := range a.Status.VIPs {
		if v.Namespace == service.Namespace && v.Service == service.Name {
			out = append(out, v)
		}
	}
	return out
}

// rejection is why a node cannot have what it is asked for.
func rejection(a *v1alpha1.NodeDataplane) string {
	for _, c := range a.Status.Conditions {
		if c.Type == v1alpha1.ConditionProgrammed && c.Status == metav1.ConditionFalse && c.Reason != v1alpha1.ReasonReconciling {
			return c.Message
		}
	}
	return ""
}

func fallBacksOf(service *corev1.Service, a *v1alpha1.NodeDataplane) []string {
	var out []string
	for _, v := range entriesOf(service, a) {
		if v.FallBack != "" {
			out = append(out, fmt.Sprintf("%s:%d on %s: %s", v.Address, v.Port, a.Name, v.FallBack))
		}
	}
	return out
}

// allocate gives every Service that may have an address one, in place, and says
// what stood against it. An address that a Service has is kept; nobody else gets it.
func allocate(services []corev1.Service, nodes []corev1.Node, pool crabplan.Pool) (map[types.NamespacedName][]crabplan.Refusal, bool) {
	refused, given := map[types.NamespacedName][]crabplan.Refusal{}, false
	var wanting []*corev1.Service
	for i := range services {
		if s := &services[i]; !crabplan.WantsVIP(s) {
			continue
		} else if len(judgeAddress(s)) == 0 {
			wanting = append(wanting, s)
		} else {
			s.Status.LoadBalancer.Ingress = nil // what nobody serves is not published
		}
	}
	slices.SortFunc(wanting, func(a, b *corev1.Service) int { return crabplan.Older(a, b) })
	taken := takenBy(wanting, nodes, pool)
	for _, s := range wanting {
		had, have := crabplan.Address(s)
		if have && taken[had] != crabplan.Name(s).String() {
			have = false
		}
		addr, refusal := choose(s, had, have, pool, taken)
		if refusal != nil {
			refused[refusal.Service] = append(refused[refusal.Service], *refusal)
		}
		if have && addr != had {
			delete(taken, had)
		}
		if !addr.IsValid() {
			s.Status.LoadBalancer.Ingress = nil
			continue
		}
		taken[addr] = crabplan.Name(s).String()
		given = given || !have || addr != had
		mode := corev1.LoadBalancerIPModeProxy // or kube-proxy answers for it on every node (C-44)
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: addr.String(), IPMode: &mode}}
	}
	return refused, given
}

// judgeAddress is what stands against the Service's address whoever has which.
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
		addr, have := crabplan.Address(s)
		if _, other := taken[addr]; have && !other && pool.Contains(addr) {
			taken[addr] = crabplan.Name(s).String()
		}
	}
	return taken
}

// choose says which address a Service should have: the one it asks for, the one it
// has, or a free one.
func choose(s *corev1.Service, had netip.Addr, have bool, pool crabplan.Pool, taken map[netip.Addr]string) (netip.Addr, *crabplan.Refusal) {
	keep := netip.Addr{}
	if have {
		keep = had
	}
	no := func(rule, format string, args ...any) (netip.Addr, *crabplan.Refusal) {
		r := crabplan.Refusal{Service: crabplan.Name(s), Rule: rule, Message: fmt.Sprintf(format, args...)}
		if have {
			r.Message += fmt.Sprintf("; the Service keeps %s", had)
		}
		return keep, &r
	}
	wish := cmp.Or(s.Annotations[v1alpha1.AnnotationVIP], s.Spec.LoadBalancerIP)
	if wish == "" {
		if have {
			return had, nil
		}
		if addr, ok := pool.Choose(crabplan.Name(s).String(), func(a netip.Addr) bool { return taken[a] != "" }); ok {
			return addr, nil
		}
		return no(v1alpha1.ReasonPoolExhausted, "all %d addresses of the pool %s are taken: enlarge crab.vipPool of the chart, or delete a Service of class %s", pool.Size(), pool, v1alpha1.LoadBalancerClass)
	}
	addr, err := netip.ParseAddr(wish)
	switch by := taken[addr]; {
	case err != nil || !addr.Is4():
		return no(v1alpha1.ReasonInvalidAnnotation, "the address %q asked for (annotation %s, or spec.loadBalancerIP) is no IPv4 address", wish, v1alpha1.AnnotationVIP)
	case !pool.Contains(addr):
		return no(v1alpha1.ReasonOutsidePool, "the address %s asked for is not in the pool %s: ask for one of it, or change crab.vipPool of the chart", addr, pool)
	case by != "" && by != crabplan.Name(s).String():
		return no(v1alpha1.ReasonAddressTaken, "the address %s asked for belongs to %s: ask for another one, or for none", addr, by)
	}
	return addr, nil
}
