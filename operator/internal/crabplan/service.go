// SPDX-License-Identifier: Apache-2.0

package crabplan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabwords"
)

const (
	redirectEnabled = "enabled"
	maxNodeWeight   = 100
)

// WantsVIP says that a Service asks for an address of the pool.
func WantsVIP(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass != nil && *s.Spec.LoadBalancerClass == v1alpha1.LoadBalancerClass
}

// WantsRedirect says that a Service asks for redirected node ports.
func WantsRedirect(s *corev1.Service) bool { return s.Annotations[v1alpha1.AnnotationRedirect] != "" }

// Concerns says that CRAB has to do with a Service at all.
func Concerns(s *corev1.Service) bool { return WantsVIP(s) || WantsRedirect(s) }

// options are what annotations say.
type options struct {
	policy  string
	weights map[string]uint16 // by node
}

func readOptions(s *corev1.Service) (options, []Refusal) {
	o := options{policy: crabwords.Policies[0], weights: map[string]uint16{}}
	var refused []Refusal
	bad := func(name, what string) {
		refused = append(refused, refuse(s, v1alpha1.ReasonInvalidAnnotation, fmt.Sprintf("annotation %s: %s", name, what)))
	}
	if v := s.Annotations[v1alpha1.AnnotationRedirect]; v != "" && v != redirectEnabled {
		bad(v1alpha1.AnnotationRedirect, fmt.Sprintf("%q must be %q, or the annotation removed", v, redirectEnabled))
	}
	if v, there := s.Annotations[v1alpha1.AnnotationPolicy]; there {
		if o.policy = v; !slices.Contains(crabwords.Policies, v) {
			bad(v1alpha1.AnnotationPolicy, fmt.Sprintf("%q is none of %s", v, strings.Join(crabwords.Policies, ", ")))
		}
	}
	for _, pair := range strings.Split(s.Annotations[v1alpha1.AnnotationNodeWeights], ",") {
		node, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		w, err := strconv.ParseUint(value, 10, 16)
		if node == "" && value == "" {
			continue
		}
		if err != nil || node == "" || w < 1 || w > maxNodeWeight {
			bad(v1alpha1.AnnotationNodeWeights, fmt.Sprintf("%q must be NODE=WEIGHT with a weight of 1 to %d", pair, maxNodeWeight))
			continue
		}
		o.weights[node] = uint16(w)
	}
	return o, append(refused, judgeSwitch(s, o)...)
}

func (o options) weight(node string) uint16 { return max(o.weights[node], 1) }

// switchPolicies are those that a switch can follow: it knows no loads, and has one set of turns (dataplane/p4/crab).
var switchPolicies = []string{crabwords.RoundRobin, crabwords.Random}

// judgeSwitch says what stands against a switch that redirects, whatever the switch itself is.
func judgeSwitch(s *corev1.Service, o options) []Refusal {
	name, asked := s.Annotations[v1alpha1.AnnotationSwitch]
	if !asked {
		return nil
	}
	var out []Refusal
	add := func(rule, format string, args ...any) {
		out = append(out, refuse(s, rule, "annotation "+v1alpha1.AnnotationSwitch+": "+fmt.Sprintf(format, args...)))
	}
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		add(v1alpha1.ReasonInvalidAnnotation, "%q is no name of a ProgrammableSwitch", name)
	}
	if !WantsVIP(s) {
		add(v1alpha1.ReasonInvalidAnnotation, "a switch redirects connections to an address of the pool: make the Service one of type LoadBalancer with loadBalancerClass %s, or remove the annotation", v1alpha1.LoadBalancerClass)
	}
	if slices.Contains(Families(s), corev1.IPv6Protocol) {
		add(v1alpha1.ReasonIPv6OnSwitch, "the switch's program knows IPv4 alone: set ipFamilies to [IPv4], or remove the annotation")
	}
	if !slices.Contains(switchPolicies, o.policy) {
		add(v1alpha1.ReasonInvalidAnnotation, "with it annotation %s must be %s, and is %q: a switch hears nothing of loads", v1alpha1.AnnotationPolicy, strings.Join(switchPolicies, " or "), o.policy)
	}
	return out
}

// Judge says what stands against a Service whatever its pods and its address.
func Judge(s *corev1.Service) []Refusal {
	_, refused := readOptions(s)
	if WantsVIP(s) {
		refused = append(refused, judgeVIP(s)...)
	}
	if WantsRedirect(s) {
		refused = append(refused, judgeRedirect(s)...)
	}
	return refused
}

func judgeVIP(s *corev1.Service) []Refusal {
	out := judgeCommon(s)
	for _, p := range s.Spec.Ports {
		// Without a selector somebody else writes the slices, and only they count.
		translated := p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal != 0 && p.TargetPort.IntVal != p.Port
		if translated && len(s.Spec.Selector) > 0 {
			out = append(out, refuse(s, v1alpha1.ReasonPortTranslation, fmt.Sprintf(
				"port %s has targetPort %d: clients talk to the pods directly, so both must be the same (C-6); let the pods listen on %d, or change the port",
				portName(p), p.TargetPort.IntVal, p.Port)))
		}
	}
	return out
}

func judgeRedirect(s *corev1.Service) []Refusal {
	if !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort != 0 }) {
		return []Refusal{refuse(s, v1alpha1.ReasonNoNodePort, fmt.Sprintf(
			"the Service (type %s) has no node port to redirect: make it one of type NodePort, or remove the annotation %s", typeOf(s), v1alpha1.AnnotationRedirect))}
	}
	out := judgeCommon(s)
	if s.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		out = append(out, refuse(s, v1alpha1.ReasonExternalTrafficPolicy,
			"redirected node ports need externalTrafficPolicy: Local; with Cluster the chosen node may pass the connection on to a pod elsewhere"))
	}
	return out
}

func judgeCommon(s *corev1.Service) []Refusal {
	var out []Refusal
	add := func(rule, format string, args ...any) {
		out = append(out, refuse(s, rule, fmt.Sprintf(format, args...)))
	}
	for _, p := range s.Spec.Ports {
		if p.Protocol != "" && p.Protocol != corev1.ProtocolTCP {
			add(v1alpha1.ReasonProtocolNotTCP, "port %s is %s, and redirection is an option of TCP (C-20): put it into a Service of its own", portName(p), p.Protocol)
		}
	}
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		add(v1alpha1.ReasonSessionAffinity, "sessionAffinity: ClientIP cannot be kept, every policy looks at connections (Hash includes the client's port): set None")
	}
	if len(s.Spec.LoadBalancerSourceRanges) > 0 {
		add(v1alpha1.ReasonSourceRanges, "loadBalancerSourceRanges cannot be enforced, because the balancer sees SYNs only: remove them and write a NetworkPolicy for the pods")
	}
	return out
}

func portName(p corev1.ServicePort) string {
	if p.Name != "" {
		return fmt.Sprintf("%q (%d)", p.Name, p.Port)
	}
	return strconv.Itoa(int(p.Port))
}

func typeOf(s *corev1.Service) corev1.ServiceType {
	if s.Spec.ClusterIP == corev1.ClusterIPNone {
		return "headless " + s.Spec.Type
	}
	return s.Spec.Type
}

// Families are those a Service has, the first one first; the API server leaves
// none out, and who does means IPv4.
func Families(s *corev1.Service) []corev1.IPFamily {
	if len(s.Spec.IPFamilies) == 0 {
		return []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return s.Spec.IPFamilies
}

// Address is the address of a family that a Service's status publishes, if it is
// one that kube-proxy leaves alone (C-44).
func Address(s *corev1.Service, family corev1.IPFamily) (netip.Addr, bool) {
	for _, i := range s.Status.LoadBalancer.Ingress {
		addr, err := netip.ParseAddr(i.IP)
		if err == nil && FamilyOf(addr) == family && i.IPMode != nil && *i.IPMode == corev1.LoadBalancerIPModeProxy {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// Addresses are those of all its families, in their order.
func Addresses(s *corev1.Service) []netip.Addr {
	var out []netip.Addr
	for _, family := range Families(s) {
		if addr, have := Address(s, family); have {
			out = append(out, addr)
		}
	}
	return out
}

// loadBalancer plans the entries of the Service's addresses: none before it has one.
func loadBalancer(s *corev1.Service, of []discoveryv1.EndpointSlice, o options, pool Pool, taken map[netip.Addr]string) ([]VIP, []Refusal) {
	if refused := judgeVIP(s); len(refused) > 0 {
		return nil, refused
	}
	var out []VIP
	var refused []Refusal
	for _, addr := range Addresses(s) {
		if !pool.Contains(addr) {
			refused = append(refused, refuse(s, v1alpha1.ReasonOutsidePool, fmt.Sprintf("address %s is not in the pool %s", addr, pool)))
			continue
		}
		if by, no := taken[addr]; no {
			refused = append(refused, refuse(s, v1alpha1.ReasonAddressTaken, fmt.Sprintf("address %s belongs to %s", addr, by)))
			continue
		}
		taken[addr] = "Service " + Name(s).String()
		add, no := portsOf(s, ofFamily(of, FamilyOf(addr)), o, addr)
		out, refused = append(out, add...), append(refused, no...)
	}
	return out, refused
}

// keepsClients says that a Service promises its servers their clients' addresses.
func keepsClients(s *corev1.Service) bool {
	return s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// portsOf plans the entries of one address.
func portsOf(s *corev1.Service, of []discoveryv1.EndpointSlice, o options, addr netip.Addr) ([]VIP, []Refusal) {
	var out []VIP
	for _, p := range s.Spec.Ports {
		servers := podsOf(of, p, o)
		if len(servers.backends) == 0 && servers.excluded > 0 {
			return nil, []Refusal{refuse(s, v1alpha1.ReasonPortTranslation, fmt.Sprintf(
				"port %s: all %d endpoints listen on another port, %d, and clients talk to the pods directly (C-6); let the pods listen on %d, or change the port",
				portName(p), servers.excluded, servers.other, p.Port))}
		}
		out = append(out, VIP{
			Addr: addr, Port: uint16(p.Port), Kind: LoadBalancer, KeepsClients: keepsClients(s), Backends: servers.backends, Excluded: servers.excluded, Cut: servers.cut,
		})
	}
	return out, nil
}

// nodePorts plans one entry for each node, family and port. Every node is an
// address that clients dial; those with pods are the servers, on the same port (C-6).
func nodePorts(s *corev1.Service, of []discoveryv1.EndpointSlice, o options, nodes Nodes) ([]VIP, []Refusal) {
	if refused := judgeRedirect(s); len(refused) > 0 {
		return nil, refused
	}
	var out []VIP
	for _, family := range Families(s) {
		out = append(out, nodePortsOf(s, ofFamily(of, family), o, nodes.Of(family))...)
	}
	if len(out) == 0 && len(nodes) > 0 {
		return nil, []Refusal{refuse(s, v1alpha1.ReasonNoNodeAddress, fmt.Sprintf(
			"the Service is %s, and no node has an InternalIP of that family to redirect: give nodes one, or add a family to ipFamilies", Families(s)[0]))}
	}
	return out, nil
}

func nodePortsOf(s *corev1.Service, of []discoveryv1.EndpointSlice, o options, nodes map[string]netip.Addr) []VIP {
	var out []VIP
	for _, p := range s.Spec.Ports {
		if p.NodePort == 0 {
			continue
		}
		servers, cut := nodesOf(of, p, o, nodes)
		for name, addr := range nodes {
			v := VIP{Addr: addr, Port: uint16(p.NodePort), Kind: NodePort, Node: name, Cut: cut}
			for _, b := range servers {
				if b.Node == name {
					v.Local = b.State == Ready
					continue
				}
				v.Backends = append(v.Backends, b)
			}
			out = append(out, v)
		}
	}
	return out
}

// Ports are those that the nodes' tables should have for a Service.
func Ports(s *corev1.Service) []int32 {
	var out []int32
	for _, p := range s.Spec.Ports {
		if WantsVIP(s) {
			out = append(out, p.Port)
		}
		if WantsRedirect(s) && p.NodePort != 0 {
			out = append(out, p.NodePort)
		}
	}
	return out
}

// Missing says whether a node's table lacks a port of the Service: one of its
// addresses with it, or a node port of any node's address.
func Missing(s *corev1.Service, held map[netip.AddrPort]bool) bool {
	ports := map[uint16]bool{}
	for at := range held {
		ports[at.Port()] = true
	}
	for _, p := range s.Spec.Ports {
		if WantsRedirect(s) && p.NodePort != 0 && !ports[uint16(p.NodePort)] || WantsVIP(s) && !ports[uint16(p.Port)] {
			return true
		}
		for _, addr := range Addresses(s) {
			if WantsVIP(s) && !held[netip.AddrPortFrom(addr, uint16(p.Port))] {
				return true
			}
		}
	}
	return false
}

// Revision names what a Service asks of the nodes: addresses, ports and options,
// but not its pods. Those come and go without anybody waiting for all nodes.
func Revision(s *corev1.Service) string {
	asked := []any{
		s.UID, joined(Addresses(s)), Ports(s),
		s.Annotations[v1alpha1.AnnotationPolicy], s.Annotations[v1alpha1.AnnotationNodeWeights], WantsRedirect(s),
	}
	if WantsVIP(s) && keepsClients(s) { // of the others it is what it was before this was asked
		asked = append(asked, s.Spec.ExternalTrafficPolicy)
	}
	if name := s.Annotations[v1alpha1.AnnotationSwitch]; name != "" {
		asked = append(asked, "switch", name)
	}
	text, err := json.Marshal(asked)
	if err != nil {
		panic(err) // strings and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// joined is what a revision is made of: for one address, and for none, what
// versions before IPv6 wrote, so that nothing has to be acknowledged anew.
func joined(addrs []netip.Addr) string {
	if len(addrs) == 0 {
		return netip.Addr{}.String()
	}
	var out []string
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return strings.Join(out, ",")
}
