// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// blockedClients finds pods in a namespace to which the servers' replies cannot
// come: replies leave from an address the client never sent to, so a pod that
// any policy isolates needs a rule for the servers.
func (c *cluster) blockedClients(ctx context.Context, service *v1alpha1.RpcService, namespace string) ([]finding, error) {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", namespace, err)
	}
	return c.blockedPods(ctx, service, namespace, pods.Items)
}

// blockedPods is the same for these pods of the namespace.
func (c *cluster) blockedPods(ctx context.Context, service *v1alpha1.RpcService, namespace string, pods []corev1.Pod) ([]finding, error) {
	policies := &networkingv1.NetworkPolicyList{}
	if err := c.List(ctx, policies, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list the network policies of %s: %w", namespace, err)
	}
	servers, err := c.pods(ctx, service, v1alpha1.ComponentServer)
	if err != nil {
		return nil, err
	}
	from := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: service.Namespace}, from); err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", service.Namespace, err)
	}
	return blocked(service, pods, policies.Items, servers, from.Labels)
}

// blocked is one finding for each policy that cuts pods off from the servers.
func blocked(service *v1alpha1.RpcService, pods []corev1.Pod, policies []networkingv1.NetworkPolicy, servers []corev1.Pod, serverNamespace map[string]string) ([]finding, error) {
	if len(servers) == 0 {
		return nil, nil
	}
	var out []finding
	named := map[string]bool{}
	for i := range pods {
		pod := &pods[i]
		if pod.Labels[v1alpha1.LabelService] != "" || pod.Spec.HostNetwork || ended(pod) {
			continue
		}
		isolating, admitted, err := judge(pod, policies, &servers[0], serverNamespace)
		if err != nil {
			return nil, err
		}
		if isolating == "" || admitted || named[isolating] {
			continue
		}
		named[isolating] = true
		out = append(out, finding{causeClients,
			fmt.Sprintf("NetworkPolicy %s/%s isolates pod %s and admits no UDP from the servers of %s/%s: if it is a client, no reply reaches it",
				pod.Namespace, isolating, pod.Name, service.Namespace, service.Name),
			fmt.Sprintf("add an ingress rule from pods %s=%s,%s=%s, protocol UDP, any port (docs/guides/operations.md)",
				v1alpha1.LabelService, service.Name, v1alpha1.LabelComponent, v1alpha1.ComponentServer)})
	}
	return out, nil
}

// ended says that the pod has ended: nobody waits for a reply in it.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// judge names a policy that isolates the pod, and says whether any policy on it
// admits the server. Policies add up: one that admits is enough.
func judge(pod *corev1.Pod, policies []networkingv1.NetworkPolicy, server *corev1.Pod, serverNamespace map[string]string) (isolating string, admitted bool, err error) {
	for i := range policies {
		p := &policies[i]
		selected, err := matches(&p.Spec.PodSelector, pod.Labels)
		if err != nil {
			return "", false, fmt.Errorf("NetworkPolicy %s: podSelector: %w", p.Name, err)
		}
		if !selected || !slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) && len(p.Spec.PolicyTypes) > 0 {
			continue
		}
		if isolating == "" {
			isolating = p.Name
		}
		for _, rule := range p.Spec.Ingress {
			ok, err := admits(rule, p.Namespace, server, serverNamespace)
			if err != nil {
				return "", false, fmt.Errorf("NetworkPolicy %s: ingress: %w", p.Name, err)
			}
			admitted = admitted || ok
		}
	}
	return isolating, admitted, nil
}

// admits: clients receive on ports the kernel chose, so a rule that names ports
// does not do, unless it names a range as wide as theirs.
func admits(rule networkingv1.NetworkPolicyIngressRule, namespace string, server *corev1.Pod, serverNamespace map[string]string) (bool, error) {
	ports := len(rule.Ports) == 0 || slices.ContainsFunc(rule.Ports, admitsEphemeral)
	if !ports || len(rule.From) == 0 {
		return ports, nil
	}
	for _, peer := range rule.From {
		if ok, err := admitsServer(peer, namespace, server, serverNamespace); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func admitsEphemeral(p networkingv1.NetworkPolicyPort) bool {
	udp := p.Protocol != nil && *p.Protocol == corev1.ProtocolUDP
	return udp && (p.Port == nil || p.EndPort != nil && p.Port.IntValue() <= firstEphemeral && *p.EndPort >= lastEphemeral)
}

func admitsServer(peer networkingv1.NetworkPolicyPeer, namespace string, server *corev1.Pod, serverNamespace map[string]string) (bool, error) {
	if peer.IPBlock != nil {
		return true, nil // whether it covers pods, only the network knows
	}
	inNamespace := namespace == server.Namespace
	if peer.NamespaceSelector != nil {
		var err error
		if inNamespace, err = matches(peer.NamespaceSelector, serverNamespace); err != nil {
			return false, err
		}
	}
	if !inNamespace || peer.PodSelector == nil {
		return inNamespace, nil
	}
	return matches(peer.PodSelector, server.Labels)
}

// The ports Linux gives to clients.
const firstEphemeral, lastEphemeral = 32768, 60999

func matches(selector *metav1.LabelSelector, of map[string]string) (bool, error) {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false, err
	}
	return s.Matches(labels.Set(of)), nil
}
