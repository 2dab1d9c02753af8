// SPDX-License-Identifier: Apache-2.0

// EndpointSlices of a service whose pods are reached on a network of their own: what
// Kubernetes would write for a selector are the pods' addresses on the pod network.
package render

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// Endpoint is one pod as clients see it, or a switch, which is no pod.
type Endpoint struct {
	Component string
	Pod       *corev1.Pod // nil of a switch
	Address   netip.Addr
	Ready     bool
}

// maxEndpoints is the most that one EndpointSlice takes.
const maxEndpoints = 1000

// nobody is a component that no pod has. Kubernetes leaves the slices of a selector as
// they are when the selector goes; with one that selects nobody it empties them first.
const nobody = "nobody"

// selects is the selector of a headless Service: none where the slices are ours.
func selects(in Input, component string) map[string]string {
	switch {
	case !ownSlices(in):
		return Selector(in.of().GetName(), component)
	case in.EmptyingSelector:
		return Selector(in.Service.Name, nobody)
	}
	return nil
}

// ownSlices says that Kubernetes does not know the addresses: those of a network of the
// pods' own, or that of a switch.
func ownSlices(in Input) bool { return !OnKernel(in.Device) || in.Switched }

// endpointSlices stand for both Services, one for each family: a slice has one, and an
// empty one says that nobody is there.
func endpointSlices(in Input) []Object {
	var out []Object
	for _, service := range []*corev1.Service{clientService(in), serversService(in)} {
		for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
			out = append(out, endpointSlice(in, service, family))
		}
	}
	return out
}

func endpointSlice(in Input, of *corev1.Service, family discoveryv1.AddressType) *discoveryv1.EndpointSlice {
	component := of.Labels[v1alpha1.LabelComponent]
	suffix := "-net-ipv4"
	if family == discoveryv1.AddressTypeIPv6 {
		suffix = "-net-ipv6"
	}
	m := meta(in, of.Name+suffix, component)
	m.Labels[discoveryv1.LabelServiceName] = of.Name
	m.Labels[discoveryv1.LabelManagedBy] = ManagedBy
	p := of.Spec.Ports[0]
	slice := &discoveryv1.EndpointSlice{
		TypeMeta:   metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: m, AddressType: family,
		Ports:     []discoveryv1.EndpointPort{{Name: ptr(p.Name), Port: ptr(p.Port), Protocol: ptr(p.Protocol)}},
		Endpoints: []discoveryv1.Endpoint{},
	}
	for _, e := range in.Endpoints {
		if e.Component != component || e.Address.Is4() != (family == discoveryv1.AddressTypeIPv4) || !ownSlices(in) || len(slice.Endpoints) == maxEndpoints {
			continue
		}
		slice.Endpoints = append(slice.Endpoints, sliceEndpoint(e))
	}
	return slice
}

func sliceEndpoint(e Endpoint) discoveryv1.Endpoint {
	if e.Pod == nil {
		return discoveryv1.Endpoint{Addresses: []string{e.Address.String()},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr(e.Ready), Serving: ptr(e.Ready), Terminating: ptr(false)}}
	}
	terminating := e.Pod.DeletionTimestamp != nil
	out := discoveryv1.Endpoint{
		Addresses:  []string{e.Address.String()},
		Conditions: discoveryv1.EndpointConditions{Ready: ptr(e.Ready && !terminating), Serving: ptr(e.Ready), Terminating: ptr(terminating)},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: e.Pod.UID},
	}
	if e.Pod.Spec.NodeName != "" {
		out.NodeName = ptr(e.Pod.Spec.NodeName)
	}
	return out
}
