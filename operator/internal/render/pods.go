// SPDX-License-Identifier: Apache-2.0

// The two Deployments. Server and router pods have the same bones (sidecar,
// control socket, keys, certificate), written once here.
package render

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// ownAddress is how a program on the pod network is told its address.
const ownAddress = "--address=$(POD_IP)"

const sidecarName = "sidecar"

// Names of the volumes.
const (
	runVolume   = "run"
	keysVolume  = "keys"
	tlsVolume   = "tls"
	tokenVolume = "token"
)

func serverDeployment(in Input) *appsv1.Deployment {
	s := in.Service
	pod := podSpec(in, serverContainer(in))
	pod.NodeSelector = v1alpha1.Plain(s.Spec.Server.NodeSelector)
	// A server is ready when the routers send it requests, which its own
	// container cannot know.
	pod.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: v1alpha1.PodConditionJoined}}
	pod.TopologySpreadConstraints = spread(s, v1alpha1.ComponentServer)
	pod = onItsCores(in, onItsDevice(in, merged(pod, serverTemplate(s))))
	d := deployment(in, ServerName(s), v1alpha1.ComponentServer, Replicas(s), pod)
	described(&d.Spec.Template, s.Spec.Server.PodTemplate)
	d.Spec.Template.Annotations[AnnotationWorkers] = strconv.Itoa(int(s.Spec.Lanes()))
	markCores(in, &d.Spec.Template)
	return d
}

func routerDeployment(in Input) *appsv1.Deployment {
	s := in.Service
	pod := podSpec(in, routerContainer(in))
	pod.TopologySpreadConstraints = spread(s, v1alpha1.ComponentRouter)
	pod = onItsDevice(in, merged(pod, s.Spec.Router.PodTemplate))
	d := deployment(in, RouterName(s), v1alpha1.ComponentRouter, s.Spec.Router.Replicas, pod)
	described(&d.Spec.Template, s.Spec.Router.PodTemplate)
	// Clients look the name up every 2 s: an old router may go only when all
	// of them have had the time to find the new one.
	d.Spec.MinReadySeconds = 5
	return d
}

// spread puts the pods of a component on different nodes where it can.
func spread(s *v1alpha1.RpcService, component string) []corev1.TopologySpreadConstraint {
	return []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector:  &metav1.LabelSelector{MatchLabels: Selector(s.Name, component)},
		MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
	}}
}

func deployment(in Input, name, component string, replicas int32, pod corev1.PodSpec) *appsv1.Deployment {
	selector := Selector(in.of().GetName(), component)
	m := meta(in, name, component)
	if in.Group != nil || !ByCRAB(in.Service) {
		versioned(m.Labels, in.Version)
	}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: m,
		Spec: appsv1.DeploymentSpec{
			Replicas:             &replicas,
			Selector:             &metav1.LabelSelector{MatchLabels: selector},
			RevisionHistoryLimit: ptr[int32](3),
			// A new pod takes over before an old one leaves, so that a rolling
			// restart never lowers capacity.
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: rolling(in),
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: m.Labels, Annotations: podAnnotations(in, component)},
				Spec:       pod,
			},
		},
	}
}

// rolling is one pod more for a while, or one less where nothing is spare.
func rolling(in Input) *appsv1.RollingUpdateDeployment {
	surge, unavailable := int32(1), int32(0)
	if in.WithoutSurge {
		surge, unavailable = 0, 1
	}
	return &appsv1.RollingUpdateDeployment{MaxSurge: ptr(intstr.FromInt32(surge)), MaxUnavailable: ptr(intstr.FromInt32(unavailable))}
}

func podAnnotations(in Input, component string) map[string]string {
	out := map[string]string{"kubectl.kubernetes.io/default-container": component}
	if account := in.Accounts[component]; account != "" {
		out[AnnotationAccount] = account
	}
	if !OnKernel(in.Device) {
		deviceAnnotations(in, out)
	}
	return out
}

func podSpec(in Input, main corev1.Container) corev1.PodSpec {
	pod := barePod(in, main)
	pod.ServiceAccountName = SidecarName(in.of())
	pod.InitContainers = []corev1.Container{sidecarContainer(in)}
	pod.Volumes = volumes(in)
	return pod
}

// onItsDevice comes after the template: what a device needs goes by what the template
// asks for.
func onItsDevice(in Input, pod corev1.PodSpec) corev1.PodSpec {
	if !OnKernel(in.Device) {
		onDevice(in, &pod)
	}
	return pod
}

// barePod is a pod without a sidecar.
func barePod(in Input, main corev1.Container) corev1.PodSpec {
	return corev1.PodSpec{
		// A token is mounted into a sidecar alone: what executes the user's code
		// has no business with the API server.
		AutomountServiceAccountToken:  ptr(false),
		EnableServiceLinks:            ptr(false),
		TerminationGracePeriodSeconds: ptr[int64](graceSeconds),
		ImagePullSecrets:              PullSecrets(in.pullSecrets()),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr(true), RunAsUser: ptr[int64](userID), RunAsGroup: ptr[int64](userID),
			FSGroup:        ptr[int64](userID),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{main},
	}
}

// PullSecrets are references as pods want them.
func PullSecrets(of []v1alpha1.SecretReference) []corev1.LocalObjectReference {
	var pull []corev1.LocalObjectReference
	for _, r := range of {
		pull = append(pull, corev1.LocalObjectReference{Name: r.Name})
	}
	return pull
}

func serverContainer(in Input) corev1.Container {
	spec, _ := serverSpec(in.Service)
	c := dataplaneContainer(v1alpha1.ComponentServer, spec.Image)
	c.ImagePullPolicy = spec.ImagePullPolicy
	c.Command = spec.Command
	c.Resources = requirements(spec.Resources)
	for _, e := range spec.Env {
		c.Env = append(c.Env, corev1.EnvVar{Name: e.Name, Value: e.Value})
	}
	if TCP(in.Service) {
		pastKernel(&c, in.Service)
	} else {
		ofWorkers(&c, in.Service)
	}
	c.Args = append(c.Args, spec.Args...)
	// The root file system stays writable: the image is the user's.
	c.SecurityContext.ReadOnlyRootFilesystem = nil
	return c
}

// ofWorkers are the options and ports of a server of R2P2.
func ofWorkers(c *corev1.Container, s *v1alpha1.RpcService) {
	c.Env = append(c.Env,
		corev1.EnvVar{Name: "BOBTAIL_PORT", Value: strconv.Itoa(WorkerPort)},
		corev1.EnvVar{Name: "BOBTAIL_WORKERS", Value: strconv.Itoa(int(s.Spec.Lanes()))},
	)
	if len(c.Command) == 0 {
		c.Args = []string{
			ownAddress, "--port=$(BOBTAIL_PORT)", "--workers=$(BOBTAIL_WORKERS)",
			"--ctl=" + ctlPath, "--key-dir=" + keyDir, "--config-cache=" + cacheFn,
		}
	}
	for i := range s.Spec.Lanes() {
		c.Ports = append(c.Ports, corev1.ContainerPort{
			Name: "worker-" + strconv.Itoa(int(i)), ContainerPort: WorkerPort + i, Protocol: corev1.ProtocolUDP,
		})
	}
}

func routerContainer(in Input) corev1.Container {
	c := dataplaneContainer(v1alpha1.ComponentRouter, in.image("router"))
	c.ImagePullPolicy = corev1.PullIfNotPresent
	c.Args = []string{
		ownAddress,
		"--request-port=" + strconv.Itoa(RequestPort), "--feedback-port=" + strconv.Itoa(FeedbackPort),
		"--ctl=" + ctlPath, "--key-dir=" + keyDir, "--config-cache=" + cacheFn,
	}
	c.Ports = []corev1.ContainerPort{
		{Name: "requests", ContainerPort: RequestPort, Protocol: corev1.ProtocolUDP},
		{Name: "feedback", ContainerPort: FeedbackPort, Protocol: corev1.ProtocolUDP},
	}
	if OnKernel(in.Device) {
		c.Resources = resources("50m", "64Mi", "")
	}
	c.ReadinessProbe, c.LivenessProbe = goesRound("router", 5, 2), goesRound("router", 15, 4)
	if r := in.Service.Spec.Router.Resources; r != nil {
		c.Resources = requirements(*r)
	}
	if Forwarding(in.Service) == v1alpha1.ForwardingTransparent && OnKernel(in.Device) {
		// Sending with the client's address needs a raw socket.
		grant(&c, "NET_RAW")
	}
	if in.FastPath {
		c.Args = append(c.Args, "--fast-path=auto")
		grant(&c, fastPathCapabilities...)
	}
	return c
}

// goesRound asks the own loop of a router, box or aggregator, through its control
// socket, and needs nobody else: a sidecar that is gone takes no router out. One that
// hangs leaves the addresses of the service within seconds, and is started again within
// a minute or so.
func goesRound(program string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/usr/bin/bobtail-" + program, "--alive=" + ctlPath}}},
		PeriodSeconds: period, TimeoutSeconds: 5, FailureThreshold: failures, SuccessThreshold: 1,
	}
}

// grant gives a container capabilities, which container runtimes give to root only.
func grant(c *corev1.Container, capabilities ...corev1.Capability) {
	c.SecurityContext.RunAsNonRoot = ptr(false)
	c.SecurityContext.RunAsUser = ptr[int64](0)
	c.SecurityContext.Capabilities.Add = append(c.SecurityContext.Capabilities.Add, capabilities...)
}

// dataplaneContainer is what router and server containers share.
func dataplaneContainer(name, image string) corev1.Container {
	return corev1.Container{
		Name: name, Image: image,
		Env: []corev1.EnvVar{
			podIP(),
			{Name: "BOBTAIL_CTL", Value: ctlPath},
			{Name: "BOBTAIL_KEY_DIR", Value: keyDir},
			{Name: "BOBTAIL_CONFIG_CACHE", Value: cacheFn},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: runVolume, MountPath: runDir},
			{Name: keysVolume, MountPath: keyDir, ReadOnly: true},
		},
		// A start-up probe, not a readiness probe: once configured, the
		// dataplane serves whether or not its sidecar is well.
		StartupProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: "/readyz", Port: intstr.FromInt32(MetricsPort), Scheme: corev1.URISchemeHTTP,
			}},
			PeriodSeconds: 1, TimeoutSeconds: 2, FailureThreshold: 600, SuccessThreshold: 1,
		},
		SecurityContext: restricted(),
	}
}

func podIP() corev1.EnvVar {
	return corev1.EnvVar{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}}
}

// sidecarContainer is a native sidecar: it starts first and ends last, so that
// a draining dataplane can still be seen.
func sidecarContainer(in Input) corev1.Container {
	s := in.of()
	c := corev1.Container{
		Name: sidecarName, Image: in.image("sidecar"), ImagePullPolicy: corev1.PullIfNotPresent,
		RestartPolicy: ptr(corev1.ContainerRestartPolicyAlways),
		Args: []string{
			"--ctl=" + ctlPath, "--configmap=" + s.GetNamespace() + "/" + ConfigMapName(s), "--tls-dir=" + tlsDir,
			"--listen=:" + strconv.Itoa(SidecarPort), "--metrics-listen=:" + strconv.Itoa(MetricsPort),
		},
		Ports: []corev1.ContainerPort{
			{Name: "sidecar", ContainerPort: SidecarPort, Protocol: corev1.ProtocolTCP},
			{Name: "metrics", ContainerPort: MetricsPort, Protocol: corev1.ProtocolTCP},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: runVolume, MountPath: runDir},
			{Name: tlsVolume, MountPath: tlsDir, ReadOnly: true},
			{Name: tokenVolume, MountPath: tokenDir, ReadOnly: true},
		},
		Resources:       orDefault(in.sidecarResources(), sidecarDefault),
		SecurityContext: restricted(),
	}
	if in.OTLPEndpoint != "" {
		c.Args = append(c.Args, "--otlp-endpoint="+in.OTLPEndpoint)
	}
	return c
}

func restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr(false), ReadOnlyRootFilesystem: ptr(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}
