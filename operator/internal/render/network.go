// SPDX-License-Identifier: Apache-2.0

// What may talk to what: Services by which clients find routers, and policies
// that let in exactly the traffic of the protocol.
package render

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// OperatorLabels select the operator's own pods; the chart sets them.
var OperatorLabels = map[string]string{
	"app.kubernetes.io/name": "bobtail", "app.kubernetes.io/component": "operator",
}

// clientService is the name clients are given. It has no cluster IP: a proxy on
// the path would rewrite addresses that the protocol identifies requests by.
func clientService(in Input) *corev1.Service {
	component := v1alpha1.ComponentRouter
	if !HasRouter(in.Service) {
		component = v1alpha1.ComponentServer
	}
	return onPort(in, headless(in, in.Service.Name, component, "requests", RequestPort))
}

func serversService(in Input) *corev1.Service {
	return onPort(in, headless(in, in.Service.Name+"-servers", v1alpha1.ComponentServer, "worker-0", WorkerPort))
}

// onPort is the Service with the one port of servers of TCP.
func onPort(in Input, s *corev1.Service) *corev1.Service {
	if TCP(in.Service) {
		number := in.Service.Spec.TCP.Port
		s.Spec.Ports = []corev1.ServicePort{{Name: TCPPortName, Port: number, TargetPort: intstr.FromInt32(number), Protocol: corev1.ProtocolTCP}}
	}
	return s
}

func headless(in Input, name, component, port string, number int32) *corev1.Service {
	s := &corev1.Service{
		TypeMeta:   serviceType(),
		ObjectMeta: meta(in, name, component),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone,
			Selector: selects(in, component),
			Ports: []corev1.ServicePort{{
				Name: port, Port: number, TargetPort: intstr.FromInt32(number), Protocol: corev1.ProtocolUDP,
			}},
		},
	}
	if !OnKernel(in.Device) {
		// Kubernetes gives a Service without a selector both families, even where the cluster
		// has one, and refuses that as soon as the Service has its selector again.
		s.Spec.IPFamilyPolicy = ptr(corev1.IPFamilyPolicySingleStack)
	}
	return s
}

func serviceType() metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: "Service"} }

// serverPolicy lets requests in from anywhere: the first packet comes from a
// router, the others come straight from the client, who may be in any pod.
func serverPolicy(in Input) *networkingv1.NetworkPolicy {
	workers := networkingv1.NetworkPolicyPort{Protocol: ptr(corev1.ProtocolUDP), Port: ptr(intstr.FromInt32(WorkerPort))}
	// Pods of an earlier specification serve until they are gone.
	if n := max(in.Service.Spec.Lanes(), in.LiveWorkers); n > 1 {
		workers.EndPort = ptr(WorkerPort + n - 1)
	}
	if TCP(in.Service) {
		workers = port(corev1.ProtocolTCP, in.Service.Spec.TCP.Port)
	}
	return policy(in, ServerName(in.Service), v1alpha1.ComponentServer,
		networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{workers}})
}

// routerPolicy lets requests in from anywhere, and FEEDBACK from the servers of
// this service alone.
func routerPolicy(in Input) *networkingv1.NetworkPolicy {
	servers := &metav1.LabelSelector{MatchLabels: Selector(in.Service.Name, v1alpha1.ComponentServer)}
	return policy(in, RouterName(in.Service), v1alpha1.ComponentRouter,
		networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolUDP, RequestPort)}},
		networkingv1.NetworkPolicyIngressRule{
			From:  []networkingv1.NetworkPolicyPeer{{PodSelector: servers}},
			Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolUDP, FeedbackPort)},
		})
}

// policy is a policy on one component: the given rules, plus the sidecar for
// the operator and the metrics for whoever scrapes. Nothing outgoing is
// restricted: replies go to clients wherever they are.
func policy(in Input, name, component string, rules ...networkingv1.NetworkPolicyIngressRule) *networkingv1.NetworkPolicy {
	operator := networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: in.OperatorNamespace}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: OperatorLabels},
	}
	return ingressPolicy(in, name, component, append(rules,
		networkingv1.NetworkPolicyIngressRule{
			From:  []networkingv1.NetworkPolicyPeer{operator},
			Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, SidecarPort)},
		},
		networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, MetricsPort)}},
	))
}

// ingressPolicy lets into one component what the rules say, and nothing else.
func ingressPolicy(in Input, name, component string, rules []networkingv1.NetworkPolicyIngressRule) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: meta(in, name, component),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: Selector(in.of().GetName(), component)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     rules,
		},
	}
}

func port(protocol corev1.Protocol, number int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: ptr(intstr.FromInt32(number))}
}

func serverBudget(in Input) *policyv1.PodDisruptionBudget {
	return budget(in, ServerName(in.Service), v1alpha1.ComponentServer)
}

func routerBudget(in Input) *policyv1.PodDisruptionBudget {
	return budget(in, RouterName(in.Service), v1alpha1.ComponentRouter)
}

// budget keeps node drains from taking two pods of a component at a time. It never
// forbids the last step of a drain: one replica may be evicted, and so may a pod that
// does not serve.
func budget(in Input, name, component string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: meta(in, name, component),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             ptr(intstr.FromInt32(1)),
			UnhealthyPodEvictionPolicy: ptr(policyv1.AlwaysAllow),
			Selector:                   &metav1.LabelSelector{MatchLabels: Selector(in.of().GetName(), component)},
		},
	}
}
