// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// deployments are the pods of every Deployment of an input, by component.
func deployments(in Input) map[string]appsv1.DeploymentSpec {
	out := map[string]appsv1.DeploymentSpec{}
	for _, o := range Objects(in) {
		if d, ok := o.(*appsv1.Deployment); ok {
			out[d.Labels[v1alpha1.LabelComponent]] = d.Spec
		}
	}
	return out
}

// Every word of the API is one that the dataplane's configuration knows, in its order.
func TestDeviceTypesAreTheDataplanes(t *testing.T) {
	var words []string
	for _, d := range v1alpha1.DeviceTypes {
		words = append(words, string(d))
	}
	if !slices.Equal(words, config.DeviceProfiles) {
		t.Errorf("%v, the dataplane's %v", words, config.DeviceProfiles)
	}
}

// An SR-IOV pod is Guaranteed by the kubelet's own rule: CPU and memory of every
// container, sidecars included, have requests equal to limits. Server and router
// containers have whole CPUs, so that the static CPU manager pins them.
func TestSRIOVPodsAreGuaranteed(t *testing.T) {
	for _, file := range []string{"sriov", "sriov-claim"} {
		for component, d := range deployments(load(t, "testdata/"+file+".in.yaml")) {
			pod := d.Template.Spec
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
					request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
					if request.IsZero() || request.Cmp(limit) != 0 {
						t.Errorf("%s: %s, container %s: %s: request %s, limit %s", file, component, c.Name, name, &request, &limit)
					}
				}
				if cpu := c.Resources.Limits[corev1.ResourceCPU]; c.Name != "sidecar" && cpu.MilliValue()%1000 != 0 {
					t.Errorf("%s: %s, container %s: %s CPUs are not whole", file, component, c.Name, &cpu)
				}
			}
		}
	}
}

func TestGuarantee(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		if cpu != "" {
			out[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			out[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return out
	}
	for _, c := range []struct {
		name             string
		requests, limits corev1.ResourceList
		cpu, memory      string
	}{
		{"nothing asked", nil, nil, "3", "256Mi"},
		{"a fraction is rounded up", list("1001m", ""), nil, "2", "256Mi"},
		{"less than one", list("1m", ""), nil, "1", "256Mi"},
		{"whole", list("", ""), list("4", "1Gi"), "4", "1Gi"},
		{"the larger counts", list("2", "2Gi"), list("3500m", "3Gi"), "4", "3Gi"},
	} {
		asked := c.requests.DeepCopy()
		container := corev1.Container{Name: "server", Resources: corev1.ResourceRequirements{Requests: c.requests, Limits: c.limits}}
		guarantee(&container, resource.MustParse("3"))
		for _, got := range []corev1.ResourceList{container.Resources.Requests, container.Resources.Limits} {
			if cpu, memory := got[corev1.ResourceCPU], got[corev1.ResourceMemory]; cpu.String() != c.cpu || memory.String() != c.memory {
				t.Errorf("%s: %s CPUs, %s", c.name, &cpu, &memory)
			}
		}
		if len(asked) != len(c.requests) {
			t.Errorf("%s: the service's own list was written to", c.name)
		}
	}
}

// By whom a program is told its device: a device plugin's variable, or a DRA driver's
// metadata of the pod's claim; and beside it by the network.
func TestWhoTellsTheDevice(t *testing.T) {
	for want, d := range map[string]v1alpha1.Device{
		"--dpdk-port=env:PCIDEVICE_EXAMPLE_COM_VF": {Type: v1alpha1.DeviceSRIOV, ResourceName: "example.com/vf"},
		"--dpdk-port=claim:" + claimName:           {Type: v1alpha1.DeviceSRIOV, ResourceClaimTemplateName: "vf"},
	} {
		if got := devicePort(d); !slices.Equal(got, []string{want, "--dpdk-pci-file=/run/bobtail/pci"}) {
			t.Errorf("%+v: %v", d, got)
		}
	}
}

// Pods on a device ask for the interface, the device and the hugepages, and only these.
func TestWhatDevicePodsAsk(t *testing.T) {
	for _, c := range []struct {
		file, networks, device string
		requests               map[corev1.ResourceName]string
		claims, args           []string
	}{
		{"afxdp", `[{"name":"data","namespace":"default","interface":"net1"}]`, "AFXDP default/data", nil, nil,
			[]string{"--address=@/run/bobtail/address", "--driver=dpdk", "--dpdk-port=net_af_xdp0,iface=net1,busy_budget=0", "--dpdk-hugepages=off"}},
		{"sriov", `[{"name":"vfs","namespace":"net-system","interface":"net1"}]`, "SRIOV net-system/vfs intel.com/sriov-vfs",
			map[corev1.ResourceName]string{"intel.com/sriov-vfs": "1", "hugepages-2Mi": "128Mi"}, nil,
			[]string{"--dpdk-port=env:PCIDEVICE_INTEL_COM_SRIOV_VFS", "--dpdk-gateway=10.77.0.254", "--dpdk-hugepages=auto"}},
		{"sriov-claim", `[{"name":"vfs","namespace":"default","interface":"net1"}]`, "SRIOV default/vfs claim vf", nil, []string{"device"}, nil},
		{"fallback", `[{"name":"data","namespace":"default","interface":"net1"}]`, "AFXDP default/data",
			map[corev1.ResourceName]string{"hugepages-1Gi": "1Gi"}, nil, []string{"--dpdk-hugepages=auto"}},
		{"fallback-kernel", "", "", nil, nil, []string{"--address=$(POD_IP)"}},
	} {
		for component, d := range deployments(load(t, "testdata/"+c.file+".in.yaml")) {
			a, main := d.Template.Annotations, d.Template.Spec.Containers[0]
			if a["k8s.v1.cni.cncf.io/networks"] != c.networks || a[AnnotationDevice] != c.device {
				t.Errorf("%s: %s: annotations %v", c.file, component, a)
			}
			special := map[corev1.ResourceName]string{}
			for name, q := range main.Resources.Limits {
				if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
					special[name] = q.String()
				}
			}
			if len(special) != len(c.requests) {
				t.Errorf("%s: %s asks for %v", c.file, component, special)
			}
			for name, want := range c.requests {
				if special[name] != want {
					t.Errorf("%s: %s asks for %v", c.file, component, special)
				}
			}
			if len(main.Resources.Claims) != len(c.claims) || len(d.Template.Spec.ResourceClaims) != len(c.claims) {
				t.Errorf("%s: %s claims %v", c.file, component, main.Resources.Claims)
			}
			for _, want := range c.args {
				if !slices.Contains(main.Args, want) {
					t.Errorf("%s: %s has not %s: %v", c.file, component, want, main.Args)
				}
			}
			if len(main.Command) > 0 && strings.Contains(strings.Join(main.Args, " "), "--dpdk") {
				t.Errorf("%s: options for a command that is not ours: %v", c.file, main.Args)
			}
		}
	}
}

// A Service selects pods on Kernel, nobody while Kubernetes still has slices to empty,
// and then nothing: what stands in our slices is all that clients see.
func TestServicesOfADeviceSelectNothing(t *testing.T) {
	in := load(t, "testdata/afxdp.in.yaml")
	s := clientService(in)
	if s.Spec.Selector != nil || s.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("%+v", s.Spec)
	}
	// Else Kubernetes gives it both families, and refuses them when it selects again.
	if p := s.Spec.IPFamilyPolicy; p == nil || *p != corev1.IPFamilyPolicySingleStack {
		t.Errorf("families of IP: %+v", s.Spec)
	}
	in.EmptyingSelector = true
	if s := clientService(in); s.Spec.Selector[v1alpha1.LabelComponent] != "nobody" {
		t.Errorf("while slices are emptied: %v", s.Spec.Selector)
	}
	in.Device = v1alpha1.Device{Type: v1alpha1.DeviceKernel}
	if s := clientService(in); s.Spec.Selector[v1alpha1.LabelComponent] != v1alpha1.ComponentRouter || s.Spec.IPFamilyPolicy != nil {
		t.Errorf("on Kernel: %+v", s.Spec)
	}
	for _, o := range endpointSlices(in) {
		if got := o.(interface{ GetName() string }).GetName(); !strings.HasPrefix(got, "hello-") {
			t.Errorf("slice %s", got)
		}
	}
}
