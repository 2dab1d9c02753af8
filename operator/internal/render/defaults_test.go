// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

const top = "../../../"

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(top + file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// withDefaults fills in what the API server would.
func withDefaults(t *testing.T, schema apiextensionsv1.JSONSchemaProps, object map[string]any) {
	t.Helper()
	for name, field := range schema.Properties {
		if _, there := object[name]; !there && field.Default != nil {
			var value any
			if err := json.Unmarshal(field.Default.Raw, &value); err != nil {
				t.Fatalf("default of %s: %v", name, err)
			}
			object[name] = value
		}
		if inner, ok := object[name].(map[string]any); ok {
			withDefaults(t, field, inner)
		}
	}
}

// chosenByChart is what the chart's values say of the fast path.
func chosenByChart(t *testing.T) v1alpha1.FastPathMode {
	t.Helper()
	var values struct {
		Routers struct{ FastPath v1alpha1.FastPathMode }
	}
	readYAML(t, "charts/bobtail/values.yaml", &values)
	return values.Routers.FastPath
}

// example is the manifest as the API server would store it.
func example(t *testing.T, file string) *v1alpha1.RpcService {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	readYAML(t, "crds/bobtail.dev_rpcservices.yaml", &crd)
	object := map[string]any{}
	readYAML(t, file, &object)
	withDefaults(t, *crd.Spec.Versions[0].Schema.OpenAPIV3Schema, object)
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	service := &v1alpha1.RpcService{}
	if err := yaml.UnmarshalStrict(text, service); err != nil {
		t.Fatal(err)
	}
	return service
}

// TestWhatTheDefaultsRun: the chart as it is and the least manifest give routers
// with the program in the kernel, two capabilities for it, and keys. `make bench`
// reads what is logged and measures such a router (measure/bench/proxy.py).
func TestWhatTheDefaultsRun(t *testing.T) {
	service := example(t, "examples/minimal.yaml")
	choice := chosenByChart(t)
	in := Input{Service: service, Registry: "registry.example", Version: "1.2.3", FastPath: FastPath(service, choice) != ""}
	pod := routerDeployment(in).Spec.Template.Spec
	router := pod.Containers[slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == "router" })]
	capabilities := router.SecurityContext.Capabilities
	keyed := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "keys" && v.Secret != nil })
	if choice != v1alpha1.FastPathAuto || !slices.Contains(router.Args, "--fast-path=auto") || !keyed {
		t.Errorf("the chart says %q; arguments %q, keys %v; want Auto, --fast-path=auto and keys", choice, router.Args, keyed)
	}
	if want := []corev1.Capability{"BPF", "NET_ADMIN"}; !slices.Equal(capabilities.Add, want) || !slices.Equal(capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("capabilities %+v, want none but %v", capabilities, want)
	}
	told, err := json.Marshal(map[string]any{"args": router.Args, "capabilities": capabilities.Add, "keys": keyed})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("default_router %s", told)
}
