// SPDX-License-Identifier: Apache-2.0

// What a LatencyExperiment is made of: a Job of agents that can be dialled by
// name, and a Job of one coordinator. Neither has a token of the API server: the
// result leaves the coordinator as its termination message.
package render

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/netstatus"
)

// ExperimentInput is everything the objects of one experiment depend on.
type ExperimentInput struct {
	Experiment        *v1alpha1.LatencyExperiment
	Registry, Version string
	Definition        []byte // the load definition, YAML
	Seconds           int64  // how long its loads may be measured in all
	Network           string // that agents join besides the pod network, as namespace/name; empty: none
}

const (
	agentPort = 5001
	lancetDir = "/etc/lancet"
	// agentWaitSeconds is how long agents may take to be scheduled and pulled.
	agentWaitSeconds = 180
	// coordinatorWaitSeconds is how long the coordinator may: agents whose
	// coordinator never came do not stay until the Job's deadline.
	coordinatorWaitSeconds = 2 * agentWaitSeconds
	// experimentSlackSeconds is what starting, preloading and ending may take.
	experimentSlackSeconds = agentWaitSeconds + 600
)

// AgentsName is the name of the agents' Job, Service and policy.
func AgentsName(e *v1alpha1.LatencyExperiment) string { return e.Name + "-agents" }

// CoordinatorName is the name of the coordinator's Job and policy.
func CoordinatorName(e *v1alpha1.LatencyExperiment) string { return e.Name + "-coordinator" }

// TokenName is the name of the Secret that agents and coordinator share.
func TokenName(e *v1alpha1.LatencyExperiment) string { return e.Name + "-token" }

// ExperimentSelector matches the pods of one component of an experiment.
func ExperimentSelector(experiment, component string) map[string]string {
	return map[string]string{v1alpha1.LabelExperiment: experiment, v1alpha1.LabelComponent: component}
}

// ExperimentObjects is everything but the Secret, in the order in which it should
// be applied.
func ExperimentObjects(in ExperimentInput) []Object {
	return []Object{
		definitionMap(in), agentsService(in), agentsPolicy(in), coordinatorPolicy(in), agentsJob(in), coordinatorJob(in),
	}
}

// ExperimentToken is the Secret, with a token the caller made at random.
func ExperimentToken(in ExperimentInput, token []byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: experimentMeta(in, TokenName(in.Experiment), ""),
		Data:       map[string][]byte{"token": token},
	}
}

func experimentMeta(in ExperimentInput, name, component string) metav1.ObjectMeta {
	labels := recommended(nameExperiment, in.Experiment.Name, component)
	labels[v1alpha1.LabelExperiment] = in.Experiment.Name
	if component != "" {
		labels[v1alpha1.LabelComponent] = component
	}
	return metav1.ObjectMeta{
		Name: name, Namespace: in.Experiment.Namespace, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "LatencyExperiment",
			Name: in.Experiment.Name, UID: in.Experiment.UID, Controller: ptr(true),
		}},
	}
}

func definitionMap(in ExperimentInput) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: experimentMeta(in, in.Experiment.Name+"-definition", ""),
		Data:       map[string]string{"definition.yaml": string(in.Definition)},
	}
}

// agentsService gives every agent a name of its own. The coordinator waits for
// agents itself, so they are found before they are ready.
func agentsService(in ExperimentInput) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: experimentMeta(in, AgentsName(in.Experiment), v1alpha1.ComponentAgent),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
			Selector: ExperimentSelector(in.Experiment.Name, v1alpha1.ComponentAgent),
			Ports:    []corev1.ServicePort{{Name: "control", Port: agentPort, TargetPort: intstr.FromInt32(agentPort), Protocol: corev1.ProtocolTCP}},
		},
	}
}

// agentsPolicy lets in the coordinator, and the replies of R2P2: they come from
// servers the agent never sent to.
func agentsPolicy(in ExperimentInput) *networkingv1.NetworkPolicy {
	from := func(labels map[string]string) []networkingv1.NetworkPolicyPeer {
		return []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: labels}}}
	}
	rules := []networkingv1.NetworkPolicyIngressRule{{
		From:  from(ExperimentSelector(in.Experiment.Name, v1alpha1.ComponentCoordinator)),
		Ports: []networkingv1.NetworkPolicyPort{{Protocol: ptr(corev1.ProtocolTCP), Port: ptr(intstr.FromInt32(agentPort))}},
	}}
	ref, r2p2 := in.Experiment.Spec.Target.TargetRef, in.Experiment.Spec.Workload.Protocol == v1alpha1.ExperimentR2P2
	if r2p2 && ref != nil {
		rules = append(rules, networkingv1.NetworkPolicyIngressRule{
			From:  from(map[string]string{v1alpha1.LabelService: ref.Name}),
			Ports: []networkingv1.NetworkPolicyPort{{Protocol: ptr(corev1.ProtocolUDP)}},
		})
	} else if r2p2 { // the servers are unknown
		rules = append(rules, networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{{Protocol: ptr(corev1.ProtocolUDP)}}})
	}
	return experimentPolicy(in, AgentsName(in.Experiment), v1alpha1.ComponentAgent, rules)
}

// coordinatorPolicy lets nobody in.
func coordinatorPolicy(in ExperimentInput) *networkingv1.NetworkPolicy {
	return experimentPolicy(in, CoordinatorName(in.Experiment), v1alpha1.ComponentCoordinator, nil)
}

func experimentPolicy(in ExperimentInput, name, component string, rules []networkingv1.NetworkPolicyIngressRule) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: experimentMeta(in, name, component),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: ExperimentSelector(in.Experiment.Name, component)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, Ingress: rules,
		},
	}
}

// agentsJob is an indexed Job, so that every pod has a host name that stays. An
// agent ends when its coordinator does.
func agentsJob(in ExperimentInput) *batchv1.Job {
	c := experimentContainer(in, v1alpha1.ComponentAgent, "load")
	c.Args = []string{fmt.Sprintf("--agent=0.0.0.0:%d", agentPort), "--agent-token-file=" + lancetDir + "/token/token", "--agent-once", fmt.Sprintf("--agent-wait=%d", coordinatorWaitSeconds)}
	c.Ports = []corev1.ContainerPort{{Name: "control", ContainerPort: agentPort, Protocol: corev1.ProtocolTCP}}
	c.Resources = resources("250m", "64Mi", "")
	if r := in.Experiment.Spec.AgentResources; r != nil {
		c.Resources = requirements(*r)
	}
	job := experimentJob(in, AgentsName(in.Experiment), v1alpha1.ComponentAgent, c)
	job.Spec.Parallelism, job.Spec.Completions = ptr(in.Experiment.Spec.Agents), ptr(in.Experiment.Spec.Agents)
	job.Spec.CompletionMode = ptr(batchv1.IndexedCompletion)
	t := in.Experiment.Spec.AgentPodTemplate
	job.Spec.Template.Spec = merged(job.Spec.Template.Spec, t)
	described(&job.Spec.Template, t)
	// Agents are dialled by names that are made of these.
	job.Spec.Template.Spec.Hostname, job.Spec.Template.Spec.Subdomain = "", AgentsName(in.Experiment)
	if in.Network != "" {
		metav1.SetMetaDataAnnotation(&job.Spec.Template.ObjectMeta, netstatus.AnnotationNetworks, networksText(in.Network))
	}
	return job
}

func coordinatorJob(in ExperimentInput) *batchv1.Job {
	c := experimentContainer(in, v1alpha1.ComponentCoordinator, "lancet")
	c.Resources = orDefault(in.Experiment.Spec.CoordinatorResources, coordinatorDefault)
	c.Args = []string{
		lancetDir + "/definition/definition.yaml", "--agent-token-file=" + lancetDir + "/token/token",
		fmt.Sprintf("--agent-wait=%d", agentWaitSeconds), "--summary=" + corev1.TerminationMessagePathDefault,
	}
	agents := AgentsName(in.Experiment)
	for i := range in.Experiment.Spec.Agents {
		c.Args = append(c.Args, fmt.Sprintf("--agent=%s-%d.%s.%s.svc:%d", agents, i, agents, in.Experiment.Namespace, agentPort))
	}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "definition", MountPath: lancetDir + "/definition", ReadOnly: true})
	job := experimentJob(in, CoordinatorName(in.Experiment), v1alpha1.ComponentCoordinator, c)
	job.Spec.Template.Spec.Volumes = append(job.Spec.Template.Spec.Volumes, corev1.Volume{
		Name: "definition", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: in.Experiment.Name + "-definition"},
		}},
	})
	return job
}

// experimentJob runs once: a measurement that was cut short is not resumed but
// reported.
func experimentJob(in ExperimentInput, name, component string, c corev1.Container) *batchv1.Job {
	m := experimentMeta(in, name, component)
	versioned(m.Labels, in.Version)
	limit := in.Seconds + experimentSlackSeconds
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: m,
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr[int32](0), ActiveDeadlineSeconds: &limit,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: m.Labels},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr(false), EnableServiceLinks: ptr(false),
					ImagePullSecrets: PullSecrets(in.Experiment.Spec.ImagePullSecrets),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: ptr(true), RunAsUser: ptr[int64](userID), RunAsGroup: ptr[int64](userID), FSGroup: ptr[int64](userID),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{c},
					Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{
						Secret: &corev1.SecretVolumeSource{SecretName: TokenName(in.Experiment), DefaultMode: ptr[int32](0o440)},
					}}},
				},
			},
		},
	}
}

func experimentContainer(in ExperimentInput, name, image string) corev1.Container {
	return corev1.Container{
		Name: name, Image: fmt.Sprintf("%s/bobtail/%s:%s", in.Registry, image, in.Version), ImagePullPolicy: corev1.PullIfNotPresent,
		VolumeMounts: []corev1.VolumeMount{{Name: "token", MountPath: lancetDir + "/token", ReadOnly: true}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr(false), ReadOnlyRootFilesystem: ptr(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}
