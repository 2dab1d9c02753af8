// SPDX-License-Identifier: Apache-2.0

// What becomes of every Service that CRAB has to do with: its address, and what
// its conditions say. Pure, and about all Services at once, because they share
// one pool and the tables of the nodes.
package redirection

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// snapshot is what gather has seen.
type snapshot struct {
	services []corev1.Service
	slices   []discoveryv1.EndpointSlice
	nodes    []corev1.Node
	agents   []v1alpha1.NodeDataplane
	rpc      []v1alpha1.RpcService
	pool     crabplan.Pool
	// absent are the agents nobody waits for; next is when one more will be.
	absent map[string]bool
	next   time.Duration
}

// decision is what one Service's status should say.
type decision struct {
	service *corev1.Service // with the address it should have
	// vips are those of its addresses that a switch redirects.
	vips []crabplan.VIP
	// released: CRAB has nothing to do with it any more.
	released             bool
	accepted, programmed verdict.Verdict
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
	refused, lacking, given := allocate(in.Services, s.nodes, s.pool, againstDevices(in.Services, s.rpc))
	plan := crabplan.Make(in)
	for _, r := range plan.Refusals {
		refused[r.Service] = append(refused[r.Service], r)
	}
	excluded, switched := map[types.NamespacedName][]crabplan.VIP{}, map[types.NamespacedName][]crabplan.VIP{}
	for _, v := range plan.VIPs {
		if v.Switch != "" {
			switched[v.Service] = append(switched[v.Service], v)
		}
		if v.Excluded+v.Cut > 0 {
			excluded[v.Service] = append(excluded[v.Service], v)
		}
	}
	for i := range in.Services {
		service := &in.Services[i]
		name := crabplan.Name(service)
		d := decision{service: service, vips: switched[name], accepted: decideAccepted(refused[name], excluded[name], lacking[name])}
		d.programmed = decideProgrammed(service, d.accepted, s.agents, s.absent)
		out = append(out, d)
	}
	return append(out, gone...), given
}

func decideAccepted(refused []crabplan.Refusal, excluded []crabplan.VIP, lacking []crabplan.Refusal) verdict.Verdict {
	if len(refused) > 0 {
		var messages []string
		for _, r := range refused {
			if !slices.Contains(messages, r.Message) {
				messages = append(messages, r.Message)
			}
		}
		return verdict.No(refused[0].Rule, strings.Join(messages, "; "))
	}
	if len(excluded) > 0 {
		v := excluded[0]
		message := fmt.Sprintf("port %d: %d endpoints listen on another port and get no connections (C-6); let all pods listen on %d", v.Port, v.Excluded, v.Port)
		if v.Excluded == 0 {
			message = fmt.Sprintf("port %d: a pool holds %d servers, %d more get no connections; use a second Service", v.Port, crabplan.MaxBackends, v.Cut)
		}
		return verdict.Yes(v1alpha1.ReasonEndpointsExcluded, message)
	}
	if len(lacking) > 0 {
		return verdict.Yes(lacking[0].Rule, lacking[0].Message)
	}
	return verdict.Yes(v1alpha1.ReasonAccepted, "CRAB serves this Service")
}

// named is how many nodes a message names.
const named = 5

// decideProgrammed compares what the agents acknowledge with the Service; those that
// are absent need not.
func decideProgrammed(service *corev1.Service, accepted verdict.Verdict, agents []v1alpha1.NodeDataplane, absent map[string]bool) verdict.Verdict {
	switch {
	case accepted.Status != metav1.ConditionTrue:
		return verdict.No(v1alpha1.ReasonNotAccepted, accepted.Message)
	case len(agents) == 0:
		return verdict.No(v1alpha1.ReasonNoAgents, "no node has an agent: is the DaemonSet bobtail-agent running?")
	}
	t := tally{}
	for i := range agents {
		t.add(service, &agents[i], absent[agents[i].Name])
	}
	v := t.verdict(len(agents) - t.leftOut)
	if t.leftOut > 0 {
		v.Message += fmt.Sprintf("; left out: %d, whose nodes are deleted or have not been Ready for %s", t.leftOut, deadAfter)
	}
	return v
}

// tally is what the agents say of one Service.
type tally struct {
	waiting, refusals, fallBacks []string
	leftOut                      int
}

func (t *tally) add(service *corev1.Service, a *v1alpha1.NodeDataplane, absent bool) {
	if !absent {
		t.fallBacks = append(t.fallBacks, fallBacksOf(service, a)...)
	}
	if acknowledges(service, a) {
		return
	}
	why := rejection(a)
	switch {
	case absent:
		t.leftOut++
	case why != "":
		t.refusals = append(t.refusals, a.Name+": "+why)
	default:
		t.waiting = append(t.waiting, a.Name)
	}
}

// verdict of so many agents.
func (t *tally) verdict(agents int) verdict.Verdict {
	switch {
	case agents == 0:
		return verdict.No(v1alpha1.ReasonNoAgents, "no node that could serve it is there")
	case len(t.refusals) > 0:
		return verdict.No(v1alpha1.ReasonRejected, list(t.refusals))
	case len(t.waiting) > 0:
		return verdict.No(v1alpha1.ReasonReconciling, fmt.Sprintf("%d of %d nodes have yet to acknowledge: %s", len(t.waiting), agents, list(t.waiting)))
	case len(t.fallBacks) > 0:
		return verdict.Yes(v1alpha1.ReasonFallingBack, list(t.fallBacks))
	}
	return verdict.Yes(v1alpha1.ReasonProgrammed, fmt.Sprintf("%d nodes acknowledge it", agents))
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
	revision, held := crabplan.Revision(service), map[netip.AddrPort]bool{}
	for _, v := range entriesOf(service, a) {
		addr, err := netip.ParseAddr(v.Address)
		if v.Revision != revision || err != nil {
			return false
		}
		held[netip.AddrPortFrom(addr, uint16(v.Port))] = true
	}
	return !crabplan.Missing(service, held)
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
			at := net.JoinHostPort(v.Address, strconv.Itoa(int(v.Port)))
			out = append(out, fmt.Sprintf("%s on %s: %s", at, a.Name, v.FallBack))
		}
	}
	return out
}
