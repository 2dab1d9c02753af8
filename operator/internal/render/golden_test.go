// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

var update = flag.Bool("update", false, "write testdata/*.out.yaml instead of comparing with it")

func load(t *testing.T, file string) Input {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &v1alpha1.RpcService{}
	if err := yaml.UnmarshalStrict(text, s); err != nil {
		t.Fatal(err)
	}
	device := s.Spec.Device.Device
	if chosen := s.Status.DeviceChoice; chosen != nil {
		device = s.Spec.Device.Entries()[chosen.Entry]
	}
	in := Input{
		Service: s, Device: device, Registry: "registry.example", Version: "1.2.3", OperatorNamespace: "bobtail-system",
		FastPath: FastPath(s, v1alpha1.FastPathOff) != "",
	}
	if in.Slices = !OnKernel(s.Spec.Device.Device); in.Slices {
		p := peers()
		in.Endpoints = []Endpoint{
			{Component: v1alpha1.ComponentServer, Pod: p.Servers[0], Address: netip.MustParseAddr("10.77.0.2"), Ready: true},
			{Component: v1alpha1.ComponentRouter, Pod: p.Routers[0], Address: netip.MustParseAddr("10.77.0.1"), Ready: true},
			{Component: v1alpha1.ComponentRouter, Pod: p.Routers[1], Address: netip.MustParseAddr("fd00::1")},
		}
	}
	if OnSwitch(s) { // as while the switch serves
		in.Slices, in.Switched = true, true
		in.Endpoints = []Endpoint{
			{Component: v1alpha1.ComponentServer, Pod: peers().Servers[0], Address: netip.MustParseAddr("10.0.0.1"), Ready: true},
			{Component: v1alpha1.ComponentRouter, Address: netip.MustParseAddr(s.Spec.Router.Switch.Address), Ready: true},
		}
	}
	in.WithoutSurge = device.Type == v1alpha1.DeviceSRIOV
	return in
}

// TestGolden: every testdata/x.in.yaml renders to testdata/x.out.yaml. Run with
// -update after a wanted change, and review the difference.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("testdata is missing: %v %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in.yaml"), func(t *testing.T) {
			in := load(t, file)
			got := text(t, in)
			golden := strings.Replace(file, ".in.", ".out.", 1)
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("differs from %s; run go test ./operator/internal/render -update and review the difference.\n%s", golden, firstDifference(got, want))
			}
		})
	}
}

func text(t *testing.T, in Input) []byte {
	t.Helper()
	var out bytes.Buffer
	objects := Objects(in)
	if !TCP(in.Service) {
		p := peersOn(in.Device)
		if at := in.Service.Spec.Router.Switch; at != nil {
			p.Switch = SwitchRouter(at.Name, at.Address)
		}
		config, hash, err := dataplane.RenderConfig(Config(in.Service, p))
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, ConfigMap(in, config, hash), Secret(in, KeysName(in.Service), nil, nil))
	}
	for _, o := range objects {
		raw, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(raw)
	}
	return out.Bytes()
}

func peers() Peers {
	pod := func(name, ip string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{AnnotationWorkers: "2"}}, Status: corev1.PodStatus{PodIP: ip}}
	}
	return Peers{
		Servers:   []*corev1.Pod{pod("s-b", "10.0.0.2"), pod("s-a", "10.0.0.1")},
		Routers:   []*corev1.Pod{pod("r-a", "10.0.1.1"), pod("r-b", "10.0.1.2")},
		KeyIDs:    []int{1},
		Addresses: map[string]string{"s-a": "10.0.0.1", "s-b": "10.0.0.2", "r-a": "10.0.1.1", "r-b": "10.0.1.2"},
	}
}

func peersOn(d v1alpha1.Device) Peers {
	p := peers()
	p.Device = d.Type
	return p
}

func firstDifference(got, want []byte) string {
	a, b := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d:\n got  %s\n want %s", i+1, a[i], b[i])
		}
	}
	return "one is longer than the other"
}

// Rendering twice gives the same bytes: what is applied does not change without
// cause.
func TestRenderIsStable(t *testing.T) {
	in := load(t, "testdata/full.in.yaml")
	if a, b := text(t, in), text(t, in); !bytes.Equal(a, b) {
		t.Error(firstDifference(a, b))
	}
}

// With and without the fast path the router pods differ in its argument and
// the rights of that container, and the rest is the same object for object.
func TestFastPathChangesTheRouterAlone(t *testing.T) {
	on := load(t, "testdata/fastpath.in.yaml")
	off := on
	off.FastPath = false
	with, without := strings.Split(string(text(t, on)), "\n"), strings.Split(string(text(t, off)), "\n")
	var more []string
	for _, line := range with {
		if len(without) > 0 && line == without[0] {
			without = without[1:]
			continue
		}
		more = append(more, strings.TrimSpace(line))
	}
	want := []string{"- --fast-path=auto", "add:", "- BPF", "- NET_ADMIN", "runAsNonRoot: false", "runAsUser: 0"}
	if len(without) != 0 || !slices.Equal(more, want) {
		t.Errorf("the fast path adds %q, and leaves out %q; want %q", more, without, want)
	}
}

// A rollout mixes pods of two templates: each keeps the number of workers it
// was started with.
func TestMembersKeepTheirOwnWorkers(t *testing.T) {
	in := load(t, "testdata/full.in.yaml")
	p := peers()
	p.Servers[0].Annotations[AnnotationWorkers] = "7"
	delete(p.Servers[1].Annotations, AnnotationWorkers)
	doc := Config(in.Service, p)
	if doc.Members[0].Workers != 7 || doc.Members[1].Workers != 1 {
		t.Errorf("members %+v", doc.Members)
	}
}

// Nothing but the router that needs capabilities leaves the restricted pod
// security standard, and it gets these and no others.
func TestRestrictedPodSecurity(t *testing.T) {
	for _, c := range []struct {
		file    string
		root    int
		granted []corev1.Capability
	}{
		{"minimal", 0, nil}, {"full", 0, nil}, {"no-router", 0, nil},
		{"transparent", 1, []corev1.Capability{"NET_RAW"}},
		{"fastpath", 1, []corev1.Capability{"BPF", "NET_ADMIN"}},
		{"tcp", 0, nil}, {"tcp-full", 0, nil},
		{"afxdp", 2, []corev1.Capability{"NET_RAW", "NET_ADMIN", "BPF", "IPC_LOCK"}},
		{"sriov", 2, []corev1.Capability{"IPC_LOCK"}},
		{"sriov-claim", 1, []corev1.Capability{"IPC_LOCK"}},
		{"fallback", 2, []corev1.Capability{"NET_RAW", "NET_ADMIN", "BPF", "IPC_LOCK"}},
		{"fallback-kernel", 1, []corev1.Capability{"NET_RAW"}},
	} {
		in := load(t, "testdata/"+c.file+".in.yaml")
		root := 0
		var pods []corev1.PodSpec
		for _, o := range Objects(in) {
			if d, ok := o.(*appsv1.Deployment); ok {
				pods = append(pods, d.Spec.Template.Spec)
			}
		}
		if len(pods) == 0 {
			t.Fatalf("%s: no Deployment", c.file)
		}
		for _, pod := range pods {
			if !*pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
				pod.HostNetwork || pod.HostPID || pod.HostIPC || *pod.AutomountServiceAccountToken {
				t.Errorf("%s: pod security %+v", c.file, pod.SecurityContext)
			}
			for _, v := range pod.Volumes {
				if v.HostPath != nil {
					t.Errorf("%s: volume %s is a folder of the node", c.file, v.Name)
				}
			}
			for _, container := range append(pod.InitContainers, pod.Containers...) {
				root += checkContainer(t, c.file, container, c.granted)
			}
		}
		if root != c.root {
			t.Errorf("%s: %d containers run as root, want %d", c.file, root, c.root)
		}
	}
}

// onDeviceFile are the inputs whose servers need what their routers need.
var onDeviceFile = map[string]bool{"afxdp": true, "sriov": true, "sriov-claim": true, "fallback": true}

func checkContainer(t *testing.T, file string, c corev1.Container, granted []corev1.Capability) (root int) {
	t.Helper()
	s := c.SecurityContext
	if *s.AllowPrivilegeEscalation || s.Privileged != nil || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("%s: container %s: %+v", file, c.Name, s)
	}
	if s.RunAsUser != nil && *s.RunAsUser == 0 {
		root++
		if c.Name != v1alpha1.ComponentRouter && (c.Name != v1alpha1.ComponentServer || !onDeviceFile[file]) || !slices.Equal(s.Capabilities.Add, granted) {
			t.Errorf("%s: container %s runs as root with %v, want %v", file, c.Name, s.Capabilities.Add, granted)
		}
	} else if len(s.Capabilities.Add) > 0 {
		t.Errorf("%s: container %s adds %v", file, c.Name, s.Capabilities.Add)
	}
	for _, m := range c.VolumeMounts {
		if m.Name == tokenVolume && c.Name != "sidecar" {
			t.Errorf("%s: container %s sees the API token", file, c.Name)
		}
	}
	return root
}
