// SPDX-License-Identifier: Apache-2.0

// What stands beside the members of a HovercRaft group: the box that clients send to,
// and the aggregator. Both keep nothing. They run from the operator's own image, since
// the members' may be the user's.
package render

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// AggregatorPort is where an aggregator hears members.
const AggregatorPort = 8300

// HasBox says whether clients send to a box.
func HasBox(g *v1alpha1.ReplicationGroup) bool {
	return g.Spec.Protocol == v1alpha1.ReplicationHovercRaft || HasAggregator(g)
}

// BoxOnSwitch says whether that is a switch.
func BoxOnSwitch(g *v1alpha1.ReplicationGroup) bool {
	b := g.Spec.Box
	return HasBox(g) && b != nil && b.Placement == v1alpha1.BoxOnSwitch && b.Switch != nil
}

// BoxInPod says whether it is a pod.
func BoxInPod(g *v1alpha1.ReplicationGroup) bool { return HasBox(g) && !BoxOnSwitch(g) }

// HasAggregator says whether there is one between the leader and its followers.
func HasAggregator(g *v1alpha1.ReplicationGroup) bool {
	return g.Spec.Protocol == v1alpha1.ReplicationHovercRaftPlusPlus
}

// AggregatesOnSwitch says whether that is a switch.
func AggregatesOnSwitch(g *v1alpha1.ReplicationGroup) bool {
	a := g.Spec.Aggregator
	return HasAggregator(g) && a != nil && a.Placement == v1alpha1.AggregatorOnSwitch && a.Switch != nil
}

// aggregatesInPod says whether it is a pod.
func aggregatesInPod(g *v1alpha1.ReplicationGroup) bool {
	return HasAggregator(g) && !AggregatesOnSwitch(g)
}

// Beside are the components of a group's pods that are not members.
func Beside(g *v1alpha1.ReplicationGroup) (components []string) {
	if BoxInPod(g) {
		components = append(components, v1alpha1.ComponentBox)
	}
	if aggregatesInPod(g) {
		components = append(components, v1alpha1.ComponentAggregator)
	}
	return components
}

// BesideName is the name of the Deployment and of the policy of such a component.
func BesideName(of Named, component string) string { return of.GetName() + "-" + component }

// BoxEntry is a box in the document, named by its pod.
func BoxEntry(pod, address string) dataplane.GroupBox {
	return dataplane.GroupBox{Name: pod, Address: address, ClientPort: RequestPort, FeedbackPort: FeedbackPort}
}

// SwitchBoxEntry is a switch as the box in the document, named by its ProgrammableSwitch.
func SwitchBoxEntry(s *v1alpha1.GroupSwitch) dataplane.GroupBox {
	return dataplane.GroupBox{Name: s.Name, Address: s.Address, ClientPort: RequestPort, FeedbackPort: FeedbackPort, Messages: string(s.Messages)}
}

// AggregatorEntry is the aggregator in the document, named by its pod.
func AggregatorEntry(pod, address string) *dataplane.GroupAggregator {
	return &dataplane.GroupAggregator{Name: pod, Address: address, Port: AggregatorPort}
}

// SwitchEntry is a switch as the aggregator in the document, named by its ProgrammableSwitch.
func SwitchEntry(s *v1alpha1.GroupSwitch) *dataplane.GroupAggregator {
	return &dataplane.GroupAggregator{Name: s.Name, Address: s.Address, Port: AggregatorPort, Messages: string(s.Messages)}
}

// aggregatorPeers are where members hear an aggregator from: its pods, or the switch's address.
func aggregatorPeers(in Input) []networkingv1.NetworkPolicyPeer {
	if !AggregatesOnSwitch(in.Group) {
		return podsOf(in, v1alpha1.ComponentAggregator)
	}
	return []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: in.Group.Spec.Aggregator.Switch.Address + "/32"}}}
}

func podsOf(in Input, component string) []networkingv1.NetworkPolicyPeer {
	return []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: Selector(in.Group.Name, component)}}}
}

// boxService is the name clients are given: a box that is not ready is not found.
func boxService(in Input) *corev1.Service {
	return headless(in, in.Group.Name, v1alpha1.ComponentBox, "requests", RequestPort)
}

// boxPolicy lets requests in from anywhere, and FEEDBACK from the members alone.
func boxPolicy(in Input) *networkingv1.NetworkPolicy {
	return policy(in, BesideName(in.Group, v1alpha1.ComponentBox), v1alpha1.ComponentBox,
		networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolUDP, RequestPort)}},
		networkingv1.NetworkPolicyIngressRule{
			From:  podsOf(in, v1alpha1.ComponentMember),
			Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolUDP, FeedbackPort)},
		})
}

// aggregatorPolicy lets in the members alone.
func aggregatorPolicy(in Input) *networkingv1.NetworkPolicy {
	return policy(in, BesideName(in.Group, v1alpha1.ComponentAggregator), v1alpha1.ComponentAggregator,
		networkingv1.NetworkPolicyIngressRule{
			From:  podsOf(in, v1alpha1.ComponentMember),
			Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolUDP, AggregatorPort)},
		})
}

// boxDeployment has one box. Its successor is there before it goes: two at a time count
// each what they let in, and no request goes through both.
func boxDeployment(in Input) *appsv1.Deployment {
	d := besideDeployment(in, v1alpha1.ComponentBox,
		corev1.ContainerPort{Name: "requests", ContainerPort: RequestPort, Protocol: corev1.ProtocolUDP},
		corev1.ContainerPort{Name: "feedback", ContainerPort: FeedbackPort, Protocol: corev1.ProtocolUDP})
	// A box is silent for a moment after its start, and clients look the name up every 2 s.
	d.Spec.MinReadySeconds = 5
	return d
}

// aggregatorDeployment has one aggregator, and none while it is exchanged: the document
// names one, and the group serves without.
func aggregatorDeployment(in Input) *appsv1.Deployment {
	d := besideDeployment(in, v1alpha1.ComponentAggregator,
		corev1.ContainerPort{Name: "members", ContainerPort: AggregatorPort, Protocol: corev1.ProtocolUDP})
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	if AggregatesOnSwitch(in.Group) {
		d.Spec.Replicas = ptr[int32](0) // it was there before the switch, and may be again
	}
	return d
}

func besideDeployment(in Input, component string, ports ...corev1.ContainerPort) *appsv1.Deployment {
	c := dataplaneContainer(component, in.image("replica"))
	c.ImagePullPolicy = corev1.PullIfNotPresent
	c.Command = []string{"/usr/bin/bobtail-" + component}
	c.Args = []string{"--name=$(POD_NAME)", ownAddress, "--ctl=" + ctlPath, "--key-dir=" + keyDir, "--config-cache=" + cacheFn}
	c.Env = append(c.Env, podName())
	c.Ports = ports
	c.Resources = resources("50m", "64Mi", "")
	c.ReadinessProbe, c.LivenessProbe = goesRound(component, 5, 2), goesRound(component, 15, 4)
	// As a member it waits for its configuration as long as it takes, and is found by
	// clients only when it has one.
	c.StartupProbe.FailureThreshold = besideWaits
	return deployment(in, BesideName(in.Group, component), component, 1, podSpec(in, c))
}

// besideWaits is for how many seconds a process waits for a configuration before it is
// started anew, which does it no good and no harm.
const besideWaits = 3600

func podName() corev1.EnvVar {
	return corev1.EnvVar{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}
}
