// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// Whoever may reach the one port does, and nobody anything else: there is no
// sidecar to be read.
func TestTCPPolicy(t *testing.T) {
	in := load(t, "testdata/tcp.in.yaml")
	server := endpoint{"server", in.Service.Namespace, Selector(in.Service.Name, v1alpha1.ComponentServer)}
	for _, from := range []endpoint{{"client", "elsewhere", nil}, {"operator", in.OperatorNamespace, OperatorLabels}} {
		for _, c := range []struct {
			protocol corev1.Protocol
			port     int32
			want     bool
		}{
			{corev1.ProtocolTCP, 8080, true}, {corev1.ProtocolUDP, 8080, false}, {corev1.ProtocolTCP, 8081, false},
			{corev1.ProtocolTCP, SidecarPort, false}, {corev1.ProtocolTCP, MetricsPort, false}, {corev1.ProtocolUDP, WorkerPort, false},
		} {
			f := flow{from, server, c.protocol, c.port, c.want}
			if got := allows(t, []*networkingv1.NetworkPolicy{tcpPolicy(in)}, f); got != c.want {
				t.Errorf("%s, %s %d: let through %v, want %v", from.name, c.protocol, c.port, got, c.want)
			}
		}
	}
}

// CRAB takes the Service that is rendered, whatever the policy: every one of ours
// has a name there.
func TestCRABTakesTheService(t *testing.T) {
	for ours, theirs := range map[v1alpha1.TCPPolicy]string{
		v1alpha1.TCPRoundRobin: "RoundRobin", v1alpha1.TCPRandom: "Random", v1alpha1.TCPPowerOfTwo: "PowerOfTwo", v1alpha1.TCPJSQ: "Least",
	} {
		in := load(t, "testdata/tcp.in.yaml")
		in.Service.Spec.TCP.Policy = ours
		s := TCPService(in)
		if got := s.Annotations[v1alpha1.AnnotationPolicy]; got != theirs || !crabplan.WantsVIP(s) {
			t.Errorf("%s: annotation %q, asks for an address: %v", ours, got, crabplan.WantsVIP(s))
		}
		if refused := crabplan.Judge(s); len(refused) > 0 {
			t.Errorf("%s: %+v", ours, refused)
		}
	}
}

// Probes and the end of a pod follow what the user says.
func TestTCPReadinessAndDrain(t *testing.T) {
	in := load(t, "testdata/tcp.in.yaml")
	in.Service.Spec.TCP.Readiness = &v1alpha1.TCPReadiness{HTTPPath: "/ready", PeriodSeconds: 9}
	in.Service.Spec.TCP.DrainSeconds = ptr[int32](60)
	pod := tcpDeployment(in).Spec.Template.Spec
	p := pod.Containers[0].ReadinessProbe
	if p.HTTPGet == nil || p.HTTPGet.Path != "/ready" || p.HTTPGet.Port.IntValue() != 8080 || p.PeriodSeconds != 9 || p.TCPSocket != nil {
		t.Errorf("probe %+v", p)
	}
	if *pod.TerminationGracePeriodSeconds != 90 || pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds != 60 {
		t.Errorf("grace %d s, hook %+v: the server has 30 s of its own after the drain", *pod.TerminationGracePeriodSeconds, pod.Containers[0].Lifecycle)
	}
}

// What clients are given: an address of the load balancer, else the name.
func TestAddressOverTCP(t *testing.T) {
	s := load(t, "testdata/tcp.in.yaml").Service
	if got := Address(s, nil); got != "web.default.svc:8080" {
		t.Errorf("%s", got)
	}
	if got := Address(s, []string{"192.0.2.1:8080", "[2001:db8::1]:8080"}); got != "192.0.2.1:8080" {
		t.Errorf("%s", got)
	}
}
