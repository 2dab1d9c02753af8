// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// K-34: what users set on pods of other charts reaches the operator's pods, and those of
// the agents; labels that selectors ask for stay.
func TestPodSettings(t *testing.T) {
	rendered := template(t, "bobtail", "--values", "testdata/custom.values.yaml")
	d := documents[appsv1.Deployment](t, rendered, "Deployment")[0]
	agent := documents[appsv1.DaemonSet](t, rendered, "DaemonSet")[0]
	for name, pod := range map[string]struct {
		corev1.PodTemplateSpec
		selector          map[string]string
		team, note, level string
	}{
		"operator": {d.Spec.Template, d.Spec.Selector.MatchLabels, "rpc", "x", "--health-probe-bind-address=:8082"},
		"agent":    {agent.Spec.Template, agent.Spec.Selector.MatchLabels, "net", "why", "--uplink=eth1"},
	} {
		for key, want := range pod.selector {
			if pod.Labels[key] != want {
				t.Errorf("%s: label %s is %q: the selector finds no pod", name, key, pod.Labels[key])
			}
		}
		args := pod.Spec.Containers[0].Args
		if pod.Labels["team"] != pod.team || pod.Annotations["note"] != pod.note || pod.Annotations["kubectl.kubernetes.io/default-container"] != name ||
			pod.Spec.Affinity == nil || !slices.Contains(args, "--log-level=debug") || args[len(args)-1] != pod.level {
			t.Errorf("%s: labels %v, annotations %v, affinity %v, arguments %q", name, pod.Labels, pod.Annotations, pod.Spec.Affinity, args)
		}
	}
	if s := d.Spec.Template.Spec.TopologySpreadConstraints; len(s) != 1 || s[0].TopologyKey != "zone" {
		t.Errorf("spread %+v", s)
	}
	for _, a := range documents[corev1.ServiceAccount](t, rendered, "ServiceAccount") {
		if a.Name == "bobtail-operator" && a.Annotations["eks.amazonaws.com/role-arn"] != "arn:x" {
			t.Errorf("the account's annotations: %v", a.Annotations)
		}
	}
}

// K-34: without them the operators spread over nodes by themselves, and nothing is said
// about the log.
func TestPodSettingsByDefault(t *testing.T) {
	d := documents[appsv1.Deployment](t, template(t, "bobtail"), "Deployment")[0].Spec.Template
	if s := d.Spec.TopologySpreadConstraints; len(s) != 1 || s[0].TopologyKey != corev1.LabelHostname || s[0].WhenUnsatisfiable != corev1.ScheduleAnyway {
		t.Errorf("spread %+v", s)
	}
	if d.Spec.Affinity != nil || strings.Contains(strings.Join(d.Spec.Containers[0].Args, " "), "log-level") {
		t.Errorf("affinity %v, arguments %q", d.Spec.Affinity, d.Spec.Containers[0].Args)
	}
}

// K-34: null never opens a policy.
func TestNullNeverWidensThePolicy(t *testing.T) {
	policy := func(args ...string) networkingv1.NetworkPolicySpec {
		all := documents[networkingv1.NetworkPolicy](t, template(t, "bobtail", args...), "NetworkPolicy")
		if len(all) != 1 {
			t.Fatalf("%v: %d policies", args, len(all))
		}
		return all[0].Spec
	}
	want := policy()
	for _, set := range []string{"networkPolicy=null", "networkPolicy.apiServerPorts=null", "networkPolicy.enabled=null", "crab=null"} {
		got := policy("--set", set)
		if got.String() != want.String() {
			t.Errorf("%s: %v, want %v", set, got, want)
		}
		for _, rule := range got.Egress {
			if len(rule.Ports) == 0 {
				t.Errorf("%s: a rule lets out everything: %v", set, rule)
			}
		}
	}
}

// K-32: pull secrets as in a pod, or by name as in earlier charts; digests pin images.
func TestPullSecretsAndDigests(t *testing.T) {
	for _, set := range []string{"imagePullSecrets={a,b}", "imagePullSecrets[0].name=a,imagePullSecrets[1]=b", "imagePullSecrets[0].name=a,imagePullSecrets[1].name=b"} {
		rendered := template(t, "bobtail", "--set", "crab.enabled=true", "--set", set)
		pods := ownPods(t, rendered)
		pods["test"] = corev1.PodTemplateSpec{Spec: documents[corev1.Pod](t, rendered, "Pod")[0].Spec}
		for name, pod := range pods {
			if s := pod.Spec.ImagePullSecrets; len(s) != 2 || s[0].Name != "a" || s[1].Name != "b" {
				t.Errorf("%s: %s: %v", set, name, s)
			}
		}
	}
	for _, set := range []string{"imagePullSecrets[0].nme=a", "imagePullSecrets[0]=A_B", "image.digests.operator=latest", "image.digests.router=sha256:1", "logLevel=loud", "extraArgs={x}"} {
		if _, err := run(t, "bobtail", "--set", set); err == nil {
			t.Errorf("--set %s is accepted", set)
		}
	}
	digest := "sha256:" + strings.Repeat("3", 64)
	d := documents[appsv1.Deployment](t, template(t, "bobtail", "--set", "image.digests.operator="+digest), "Deployment")[0]
	if got := d.Spec.Template.Spec.Containers[0].Image; got != "localhost/bobtail/operator:0.2.0@"+digest {
		t.Errorf("image %s", got)
	}
}
