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
