// SPDX-License-Identifier: Apache-2.0

// A service of protocol TCP. On the kernel: pods with the user's server and nothing else,
// and a Service of CRAB's class in front of them. On a device: servers of ours, as with
// R2P2 and no router, whose connections nobody balances.
package render

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabwords"
)

// TCPPortName is the name of the one port, in the Service and in its pods.
const TCPPortName = "tcp"

// TCP says whether clients speak TCP with the servers.
func TCP(s *v1alpha1.RpcService) bool {
	return s.Spec.Protocol == v1alpha1.ProtocolTCP && s.Spec.TCP != nil
}

// ByCRAB says whether CRAB balances the connections: the servers are any program on the
// pod network. Otherwise they are servers of ours with a device, their connections go
// past the kernel, and nobody stands before them: an RpcService without a router.
func ByCRAB(s *v1alpha1.RpcService) bool {
	return TCP(s) && OnKernel(s.Spec.Device.Device)
}

// pastKernel are the options of a server of TCP on a device. What the requests are,
// --protocol, stands in the user's arguments.
func pastKernel(c *corev1.Container, s *v1alpha1.RpcService) {
	c.Env = append(c.Env, corev1.EnvVar{Name: "BOBTAIL_PORT", Value: strconv.Itoa(int(s.Spec.TCP.Port))})
	if len(c.Command) == 0 {
		c.Args = []string{
			ownAddress, "--port=$(BOBTAIL_PORT)", "--mode=run-to-completion", "--ctl=" + ctlPath, "--key-dir=" + keyDir, "--config-cache=" + cacheFn,
		}
	}
	c.Ports = []corev1.ContainerPort{{Name: TCPPortName, ContainerPort: s.Spec.TCP.Port, Protocol: corev1.ProtocolTCP}}
}

// tcpObjects need no account, no configuration and no keys: nothing in the pods
// is ours.
func tcpObjects(in Input) []Object {
	return []Object{
		tcpPolicy(in), TCPService(in), serverBudget(in), tcpDeployment(in),
	}
}

// crabPolicies are CRAB's names of the policies.
var crabPolicies = map[v1alpha1.TCPPolicy]string{
	v1alpha1.TCPRoundRobin: crabwords.RoundRobin, v1alpha1.TCPRandom: crabwords.Random,
	v1alpha1.TCPPowerOfTwo: crabwords.PowerOfTwo, v1alpha1.TCPJSQ: crabwords.Least,
}

// TCPService is the Service of CRAB's class. It takes no node ports: what does not
// come by its address comes by its ClusterIP, within the cluster.
func TCPService(in Input) *corev1.Service {
	s := in.Service
	m := meta(in, s.Name, v1alpha1.ComponentServer)
	m.Annotations = map[string]string{v1alpha1.AnnotationPolicy: crabPolicies[s.Spec.TCP.Policy]}
	return &corev1.Service{
		TypeMeta: serviceType(), ObjectMeta: m,
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: ptr(v1alpha1.LoadBalancerClass),
			AllocateLoadBalancerNodePorts: ptr(false),
			Selector:                      Selector(s.Name, v1alpha1.ComponentServer),
			// Clients talk to the pods directly, so there is one port (C-6).
			Ports: []corev1.ServicePort{{
				Name: TCPPortName, Port: s.Spec.TCP.Port, TargetPort: intstr.FromInt32(s.Spec.TCP.Port), Protocol: corev1.ProtocolTCP,
			}},
		},
	}
}

// tcpPolicy lets connections in from anywhere: a pod sees its client's own
// address, whoever balanced the connection.
func tcpPolicy(in Input) *networkingv1.NetworkPolicy {
	return ingressPolicy(in, ServerName(in.Service), v1alpha1.ComponentServer, []networkingv1.NetworkPolicyIngressRule{
		{Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, in.Service.Spec.TCP.Port)}},
	})
}

func tcpDeployment(in Input) *appsv1.Deployment {
	s := in.Service
	pod := barePod(in, tcpContainer(s))
	pod.NodeSelector = v1alpha1.Plain(s.Spec.Server.NodeSelector)
	pod.TopologySpreadConstraints = spread(s, v1alpha1.ComponentServer)
	drain := drainSeconds(s)
	pod.TerminationGracePeriodSeconds = ptr(graceSeconds + drain)
	if drain > 0 {
		// Balancers hear of a pod's end when it is told to end; this is the time
		// in which connections that were on their way still find it.
		pod.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: drain}}}
	}
	d := deployment(in, ServerName(s), v1alpha1.ComponentServer, Replicas(s), merged(pod, serverTemplate(s)))
	described(&d.Spec.Template, s.Spec.Server.PodTemplate)
	return d
}

func drainSeconds(s *v1alpha1.RpcService) int64 {
	if d := s.Spec.TCP.DrainSeconds; d != nil {
		return int64(*d)
	}
	return 5
}

func tcpContainer(s *v1alpha1.RpcService) corev1.Container {
	spec, _ := serverSpec(s)
	number := s.Spec.TCP.Port
	c := corev1.Container{
		Name: v1alpha1.ComponentServer, Image: spec.Image, ImagePullPolicy: spec.ImagePullPolicy,
		Command: spec.Command, Args: spec.Args, Resources: requirements(spec.Resources),
		Env:             []corev1.EnvVar{podIP()},
		Ports:           []corev1.ContainerPort{{Name: TCPPortName, ContainerPort: number, Protocol: corev1.ProtocolTCP}},
		ReadinessProbe:  tcpReadiness(s.Spec.TCP),
		SecurityContext: restricted(),
	}
	for _, e := range spec.Env {
		c.Env = append(c.Env, corev1.EnvVar{Name: e.Name, Value: e.Value})
	}
	c.Env = append(c.Env, corev1.EnvVar{Name: "BOBTAIL_PORT", Value: strconv.Itoa(int(number))})
	// The root file system stays writable: the image is the user's.
	c.SecurityContext.ReadOnlyRootFilesystem = nil
	return c
}

// tcpReadiness is the user's probe, or a connection.
func tcpReadiness(t *v1alpha1.RpcServiceTCP) *corev1.Probe {
	at := intstr.FromInt32(t.Port)
	p := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: at}},
		PeriodSeconds: 2, TimeoutSeconds: 1, FailureThreshold: 3, SuccessThreshold: 1,
	}
	r := t.Readiness
	switch {
	case r == nil:
		return p
	case r.HTTPPath != "":
		p.ProbeHandler = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: r.HTTPPath, Port: at, Scheme: corev1.URISchemeHTTP}}
	default:
		p.ProbeHandler = corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: r.Command}}
	}
	p.PeriodSeconds = max(r.PeriodSeconds, 1)
	return p
}
