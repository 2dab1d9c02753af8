// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// The agent's rights, every one of them: on each node of the cluster somebody may
// come to have them.
var (
	agentRights = []string{
		"bobtail.dev/nodedataplanes/status: patch",
		"bobtail.dev/nodedataplanes: create list patch watch",
		"core/nodes: list watch",
		"core/services: list watch",
		"discovery.k8s.io/endpointslices: list watch",
		"events.k8s.io/events: create patch",
	}
	agentNamespaceRights = []string{"core/secrets[bobtail-heartbeat]: get update"}
	// e2e/crab tries that the agent works with these and with no fewer.
	agentCapabilities = []corev1.Capability{"BPF", "NET_ADMIN", "NET_RAW", "PERFMON"}
)

func TestAgentRightsArePinned(t *testing.T) {
	rendered := template(t, "bobtail", "--set", "crab.enabled=true")
	found := 0
	for _, role := range documents[rbacv1.ClusterRole](t, rendered, "ClusterRole") {
		if role.Name == "bobtail-agent" {
			found++
			if got := rights(role.Rules); !slices.Equal(got, agentRights) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(agentRights, "\n  "))
			}
		}
	}
	for _, role := range documents[rbacv1.Role](t, rendered, "Role") {
		if role.Name == "bobtail-agent" {
			found++
			if got := rights(role.Rules); !slices.Equal(got, agentNamespaceRights) {
				t.Errorf("got %q, want %q", got, agentNamespaceRights)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d roles of the agent", found)
	}
}

// Least privilege on the node: no more than the programs need.
func TestAgentPodIsPinned(t *testing.T) {
	sets := documents[appsv1.DaemonSet](t, template(t, "bobtail", "--set", "crab.enabled=true"), "DaemonSet")
	if len(sets) != 1 {
		t.Fatalf("%d DaemonSets", len(sets))
	}
	pod := sets[0].Spec.Template.Spec
	if !pod.HostNetwork || pod.HostPID || pod.HostIPC || len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
		t.Errorf("the pod has more of the host than its network, or other containers")
	}
	c := pod.Containers[0].SecurityContext
	if c.Privileged != nil && *c.Privileged || *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem {
		t.Errorf("security context %+v", c)
	}
	if !slices.Equal(c.Capabilities.Add, agentCapabilities) || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("capabilities %v, drop %v", c.Capabilities.Add, c.Capabilities.Drop)
	}
	if pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("seccomp %v", pod.SecurityContext.SeccompProfile)
	}
	if len(pod.Volumes) != 3 || pod.Volumes[2].HostPath == nil || pod.Volumes[2].HostPath.Path != "/sys/fs/bpf" {
		t.Errorf("volumes %+v", pod.Volumes)
	}
	for i, name := range []string{"bobtail-heartbeat", "bobtail-agent-tls"} {
		if s := pod.Volumes[i].Secret; s == nil || s.SecretName != name || *s.DefaultMode != 0o400 {
			t.Errorf("volume %d: %+v, want Secret %s for root alone", i, s, name)
		}
		// Telemetry does not take the dataplane down: pods wait for a key, for no certificate.
		if s := pod.Volumes[i].Secret; (s.Optional != nil && *s.Optional) != (name == "bobtail-agent-tls") {
			t.Errorf("Secret %s: optional %v", name, s.Optional)
		}
	}
	if m := pod.Containers[0].VolumeMounts; len(m) != 3 || !m[1].ReadOnly || m[1].MountPath != "/etc/bobtail/heartbeat" || !m[2].ReadOnly || m[2].MountPath != "/etc/bobtail/tls" {
		t.Errorf("mounts %+v", m)
	}
}

// The operator looks for the agents where they listen, and its policy lets it; what
// it writes for them is there to be written.
func TestOperatorReachesAgents(t *testing.T) {
	rendered := template(t, "bobtail", "--set", "crab.enabled=true", "--set", "crab.connectsPort=9999")
	agent := documents[appsv1.DaemonSet](t, rendered, "DaemonSet")[0].Spec.Template.Spec.Containers[0]
	operator := documents[appsv1.Deployment](t, rendered, "Deployment")[0].Spec.Template.Spec.Containers[0]
	if !slices.Contains(agent.Args, "--connects-port=9999") || !slices.Contains(operator.Args, "--crab-agent-port=9999") {
		t.Errorf("arguments %q, %q", agent.Args, operator.Args)
	}
	if !slices.ContainsFunc(agent.Ports, func(p corev1.ContainerPort) bool {
		return p.Name == "connects" && p.HostPort == 9999 && p.ContainerPort == 9999
	}) {
		t.Errorf("ports %+v", agent.Ports)
	}
	ports := func(rendered string) (out []int32) {
		for _, rule := range documents[networkingv1.NetworkPolicy](t, rendered, "NetworkPolicy")[0].Spec.Egress {
			for _, p := range rule.Ports {
				if len(rule.To) == 0 {
					out = append(out, p.Port.IntVal)
				}
			}
		}
		return out
	}
	without := ports(template(t, "bobtail", "--set", "crab.connectsPort=9999"))
	if with := ports(rendered); !slices.Equal(with, append(slices.Clone(without), 9999)) {
		t.Errorf("the operator may reach any address at %v, without CRAB at %v", with, without)
	}
	for _, s := range documents[corev1.Secret](t, rendered, "Secret") {
		if s.Name == "bobtail-agent-tls" && len(s.Data)+len(s.StringData) == 0 {
			return
		}
	}
	t.Error("no empty Secret for the agents' certificate")
}

// C-7: the option's kind is a value; values of a release that knew none of it mean its default (K-8).
func TestOptionKind(t *testing.T) {
	for set, want := range map[string]string{"crab.enabled=true": "--option-kind=42 --option-exid=0",
		"crab.option.kind=253,crab.option.exid=4660": "--option-kind=253 --option-exid=4660", "crab.option=null": "--option-kind=42 --option-exid=0"} {
		sets := documents[appsv1.DaemonSet](t, template(t, "bobtail", "--set", "crab.enabled=true", "--set", set), "DaemonSet")
		if len(sets) != 1 {
			t.Fatalf("%d DaemonSets", len(sets))
		}
		var got []string
		for _, arg := range sets[0].Spec.Template.Spec.Containers[0].Args {
			if strings.HasPrefix(arg, "--option-") {
				got = append(got, arg)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", set, got, want)
		}
	}
}

// C-80: the tunnel is a value, Off unless asked for; values of a release that knew none mean that, too (K-8).
func TestTunnel(t *testing.T) {
	for set, want := range map[string]string{"crab.enabled=true": "--tunnel=Off", "crab.tunnel=Open": "--tunnel=Open", "crab.tunnel=On": "--tunnel=On", "crab.tunnel=null": "--tunnel=Off"} {
		sets := documents[appsv1.DaemonSet](t, template(t, "bobtail", "--set", "crab.enabled=true", "--set", set), "DaemonSet")
		got := ""
		for _, arg := range sets[0].Spec.Template.Spec.Containers[0].Args {
			if strings.HasPrefix(arg, "--tunnel") {
				got = arg
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", set, got, want)
		}
	}
	if out, err := run(t, "bobtail", "--set", "crab.enabled=true", "--set", "crab.tunnel=Maybe"); err == nil || !strings.Contains(out+err.Error(), "tunnel") {
		t.Errorf("a tunnel that agents refuse: %v\n%s", err, out)
	}
}

// C-7: a kind and a number that agents refuse are refused before there are agents.
func TestOptionKindAndNumberGoTogether(t *testing.T) {
	for _, set := range []string{"crab.option.kind=253", "crab.option.kind=254,crab.option.exid=0", "crab.option.exid=4660", "crab.option.kind=253,crab.option.exid=65535",
		"crab.option.kind=253,crab.option.exid=null"} {
		if out, err := run(t, "bobtail", "--set", "crab.enabled=true", "--set", set); err == nil {
			t.Errorf("%s renders", set)
		} else if !strings.Contains(out+err.Error(), "exid") {
			t.Errorf("%s: %v does not name the field\n%s", set, err, out)
		}
	}
}

// Nothing of it is there unless it is asked for.
func TestNoAgentByDefault(t *testing.T) {
	if rendered := template(t, "bobtail"); strings.Contains(rendered, "bobtail-agent") || strings.Contains(rendered, "bobtail-heartbeat") || strings.Contains(rendered, "9442") {
		t.Error("the default chart has parts of the agent")
	}
}

// What reads nodes may read one Node and write its own kind, nothing else.
func TestHostRightsArePinned(t *testing.T) {
	want := []string{"bobtail.dev/nodedataplanes/status: patch", "bobtail.dev/nodedataplanes: create patch", "core/nodes: get"}
	rendered := template(t, "bobtail", "--set", "nodes.enabled=true")
	found := 0
	for _, role := range documents[rbacv1.ClusterRole](t, rendered, "ClusterRole") {
		if role.Name == "bobtail-host" {
			found++
			if got := rights(role.Rules); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
	for _, role := range documents[rbacv1.Role](t, rendered, "Role") {
		if role.Name == "bobtail-host" {
			t.Errorf("a role of a namespace, too: %+v", role)
		}
	}
	if found != 1 {
		t.Errorf("%d roles", found)
	}
	if strings.Contains(template(t, "bobtail", "--set", "crab.enabled=true"), "bobtail-host") {
		t.Error("it is there without nodes.enabled")
	}
}

// What sets frequencies is there where it is asked for, writes one folder of the node, and
// has neither a token nor a right of root.
func TestFrequencyPodIsPinned(t *testing.T) {
	if strings.Contains(template(t, "bobtail", "--set", "nodes.enabled=true,crab.enabled=true"), "bobtail-frequency") {
		t.Error("it is there without nodes.frequency.enabled")
	}
	rendered := template(t, "bobtail", "--set", "nodes.frequency.enabled=true,nodes.frequency.floorPercent=70")
	sets := documents[appsv1.DaemonSet](t, rendered, "DaemonSet")
	if len(sets) != 1 || sets[0].Name != "bobtail-frequency" {
		t.Fatalf("%d DaemonSets", len(sets))
	}
	pod := sets[0].Spec.Template.Spec
	if pod.HostNetwork || pod.HostPID || pod.HostIPC || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || pod.ServiceAccountName != "" || len(pod.Containers) != 1 {
		t.Errorf("the pod has more than a folder: %+v", pod)
	}
	c := pod.Containers[0]
	s := c.SecurityContext
	if s.Privileged != nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || len(s.Capabilities.Add) != 0 || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("security context %+v", s)
	}
	if len(pod.Volumes) != 1 || pod.Volumes[0].HostPath == nil || pod.Volumes[0].HostPath.Path != "/sys/devices/system/cpu/cpufreq" || !slices.Contains(c.Args, "--floor-percent=70") {
		t.Errorf("volumes %+v, arguments %q", pod.Volumes, c.Args)
	}
}

// On the node it has the network to look at and one folder to read, and no capability. Root
// it is for the kubelet's socket alone.
func TestHostPodIsPinned(t *testing.T) {
	for set, want := range map[string]struct {
		user   int64
		folder string
	}{
		"nodes.enabled=true": {0, "/var/lib/kubelet/pod-resources"},
		"nodes.enabled=true,nodes.podResources=/k/pod-resources":      {0, "/k/pod-resources"},
		"nodes.enabled=true,nodes.podResources=,nodes.resources=null": {65532, ""},
	} {
		sets := documents[appsv1.DaemonSet](t, template(t, "bobtail", "--set", set), "DaemonSet")
		if len(sets) != 1 {
			t.Fatalf("%s: %d DaemonSets", set, len(sets))
		}
		pod := sets[0].Spec.Template.Spec
		if !pod.HostNetwork || pod.HostPID || pod.HostIPC || len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
			t.Errorf("%s: the pod has more of the host than its network, or other containers", set)
		}
		c := pod.Containers[0].SecurityContext
		if c.Privileged != nil || *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || len(c.Capabilities.Add) != 0 ||
			!slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) || *c.RunAsUser != want.user {
			t.Errorf("%s: security context %+v", set, c)
		}
		if pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: seccomp %v", set, pod.SecurityContext.SeccompProfile)
		}
		asks := slices.Contains(pod.Containers[0].Args, "--kubelet=/run/kubelet/kubelet.sock")
		if asks != (want.folder != "") || len(pod.Containers[0].Ports) != 0 {
			t.Errorf("%s: arguments %q, ports %v", set, pod.Containers[0].Args, pod.Containers[0].Ports)
		}
		switch {
		case want.folder == "" && len(pod.Volumes) == 0:
		case len(pod.Volumes) != 1 || pod.Volumes[0].HostPath == nil || pod.Volumes[0].HostPath.Path != want.folder || !pod.Containers[0].VolumeMounts[0].ReadOnly:
			t.Errorf("%s: volumes %+v", set, pod.Volumes)
		}
	}
}
