// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/connectivity"
)

// The objects of a connectivity test.

const (
	connectivityProgram = "/connectivity"
	labelRole           = "bobtail.dev/connectivity-role" // server or client
	crabPort            = 80
)

// trialShare is what each pod of the test asks for, small enough for most quotas.
var trialShare = corev1.ResourceRequirements{
	Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("32Mi"), corev1.ResourceEphemeralStorage: resource.MustParse("8Mi")},
	Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("128Mi"), corev1.ResourceEphemeralStorage: resource.MustParse("64Mi")},
}

// whatEachTakes says it for people.
func whatEachTakes() string {
	r, l := trialShare.Requests, trialShare.Limits
	return fmt.Sprintf("requests of %s CPU and %s memory, limits of %s and %s", r.Cpu(), r.Memory(), l.Cpu(), l.Memory())
}

func (t *trial) meta(name string, labels map[string]string) metav1.ObjectMeta {
	all := map[string]string{labelTrial: t.run, "app.kubernetes.io/name": "bobtail-connectivity", "app.kubernetes.io/part-of": "bobtail",
		"app.kubernetes.io/managed-by": "kubectl-bobtail"}
	for k, v := range labels {
		all[k] = v
	}
	return metav1.ObjectMeta{Namespace: t.namespace, Name: name, Labels: all}
}

// pod runs the program on a node, under the restricted pod security standard.
func (t *trial) pod(role string, node int, args ...string) *corev1.Pod {
	yes, no, user, soon := true, false, int64(65532), int64(1)
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
	}
	return &corev1.Pod{
		ObjectMeta: t.meta(fmt.Sprintf("%s-%s-%d", t.run, role, node), map[string]string{labelRole: role}),
		Spec: corev1.PodSpec{
			NodeName: t.nodes[node], RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &soon,
			ImagePullSecrets: t.pulls(),
			Tolerations:      []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			SecurityContext:  &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: role, Image: t.image, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{connectivityProgram}, Args: args,
				Env: []corev1.EnvVar{field("POD_IPS", "status.podIPs"), field("NODE", "spec.nodeName")}, Resources: trialShare,
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
}

func (t *trial) pulls() (out []corev1.LocalObjectReference) {
	for _, name := range t.pullSecrets {
		out = append(out, corev1.LocalObjectReference{Name: name})
	}
	return out
}

func (t *trial) serverPod(node int) *corev1.Pod {
	p := t.pod("server", node, "serve", "--node=$(NODE)", "--addresses=$(POD_IPS)", "--workers=4")
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(connectivity.TCPPort)}}}
	return p
}

func (t *trial) clientPod(node int, paths []connectivity.Path) (*corev1.Pod, error) {
	text, err := json.Marshal(paths)
	if err != nil {
		return nil, err
	}
	return t.pod("client", node, "try", "--message=/dev/termination-log", "--paths="+string(text)), nil
}

// routed is a service with as many servers as nodes are tested.
func (t *trial) routed() *v1alpha1.RpcService {
	n := int32(len(t.nodes))
	service := &v1alpha1.RpcService{ObjectMeta: t.meta(t.run, nil), Spec: v1alpha1.RpcServiceSpec{
		Replicas: &n, WorkersPerReplica: 4,
		Server: v1alpha1.RpcServiceServer{Image: t.image, Command: []string{connectivityProgram},
			Args:      []string{"serve", "--routed", "--addresses=$(POD_IP)", "--workers=$(BOBTAIL_WORKERS)"},
			Resources: v1alpha1.Resources{Requests: trialShare.Requests, Limits: trialShare.Limits}},
	}}
	for _, name := range t.pullSecrets {
		service.Spec.ImagePullSecrets = append(service.Spec.ImagePullSecrets, v1alpha1.SecretReference{Name: name})
	}
	return service
}

// balanced is a Service of CRAB's class in front of the servers, of all families there are.
func (t *trial) balanced() *corev1.Service {
	class, families := v1alpha1.LoadBalancerClass, corev1.IPFamilyPolicyPreferDualStack
	return &corev1.Service{ObjectMeta: t.meta(t.run+"-crab", nil), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class, IPFamilyPolicy: &families,
		Selector: map[string]string{labelTrial: t.run, labelRole: "server"},
		Ports:    []corev1.ServicePort{{Name: "tcp", Port: crabPort, TargetPort: intstr.FromInt32(connectivity.TCPPort)}},
	}}
}
