// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func experimentInput(t *testing.T, file string) ExperimentInput {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	e := &v1alpha1.LatencyExperiment{}
	if err := yaml.UnmarshalStrict(raw, e); err != nil {
		t.Fatal(err)
	}
	return ExperimentInput{Experiment: e, Registry: "registry.example", Version: "1.2.3", Definition: []byte("protocol: redis\n"), Seconds: 4 * int64(e.Spec.LimitSeconds)}
}

// Agents join the network of a service whose pods are on AF_XDP; where devices are counted
// they would take some away, so there they stay on the pod network.
func TestAgentsJoinTheServicesNetwork(t *testing.T) {
	data := v1alpha1.Device{Type: v1alpha1.DeviceAFXDP, NetworkAttachment: "data"}
	counted, vf := data, v1alpha1.Device{Type: v1alpha1.DeviceSRIOV, NetworkAttachment: "vfs", ResourceName: "intel.com/vfs"}
	counted.ResourceName = "intel.com/ports"
	for _, c := range []struct {
		name  string
		first v1alpha1.Device
		entry int32
		want  string
	}{
		{"Kernel", v1alpha1.Device{}, 0, ""}, {"AFXDP", data, 0, "shop/data"}, {"SRIOV", vf, 0, ""}, {"AFXDP with a resource", counted, 0, ""},
		{"fallen back to AFXDP", vf, 1, "shop/data"}, {"fallen back to Kernel", vf, 2, ""}, {"a status of somebody's making", data, 4, "shop/data"},
	} {
		s := &v1alpha1.RpcService{}
		s.Namespace, s.Spec.Device.Device = "shop", c.first
		s.Spec.Device.Fallback = []v1alpha1.Device{data, {Type: v1alpha1.DeviceKernel}}
		s.Status.DeviceChoice = &v1alpha1.DeviceChoice{Entry: c.entry}
		if got := InterfaceNetwork(s); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	in := experimentInput(t, "testdata/experiment/"+experimentFile(t))
	in.Network = "shop/data"
	for _, o := range ExperimentObjects(in) {
		job, ok := o.(*batchv1.Job)
		if !ok {
			continue
		}
		got, want := job.Spec.Template.Annotations["k8s.v1.cni.cncf.io/networks"], ""
		if job.Name == AgentsName(in.Experiment) {
			want = `[{"name":"data","namespace":"shop","interface":"net1"}]`
		}
		if got != want {
			t.Errorf("%s: networks %q, want %q", job.Name, got, want)
		}
	}
}

func experimentFile(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("testdata/experiment/*.in.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("testdata is missing")
	}
	return filepath.Base(files[0])
}

// TestExperimentGolden: as TestGolden, for LatencyExperiments.
func TestExperimentGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/experiment/*.in.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("testdata is missing: %v %v", files, err)
	}
	for _, file := range files {
		var got bytes.Buffer
		in := experimentInput(t, file)
		for _, o := range append(ExperimentObjects(in), ExperimentToken(in, []byte("secret"))) {
			raw, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			got.WriteString("---\n")
			got.Write(raw)
		}
		golden := strings.Replace(file, ".in.", ".out.", 1)
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("differs from %s; run go test ./operator/internal/render -update and review the difference.\n%s", golden, firstDifference(got.Bytes(), want))
		}
	}
}

// L-68: neither agents nor coordinator can do anything at the API server, and nobody but
// the coordinator, and the servers that answer, can reach an agent.
func TestExperimentPrivileges(t *testing.T) {
	for file, rules := range map[string]int{"service": 2, "addresses": 1} {
		in := experimentInput(t, "testdata/experiment/"+file+".in.yaml")
		for _, o := range ExperimentObjects(in) {
			switch o := o.(type) {
			case *batchv1.Job:
				pod := o.Spec.Template.Spec
				c := pod.Containers[0].SecurityContext
				if *pod.AutomountServiceAccountToken || pod.ServiceAccountName != "" || !*pod.SecurityContext.RunAsNonRoot ||
					!*c.ReadOnlyRootFilesystem || *c.AllowPrivilegeEscalation || c.Capabilities.Drop[0] != "ALL" {
					t.Errorf("%s: pod %+v", o.Name, pod)
				}
				if limit := int64(4) * int64(in.Experiment.Spec.LimitSeconds); *o.Spec.ActiveDeadlineSeconds <= limit {
					t.Errorf("%s: deadline %d s within the %d s of its loads", o.Name, *o.Spec.ActiveDeadlineSeconds, limit)
				}
			case *networkingv1.NetworkPolicy:
				want := rules
				if o.Name == CoordinatorName(in.Experiment) {
					want = 0
				}
				if len(o.Spec.Ingress) != want || len(o.Spec.PolicyTypes) != 1 {
					t.Errorf("%s: %d rules, want %d", o.Name, len(o.Spec.Ingress), want)
				}
				for _, rule := range o.Spec.Ingress {
					if len(rule.From) == 0 {
						t.Errorf("%s lets in anybody", o.Name)
					}
				}
			}
		}
	}
}

// K-32: a private registry's secrets reach the pods of agents and coordinator, as those
// of an RpcService reach its own.
func TestExperimentPullSecrets(t *testing.T) {
	in := experimentInput(t, "testdata/experiment/service.in.yaml")
	in.Experiment.Spec.ImagePullSecrets = []v1alpha1.SecretReference{{Name: "registry-a"}, {Name: "registry-b"}}
	jobs := 0
	for _, o := range ExperimentObjects(in) {
		if job, ok := o.(*batchv1.Job); ok {
			jobs++
			if s := job.Spec.Template.Spec.ImagePullSecrets; len(s) != 2 || s[0].Name != "registry-a" || s[1].Name != "registry-b" {
				t.Errorf("%s: %v", job.Name, s)
			}
		}
	}
	if jobs != 2 {
		t.Errorf("%d Jobs", jobs)
	}
}
