// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"strings"
	"testing"
)

// A manifest is judged as a cluster would judge it: values, fields that are missing, and fields that there are not.
func TestRefused(t *testing.T) {
	const good = "apiVersion: bobtail.dev/v1alpha1\nkind: RpcService\nmetadata: {name: a}\nspec:\n  server: {image: a}\n"
	definitions, err := Read("../../../crds")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, text, want string
		judged           int
	}{
		{"good", good, "", 1},
		{"a value", good + "  router: {replicas: 1}\n", "spec.router.replicas", 1},
		{"no field", good + "  routers: {replicas: 2}\n", "spec.routers is no field", 1},
		{"no field in a list", good + "  scheduling: {mode: WorkStealing, maxCores: 1}\n  device: {type: Kernel, fallback: [{kind: Kernel}]}\n", "spec.device.fallback[0].kind is no field", 1},
		{"missing", good + "  scheduling: {mode: WorkStealing}\n", "spec.scheduling.maxCores", 1},
		{"another kind", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, nothing: b}\n", "", 0},
		{"the second of two", "apiVersion: v1\nkind: Namespace\n---\n" + good + "  replicas: -1\n", "spec.replicas", 1},
	} {
		judged, refused, err := definitions.Refused(row.text)
		got := strings.Join(refused, "; ")
		if err != nil || judged != row.judged || (row.want == "") != (got == "") || !strings.Contains(got, row.want) {
			t.Errorf("%s: %d judged, %q, %v; want %q", row.name, judged, got, err, row.want)
		}
	}
	if _, err := Read("none"); err == nil {
		t.Error("a folder without definitions is taken for one")
	}
	if _, _, err := definitions.Refused("{"); err == nil {
		t.Error("a text that is no YAML is read")
	}
}
