// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
)

var update = flag.Bool("update", false, "write testdata/*.out.yaml instead of comparing with it")

// run renders a chart; the error is what helm printed.
func run(t *testing.T, chart string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(needs.Tool(t, "helm"), append([]string{"template", "bobtail", chart, "--namespace", "bobtail-system"}, args...)...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, errs.String())
	}
	return out.String(), nil
}

// made are the charts that template has made: many tests look at the same one.
var made = map[string]string{}

func template(t *testing.T, chart string, args ...string) string {
	t.Helper()
	asked := strings.Join(append([]string{chart}, args...), "\x00")
	if out, ok := made[asked]; ok {
		return out
	}
	out, err := run(t, chart, args...)
	if err != nil {
		t.Fatal(err)
	}
	made[asked] = out
	return out
}

// TestGolden: testdata/x.values.yaml renders to testdata/x.out.yaml. The CRDs,
// which are generated and long, are looked at apart. Run with -update after a
// wanted change, and review the difference.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata is missing: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".values.yaml"), func(t *testing.T) {
			got := template(t, "bobtail", "--values", file, "--set", "crds.install=false")
			golden := strings.Replace(file, ".values.", ".out.", 1)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("differs from %s; run go test ./charts -update and review the difference. Got:\n%s", golden, got)
			}
		})
	}
}

// The schema refuses what would only fail in the cluster.
func TestSchema(t *testing.T) {
	for _, c := range []struct{ set, names string }{
		{"replicas=0", "replicas"}, {"replicas=two", "replicas"}, {"replica=2", "replica"}, {"image.registry=", "registry"},
		{"image.registry=HTTP://x", "registry"}, {"image.pullPolicy=Sometimes", "pullPolicy"}, {"image.tag=1", "tag"},
		{"crds.install=maybe", "install"}, {"routers.fastPath=auto", "fastPath"}, {"routers.fastPath=false", "fastPath"}, {"router.fastPath=Auto", "router"}, {"monitoring.dashboard.enabled=2", "enabled"}, {"networkPolicy.apiServerPorts={70000}", "apiServerPorts"},
		{"crab.enabled=1", "enabled"}, {"crab.vipPool={192.0.2.1}", "vipPool"}, {"crab.vipPool={fd00::/64}", "vipPool"}, {"crab.vipPool={fd00::1}", "vipPool"}, {"crab.pool={}", "pool"}, {"crab.option.kind=8", "kind"},
		{"crab.balancers.addresses={lb:8470}", "addresses"}, {"crab.balancers.addresses={10.0.0.20}", "addresses"}, {"crab.balancers.addresses={10.0.0.20:8470}", "secret"}, {"crab.balancers.secret=A_B", "secret"},
	} {
		_, err := run(t, "bobtail", "--set", c.set)
		if err == nil {
			t.Errorf("--set %s was accepted", c.set)
		} else if !strings.Contains(err.Error(), c.names) {
			t.Errorf("--set %s: the message does not name %s: %v", c.set, c.names, err)
		}
	}
}

// kindOf tells a document's kind: most documents are long ones of another kind, which need not be read.
var kindOf = regexp.MustCompile(`(?m)^kind: *"?(\w+)"? *$`)

// documents are the rendered objects of one kind.
func documents[T any](t *testing.T, rendered, kind string) []T {
	t.Helper()
	var out []T
	for _, part := range strings.Split(rendered, "\n---\n") {
		is := kindOf.FindAllStringSubmatch(part, -1)
		if len(is) > 1 || len(is) == 0 && strings.Contains(part, "kind:") {
			t.Fatalf("%d kinds in:\n%s", len(is), part)
		}
		if len(is) == 0 || is[0][1] != kind {
			continue
		}
		var o T
		if err := yaml.UnmarshalStrict([]byte(part), &o); err != nil {
			t.Fatalf("%v in:\n%s", err, part)
		}
		out = append(out, o)
	}
	return out
}

// CRDs are upgraded with the chart and kept when it goes.
func TestCRDs(t *testing.T) {
	for chart, want := range map[string]int{"bobtail": 6, "baseline/bobtail-0.1.0.tgz": 2} {
		crds := documents[apiextensionsv1.CustomResourceDefinition](t, template(t, chart), "CustomResourceDefinition")
		if len(crds) != want {
			t.Fatalf("%s: %d CRDs", chart, len(crds))
		}
		for _, crd := range crds {
			if crd.Annotations["helm.sh/resource-policy"] != "keep" || crd.Labels["app.kubernetes.io/part-of"] != "bobtail" {
				t.Errorf("%s: %s: annotations %v, labels %v", chart, crd.Name, crd.Annotations, crd.Labels)
			}
		}
	}
	if crds := documents[apiextensionsv1.CustomResourceDefinition](t, template(t, "bobtail", "--set", "crds.install=false"), "CustomResourceDefinition"); len(crds) != 0 {
		t.Errorf("crds.install=false renders %d CRDs", len(crds))
	}
}

// The upgrade from the baseline must not touch what cannot change: the
// selector of the Deployment, and fields that CRDs once had.
func TestUpgradeFromBaseline(t *testing.T) {
	before, after := template(t, "baseline/bobtail-0.1.0.tgz"), template(t, "bobtail")
	old, now := documents[appsv1.Deployment](t, before, "Deployment")[0], documents[appsv1.Deployment](t, after, "Deployment")[0]
	if old.Name != now.Name || old.Spec.Selector.String() != now.Spec.Selector.String() {
		t.Errorf("the Deployment changes its name or its selector: %s %v, %s %v", old.Name, old.Spec.Selector, now.Name, now.Spec.Selector)
	}
	newer := map[string]apiextensionsv1.CustomResourceDefinition{}
	for _, crd := range documents[apiextensionsv1.CustomResourceDefinition](t, after, "CustomResourceDefinition") {
		newer[crd.Name] = crd
	}
	for _, crd := range documents[apiextensionsv1.CustomResourceDefinition](t, before, "CustomResourceDefinition") {
		is, ok := newer[crd.Name]
		if !ok {
			t.Errorf("%s is gone", crd.Name)
			continue
		}
		if missing := lost("", crd.Spec.Versions[0].Schema.OpenAPIV3Schema, is.Spec.Versions[0].Schema.OpenAPIV3Schema); len(missing) > 0 {
			t.Errorf("%s: fields of the baseline are gone: %v", crd.Name, missing)
		}
	}
}

// lost are fields of a schema that a newer one lacks.
func lost(path string, old, now *apiextensionsv1.JSONSchemaProps) []string {
	var out []string
	for name := range old.Properties {
		was := old.Properties[name]
		is, ok := now.Properties[name]
		if !ok || was.Type != is.Type {
			out = append(out, path+"."+name)
			continue
		}
		out = append(out, lost(path+"."+name, &was, &is)...)
	}
	return out
}

// The operator's pods run under the restricted pod security standard, and two
// of them by default.
func TestDeployment(t *testing.T) {
	d := documents[appsv1.Deployment](t, template(t, "bobtail"), "Deployment")[0]
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	if *d.Spec.Replicas != 2 || !*pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != "RuntimeDefault" ||
		*c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem ||
		len(c.SecurityContext.Capabilities.Drop) != 1 || c.SecurityContext.Capabilities.Drop[0] != "ALL" {
		t.Errorf("replicas %d, pod %+v, container %+v", *d.Spec.Replicas, pod.SecurityContext, c.SecurityContext)
	}
	version, err := os.ReadFile("../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	if want := "localhost/bobtail/operator:" + strings.TrimSpace(string(version)); c.Image != want {
		t.Errorf("image %s, want %s: Chart.yaml and VERSION must agree", c.Image, want)
	}
}

// The network policies of every RpcService let in pods with these labels
// (OperatorLabels in operator/internal/render): without them no sidecar could
// be read.
func TestOperatorIsRecognised(t *testing.T) {
	d := documents[appsv1.Deployment](t, template(t, "bobtail"), "Deployment")[0]
	for key, want := range map[string]string{"app.kubernetes.io/name": "bobtail", "app.kubernetes.io/component": "operator"} {
		if got := d.Spec.Template.Labels[key]; got != want {
			t.Errorf("label %s is %q, want %q", key, got, want)
		}
	}
	policy := documents[networkingv1.NetworkPolicy](t, template(t, "bobtail"), "NetworkPolicy")[0]
	if policy.Spec.PodSelector.String() != d.Spec.Selector.String() {
		t.Errorf("the policy selects %v, not the operator alone", policy.Spec.PodSelector)
	}
	allowed := map[int32]bool{}
	for _, rule := range policy.Spec.Egress {
		for _, port := range rule.Ports {
			allowed[port.Port.IntVal] = true
		}
	}
	for _, port := range []int32{443, 6443, 53, 9443} {
		if !allowed[port] {
			t.Errorf("the operator cannot reach port %d", port)
		}
	}
}

// The operator may reach the P4Runtime servers that `networkPolicy.switches` names, at these ports and no others; without
// it none.
func TestWayToSwitches(t *testing.T) {
	ways := func(args ...string) (out []string) {
		policy := documents[networkingv1.NetworkPolicy](t, template(t, "bobtail", args...), "NetworkPolicy")[0]
		for _, rule := range policy.Spec.Egress {
			for _, peer := range rule.To {
				if peer.IPBlock == nil {
					continue
				}
				for _, port := range rule.Ports {
					out = append(out, fmt.Sprintf("%s %s %d", peer.IPBlock.CIDR, *port.Protocol, port.Port.IntVal))
				}
			}
		}
		return out
	}
	none := ways()
	got := ways("--set-json", `networkPolicy.switches=[{"cidr":"10.0.0.0/24","port":9559},{"cidr":"fd00::7/128","port":9339}]`)
	want := append(none, "10.0.0.0/24 TCP 9559", "fd00::7/128 TCP 9339")
	if !slices.Equal(got, want) {
		t.Errorf("ways to addresses are %v, want %v", got, want)
	}
	for _, c := range []struct{ set, names string }{
		{`[{"cidr":"10.0.0.1","port":9559}]`, "cidr"}, {`[{"cidr":"leaf.example/32","port":9559}]`, "cidr"}, {`[{"cidr":"10.0.0.0/24"}]`, "port"},
		{`[{"cidr":"10.0.0.0/24","port":0}]`, "port"}, {`[{"cidr":"10.0.0.0/24","port":9559,"name":"leaf"}]`, "name"},
	} {
		if _, err := run(t, "bobtail", "--set-json", "networkPolicy.switches="+c.set); err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("networkPolicy.switches=%s: %v, want %s named", c.set, err, c.names)
		}
	}
}
