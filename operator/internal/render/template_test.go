// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// byComponent are the Deployments of an input, by component.
func byComponent(in Input) map[string]*appsv1.Deployment {
	out := map[string]*appsv1.Deployment{}
	for _, o := range Objects(in) {
		if d, ok := o.(*appsv1.Deployment); ok {
			out[d.Labels[v1alpha1.LabelComponent]] = d
		}
	}
	return out
}

func container(t *testing.T, pod corev1.PodSpec, name string) corev1.Container {
	t.Helper()
	all := slices.Concat(pod.InitContainers, pod.Containers)
	i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no container %s", name)
	}
	return all[i]
}

// K-10: everything of a template is in the pods, and nothing of ours is lost by it.
func TestK10ATemplateIsMerged(t *testing.T) {
	in := load(t, "testdata/podtemplate.in.yaml")
	without := load(t, "testdata/podtemplate.in.yaml")
	without.Service.Spec.Server.PodTemplate, without.Service.Spec.Router.PodTemplate = nil, nil
	server, plain := byComponent(in)["server"].Spec.Template, byComponent(without)["server"].Spec.Template
	hasAll(t, "labels", server.Labels, map[string]string{"team": "shop", "cost-centre": "42"})
	hasAll(t, "labels", server.Labels, plain.Labels)
	hasAll(t, "annotations", server.Annotations, map[string]string{"example.com/owner": "shop"})
	hasAll(t, "annotations", server.Annotations, plain.Annotations)
	pod := server.Spec
	for what, ok := range map[string]bool{
		"tolerations":       len(pod.Tolerations) == 1 && pod.Tolerations[0].Key == "dedicated",
		"affinity":          pod.Affinity != nil && pod.Affinity.NodeAffinity != nil,
		"priority":          pod.PriorityClassName == "important",
		"runtime class":     *pod.RuntimeClassName == "gvisor",
		"account":           pod.ServiceAccountName == "shop",
		"grace":             *pod.TerminationGracePeriodSeconds == 60,
		"security":          *pod.SecurityContext.FSGroup == 7 && *pod.SecurityContext.RunAsUser == userID,
		"pull secrets":      len(pod.ImagePullSecrets) == 1 && pod.ImagePullSecrets[0].Name == "pull",
		"node selector":     pod.NodeSelector["zone"] == "a",
		"gates of both":     len(pod.ReadinessGates) == 2 && slices.Contains(pod.ReadinessGates, corev1.PodReadinessGate{ConditionType: v1alpha1.PodConditionJoined}),
		"our init is first": pod.InitContainers[0].Name == sidecarName && pod.InitContainers[1].Name == "warm",
		"server is first":   pod.Containers[0].Name == "server" && pod.Containers[1].Name == "log-shipper",
		"token":             !*pod.AutomountServiceAccountToken,
	} {
		if !ok {
			t.Errorf("%s: not as it should be", what)
		}
	}
	for _, c := range pod.TopologySpreadConstraints {
		if c.TopologyKey == corev1.LabelHostname && (c.WhenUnsatisfiable != corev1.DoNotSchedule || c.LabelSelector == nil) {
			t.Errorf("spread over nodes: %+v, want ours with the template's word for what cannot be satisfied", c)
		}
	}
	if n := len(pod.TopologySpreadConstraints); n != 2 {
		t.Errorf("%d constraints, want ours and the zone's", n)
	}
	for _, v := range plain.Spec.Volumes {
		if !slices.ContainsFunc(pod.Volumes, func(o corev1.Volume) bool { return o.Name == v.Name }) {
			t.Errorf("volume %s is lost", v.Name)
		}
	}
	router := byComponent(in)["router"].Spec.Template
	if router.Labels["team"] != "net" || len(router.Spec.Tolerations) != 1 || router.Spec.PriorityClassName != "system-cluster-critical" {
		t.Errorf("the router: %v, %+v", router.Labels, router.Spec)
	}
}

// K-10: the container of the server is ours with theirs in it; its arguments mean what
// the short field means, and a probe has one handler.
func TestK10TheServerContainer(t *testing.T) {
	in := load(t, "testdata/podtemplate.in.yaml")
	c := container(t, byComponent(in)["server"].Spec.Template.Spec, "server")
	short := load(t, "testdata/podtemplate.in.yaml")
	short.Service.Spec.Server.PodTemplate, short.Service.Spec.Server.Image = nil, "registry.example/shop/tuned:2"
	short.Service.Spec.Server.Args = []string{"--verbose"}
	same := container(t, byComponent(short)["server"].Spec.Template.Spec, "server")
	if !slices.Equal(c.Args, same.Args) || c.Image != same.Image || c.ImagePullPolicy != same.ImagePullPolicy || len(c.Args) < 2 {
		t.Errorf("%s %q, want %s %q", c.Image, c.Args, same.Image, same.Args)
	}
	for _, e := range same.Env {
		if !slices.ContainsFunc(c.Env, func(o corev1.EnvVar) bool { return o.Name == e.Name && o.Value == e.Value }) {
			t.Errorf("variable %s is lost", e.Name)
		}
	}
	if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil }) || len(c.EnvFrom) != 1 {
		t.Errorf("%+v, %+v", c.Env, c.EnvFrom)
	}
	for name, p := range map[string]*corev1.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe} {
		if p == nil || p.Exec == nil || p.HTTPGet != nil {
			t.Errorf("%s probe %+v, want the template's alone", name, p)
		}
	}
	if c.StartupProbe.FailureThreshold != 9 || c.StartupProbe.PeriodSeconds != same.StartupProbe.PeriodSeconds {
		t.Errorf("start-up probe %+v, want nine failures and our period", c.StartupProbe)
	}
	if c.Resources.Requests.Cpu().String() != "1" || c.Resources.Limits.Memory().String() != "1Gi" || len(c.Ports) != 2 || len(c.VolumeMounts) != len(same.VolumeMounts)+1 {
		t.Errorf("%+v", c)
	}
	if !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation {
		t.Errorf("%+v", c.SecurityContext)
	}
	tcp := container(t, byComponent(load(t, "testdata/podtemplate-tcp.in.yaml"))["server"].Spec.Template.Spec, "server")
	if tcp.ReadinessProbe.TCPSocket != nil || tcp.ReadinessProbe.Exec == nil || tcp.Lifecycle.PreStop.Sleep != nil || tcp.Lifecycle.PreStop.Exec == nil || tcp.LivenessProbe == nil {
		t.Errorf("over TCP: %+v, %+v", tcp.ReadinessProbe, tcp.Lifecycle.PreStop)
	}
}

// K-10: a sidecar that reads as an account of the user's may read its ConfigMap.
func TestK10AnAccountOfTheUsersMayReadTheConfiguration(t *testing.T) {
	for _, o := range Objects(load(t, "testdata/podtemplate.in.yaml")) {
		if b, ok := o.(*rbacv1.RoleBinding); ok {
			if len(b.Subjects) != 2 || b.Subjects[0].Name != "tuned-sidecar" || b.Subjects[1].Name != "shop" {
				t.Errorf("%+v", b.Subjects)
			}
			return
		}
	}
	t.Error("no RoleBinding")
}

// K-10: agents of an experiment, which keep the names they are dialled by.
func TestK10AgentsOfAnExperiment(t *testing.T) {
	in := experimentInput(t, "testdata/experiment/podtemplate.in.yaml")
	in.Experiment.Spec.AgentPodTemplate.Spec.Hostname = "other"
	for _, o := range ExperimentObjects(in) {
		job, ok := o.(*batchv1.Job)
		if !ok {
			continue
		}
		agent := job.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentAgent
		pod := job.Spec.Template
		if (pod.Labels["team"] == "shop") != agent || (len(pod.Spec.Tolerations) == 1) != agent || (pod.Spec.PriorityClassName == "important") != agent {
			t.Errorf("%s: %v %+v", job.Name, pod.Labels, pod.Spec)
		}
		if agent && (pod.Spec.Hostname != "" || pod.Spec.Subdomain != AgentsName(in.Experiment) || pod.Spec.RestartPolicy != corev1.RestartPolicyNever) {
			t.Errorf("%s: %q.%q, %s", job.Name, pod.Spec.Hostname, pod.Spec.Subdomain, pod.Spec.RestartPolicy)
		}
	}
}

// K-5: under a quota on them, every container that we add says what it takes and what
// it may not exceed; what is given takes the place of a default, and a half that is
// given is kept to.
func TestK5EveryContainerWeAddHasRequestsAndLimits(t *testing.T) {
	quota := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	check := func(where string, r corev1.ResourceRequirements) {
		for _, name := range quota {
			asked, limit := r.Requests[name], r.Limits[name]
			if asked.IsZero() || limit.IsZero() || limit.Cmp(asked) < 0 {
				t.Errorf("%s: %s: request %s, limit %s", where, name, asked.String(), limit.String())
			}
		}
	}
	in := load(t, "testdata/minimal.in.yaml")
	for component, d := range byComponent(in) {
		check(component, container(t, d.Spec.Template.Spec, sidecarName).Resources)
	}
	half := resource.MustParse("600m")
	in.Service.Spec.SidecarResources = &v1alpha1.Resources{Requests: corev1.ResourceList{corev1.ResourceCPU: half, corev1.ResourceMemory: resource.MustParse("8Mi"), corev1.ResourceEphemeralStorage: resource.MustParse("1Mi")}}
	got := container(t, byComponent(in)["server"].Spec.Template.Spec, sidecarName).Resources
	check("with requests alone", got)
	if got.Requests.Cpu().Cmp(half) != 0 || got.Limits.Cpu().Cmp(half) != 0 || got.Limits.Memory().String() != "128Mi" {
		t.Errorf("requests alone: %+v", got)
	}
	e := experimentInput(t, "testdata/experiment/podtemplate.in.yaml")
	for _, o := range ExperimentObjects(e) {
		if job, ok := o.(*batchv1.Job); ok && job.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentCoordinator {
			if r := job.Spec.Template.Spec.Containers[0].Resources; r.Requests.Memory().String() != "32Mi" || r.Limits.Memory().String() != "32Mi" {
				t.Errorf("limits alone: %+v", r)
			}
		}
	}
	sriov := load(t, "testdata/sriov.in.yaml")
	sriov.Service.Spec.SidecarResources = &v1alpha1.Resources{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m")}}
	if r := container(t, byComponent(sriov)["server"].Spec.Template.Spec, sidecarName).Resources; r.Requests.Cpu().String() != "300m" || r.Limits.Cpu().String() != "300m" {
		t.Errorf("beside a device: %+v", r)
	}
}
