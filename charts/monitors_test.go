// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
)

// monitored renders the chart with everything that is scraped, and its monitors.
func monitored(t *testing.T) string {
	return template(t, "bobtail", "--set", "crab.enabled=true,monitoring.podMonitor.enabled=true,monitoring.prometheusRule.enabled=true")
}

// ownPods are the pod templates of the chart by the name of what makes them.
func ownPods(t *testing.T, rendered string) map[string]corev1.PodTemplateSpec {
	t.Helper()
	out := map[string]corev1.PodTemplateSpec{}
	for _, d := range documents[appsv1.Deployment](t, rendered, "Deployment") {
		out[d.Name] = d.Spec.Template
	}
	for _, d := range documents[appsv1.DaemonSet](t, rendered, "DaemonSet") {
		out[d.Name] = d.Spec.Template
	}
	return out
}

// K-21: operator and agents are found by the recommended labels, too, and their
// selectors are those of every earlier chart.
func TestPodsHaveTheRecommendedLabels(t *testing.T) {
	rendered := monitored(t)
	for name, component := range map[string]string{"bobtail-operator": "operator", "bobtail-agent": "agent"} {
		for key, want := range map[string]string{"name": "bobtail", "instance": "bobtail", "component": component, "part-of": "bobtail", "managed-by": "Helm", "version": "0.2.0"} {
			if got := ownPods(t, rendered)[name].Labels["app.kubernetes.io/"+key]; got != want {
				t.Errorf("pods of %s: %s is %q, want %q", name, key, got, want)
			}
		}
	}
	for _, d := range documents[appsv1.DaemonSet](t, rendered, "DaemonSet") {
		want := map[string]string{"app.kubernetes.io/name": "bobtail", "app.kubernetes.io/component": "agent", "app.kubernetes.io/instance": "bobtail"}
		if !maps.Equal(d.Spec.Selector.MatchLabels, want) {
			t.Errorf("the DaemonSet's selector cannot change: %v", d.Spec.Selector)
		}
	}
}

// rpcServicePod has the labels that the operator gives to routers and servers
// (operator/internal/render holds it to that).
var rpcServicePod = labels.Set{"app.kubernetes.io/name": "rpcservice", "app.kubernetes.io/part-of": "bobtail"}

// K-21: every pod with metrics is selected by one monitor, and by one alone.
func TestPodMonitorsSelectEveryPod(t *testing.T) {
	rendered := monitored(t)
	monitors := documents[monitoringv1.PodMonitor](t, rendered, "PodMonitor")
	pods := map[string]labels.Set{"a router": rpcServicePod}
	for name, pod := range ownPods(t, rendered) {
		pods[name] = pod.Labels
		if !hasMetricsPort(pod.Spec) {
			t.Errorf("%s has no port named metrics", name)
		}
	}
	if len(pods) != 3 || len(monitors) != 2 {
		t.Fatalf("%d pods, %d monitors", len(pods), len(monitors))
	}
	for name, pod := range pods {
		by := 0
		for _, m := range monitors {
			selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
			if err != nil {
				t.Fatal(err)
			}
			if selector.Matches(pod) {
				by++
				if e := m.Spec.PodMetricsEndpoints; len(e) != 1 || *e[0].Port != "metrics" || !e[0].HonorLabels {
					t.Errorf("%s: endpoints %+v", m.Name, e)
				}
				if m.Spec.NamespaceSelector.Any != (name == "a router") {
					t.Errorf("%s: namespaces %+v", m.Name, m.Spec.NamespaceSelector)
				}
			}
		}
		if by != 1 {
			t.Errorf("%s is scraped by %d monitors", name, by)
		}
	}
}

func hasMetricsPort(pod corev1.PodSpec) bool {
	for _, c := range pod.Containers {
		for _, p := range c.Ports {
			if p.Name == "metrics" {
				return true
			}
		}
	}
	return false
}

// K-21: what the chart makes for the Prometheus operator is what its CRDs, made from
// its own types, take, and has no field they do not know.
func TestMonitoringFitsThePrometheusOperator(t *testing.T) {
	crds := prometheusOperatorCRDs(t)
	for _, values := range []string{"testdata/default.values.yaml", "testdata/custom.values.yaml"} {
		rendered := template(t, "bobtail", "--values", values, "--set", "monitoring.podMonitor.enabled=true,monitoring.prometheusRule.enabled=true")
		documents[monitoringv1.PodMonitor](t, rendered, "PodMonitor")         // strictly
		documents[monitoringv1.PrometheusRule](t, rendered, "PrometheusRule") // strictly
		for kind, want := range map[string]int{"PodMonitor": 2, "PrometheusRule": 1} {
			objects := documents[map[string]any](t, rendered, kind)
			if len(objects) != want {
				t.Errorf("%s: %d %ss, want %d", values, len(objects), kind, want)
			}
			for _, o := range objects {
				if result := validatorOf(t, crds[kind]).Validate(o); !result.IsValid() {
					t.Errorf("%s: %v", values, result.AsError())
				}
			}
		}
	}
	wrong := map[string]any{"spec": map[string]any{"selector": map[string]any{}, "podMetricsEndpoints": []any{map[string]any{"interval": "soon"}}}}
	if validatorOf(t, crds["PodMonitor"]).Validate(wrong).IsValid() {
		t.Error("the CRD takes an interval that is none: it checks nothing")
	}
}

func validatorOf(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) *validate.SchemaValidator {
	t.Helper()
	if crd == nil {
		t.Fatal("no such CRD")
	}
	for _, v := range crd.Spec.Versions {
		if v.Name != "v1" {
			continue
		}
		text, err := json.Marshal(v.Schema.OpenAPIV3Schema)
		if err != nil {
			t.Fatal(err)
		}
		schema := &spec.Schema{}
		if err := json.Unmarshal(text, schema); err != nil {
			t.Fatal(err)
		}
		return validate.NewSchemaValidator(schema, nil, crd.Spec.Names.Kind, strfmt.Default)
	}
	t.Fatalf("%s has no version v1", crd.Name)
	return nil
}

// prometheusOperatorCRDs are made from the types of its Go module by the generator
// that makes ours.
func prometheusOperatorCRDs(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(needs.Tool(t, "controller-gen"), "crd:allowDangerousTypes=true",
		"paths=github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1", "output:crd:dir="+dir)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		crds[crd.Spec.Names.Kind] = crd
	}
	return crds
}

// The dashboard that is installed is the one in files/.
func TestDashboardIsInstalledWhole(t *testing.T) {
	rendered := template(t, "bobtail", "--set", "monitoring.dashboard.enabled=true")
	for _, m := range documents[corev1.ConfigMap](t, rendered, "ConfigMap") {
		var got, want any
		text, err := os.ReadFile("bobtail/files/dashboard.json")
		if err != nil || json.Unmarshal(text, &want) != nil || json.Unmarshal([]byte(m.Data["bobtail.json"]), &got) != nil {
			t.Fatalf("%v: not JSON: %s", err, strings.TrimSpace(m.Data["bobtail.json"])[:80])
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if string(a) == string(b) {
			return
		}
	}
	t.Error("no ConfigMap holds the dashboard as it is in files/")
}
