// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func stock(t *testing.T) Input { return loadGroup(t, "testdata/group/plusplus.in.yaml") }

// G-13: a Raft group has nothing beside its members, a HovercRaft group a box, a
// HovercRaft++ group an aggregator as well; clients find what takes their requests.
func TestWhatStandsBesideMembers(t *testing.T) {
	for protocol, want := range map[v1alpha1.ReplicationProtocol]string{
		v1alpha1.ReplicationRaft: "", v1alpha1.ReplicationHovercRaft: "stock-box", v1alpha1.ReplicationHovercRaftPlusPlus: "stock-box stock-aggregator",
	} {
		in := stock(t)
		in.Group.Spec.Protocol = protocol
		var made []string
		found := map[string]string{}
		for _, o := range GroupObjects(in) {
			switch o := o.(type) {
			case *appsv1.Deployment:
				made = append(made, o.Name)
			case *corev1.Service:
				found[o.Name] = o.Spec.Selector[v1alpha1.LabelComponent]
				if o.Spec.ClusterIP != corev1.ClusterIPNone {
					t.Errorf("%s: a proxy stands before %s", protocol, o.Name)
				}
			}
		}
		if got := strings.Join(made, " "); got != want {
			t.Errorf("%s: %s", protocol, got)
		}
		clients, members := v1alpha1.ComponentMember, ""
		if protocol != v1alpha1.ReplicationRaft {
			clients, members = v1alpha1.ComponentBox, v1alpha1.ComponentMember
		}
		if found["stock"] != clients || found["stock-members"] != members || memberSetOf(t, in).Spec.ServiceName == "stock" != (members == "") {
			t.Errorf("%s: clients find %v", protocol, found)
		}
	}
}

// G-7, G-13: they keep to the restricted pod security standard, run from the operator's own
// image, whatever the members' is, and are asked whether their loop goes round.
func TestBesidePods(t *testing.T) {
	in := stock(t)
	for _, d := range []*appsv1.Deployment{boxDeployment(in), aggregatorDeployment(in)} {
		pod := d.Spec.Template.Spec
		if !*pod.SecurityContext.RunAsNonRoot || pod.HostNetwork || *pod.AutomountServiceAccountToken || *d.Spec.Replicas != 1 {
			t.Errorf("%s: %+v", d.Name, pod.SecurityContext)
		}
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			if checkContainer(t, d.Name, c, nil) != 0 {
				t.Errorf("%s: container %s runs as root", d.Name, c.Name)
			}
		}
		c := pod.Containers[0]
		if c.Image != "registry.example/bobtail/replica:1.2.3" || c.Command[0] != "/usr/bin/bobtail-"+c.Name || c.Args[0] != "--name=$(POD_NAME)" || !*c.SecurityContext.ReadOnlyRootFilesystem {
			t.Errorf("%s: %+v", d.Name, c)
		}
		if c.ReadinessProbe.Exec.Command[0] != c.Command[0] || c.LivenessProbe.Exec.Command[0] != c.Command[0] {
			t.Errorf("%s is asked by %v", d.Name, c.LivenessProbe.Exec.Command)
		}
	}
	if s := boxDeployment(in).Spec.Strategy; s.RollingUpdate.MaxUnavailable.IntVal != 0 || s.RollingUpdate.MaxSurge.IntVal != 1 {
		t.Errorf("a box goes before its successor is there: %+v", s)
	}
	if s := aggregatorDeployment(in).Spec.Strategy.Type; s != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("two aggregators at a time: %s", s)
	}
}

// G-7: who may talk to a box and to an aggregator, and to members of such a group.
func TestTrafficMatrixBesideMembers(t *testing.T) {
	in := stock(t)
	policies := []*networkingv1.NetworkPolicy{memberPolicy(in), boxPolicy(in), aggregatorPolicy(in)}
	parties := []endpoint{
		{"member", "shop", Selector("stock", v1alpha1.ComponentMember)},
		{"box", "shop", Selector("stock", v1alpha1.ComponentBox)},
		{"aggregator", "shop", Selector("stock", v1alpha1.ComponentAggregator)},
		{"member of another group", "shop", Selector("cache", v1alpha1.ComponentMember)},
		{"aggregator elsewhere", "other", Selector("stock", v1alpha1.ComponentAggregator)},
		{"client", "shop", map[string]string{"app": "web"}},
		{"operator", "bobtail-system", OperatorLabels},
	}
	all := "member box aggregator member of another group aggregator elsewhere client operator"
	for _, c := range []struct {
		to       int // of parties
		protocol corev1.Protocol
		port     int32
		who      string
	}{
		{0, corev1.ProtocolUDP, RequestPort, all}, {0, corev1.ProtocolUDP, MemberPort, "member aggregator"}, {0, corev1.ProtocolUDP, FeedbackPort, ""},
		{0, corev1.ProtocolTCP, SidecarPort, "operator"},
		{1, corev1.ProtocolUDP, RequestPort, all}, {1, corev1.ProtocolUDP, FeedbackPort, "member"}, {1, corev1.ProtocolTCP, SidecarPort, "operator"},
		{1, corev1.ProtocolUDP, MemberPort, ""}, {1, corev1.ProtocolTCP, RequestPort, ""},
		{2, corev1.ProtocolUDP, AggregatorPort, "member"}, {2, corev1.ProtocolTCP, SidecarPort, "operator"}, {2, corev1.ProtocolTCP, MetricsPort, all},
		{2, corev1.ProtocolUDP, RequestPort, ""}, {2, corev1.ProtocolTCP, AggregatorPort, ""},
	} {
		for _, from := range parties {
			want := c.who == all || slices.Contains(strings.Fields(c.who), from.name)
			if got := allows(t, policies, flow{from, parties[c.to], c.protocol, c.port, want}); got != want {
				t.Errorf("%s to %s, %s %d: let through %v, want %v", from.name, parties[c.to].name, c.protocol, c.port, got, want)
			}
		}
	}
}

// W-8: with a switch no aggregator runs beside the members, which hear it from its address alone; the one that was there rests.
func TestSwitchInThePlaceOfAnAggregator(t *testing.T) {
	in := stock(t)
	in.Group.Spec.Aggregator = &v1alpha1.GroupAggregator{Placement: v1alpha1.AggregatorOnSwitch, Switch: &v1alpha1.GroupSwitch{Name: "leaf", Address: "192.0.2.1", Messages: v1alpha1.SwitchMessagesBySource}}
	for _, had := range []bool{false, true} {
		in.HadAggregator = had
		resting := 0
		for _, o := range GroupObjects(in) {
			if d, is := o.(*appsv1.Deployment); is && d.Name == BesideName(in.Group, v1alpha1.ComponentAggregator) {
				resting++
				if *d.Spec.Replicas != 0 {
					t.Errorf("%d aggregators run beside a switch", *d.Spec.Replicas)
				}
			}
		}
		if had != (resting == 1) {
			t.Errorf("%d Deployments of an aggregator, where there was one before: %v", resting, had)
		}
	}
	var from []string
	for _, rule := range memberPolicy(in).Spec.Ingress {
		for _, port := range rule.Ports {
			for _, peer := range rule.From {
				if port.Port.IntVal != MemberPort {
					continue
				}
				if peer.IPBlock != nil {
					from = append(from, peer.IPBlock.CIDR)
				} else {
					from = append(from, peer.PodSelector.MatchLabels[v1alpha1.LabelComponent])
				}
			}
		}
	}
	if got := strings.Join(from, " "); got != v1alpha1.ComponentMember+" 192.0.2.1/32" {
		t.Errorf("members hear %s", got)
	}
	if e := SwitchEntry(in.Group.Spec.Aggregator.Switch); e.Name != "leaf" || e.Address != "192.0.2.1" || e.Port != AggregatorPort || e.Messages != "BySource" {
		t.Errorf("%+v", e)
	}
}
