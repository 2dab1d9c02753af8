// SPDX-License-Identifier: Apache-2.0

// What a CEL rule tells the person who broke it. The lint of the fields themselves
// stands beside the CRDs, in crds/conventions_test.go.
package apitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// schemas are the CRDs as they are committed. No API server is needed.
func schemas(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob("../../../../crds/*.yaml")
	if err != nil || len(files) != 6 {
		t.Fatalf("CRDs: %v %v", files, err)
	}
	var out []apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			t.Fatal(err)
		}
		out = append(out, crd)
	}
	return out
}

// walk visits every field below spec and status.
func walk(path string, s *apiextensionsv1.JSONSchemaProps, visit func(path string, s *apiextensionsv1.JSONSchemaProps)) {
	visit(path, s)
	for name := range s.Properties {
		p := s.Properties[name]
		walk(path+"."+name, &p, visit)
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(path+"[]", s.Items.Schema, visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(path+"{}", s.AdditionalProperties.Schema, visit)
	}
}

// Every CEL rule says what to do: its message names a field in backquotes.
func TestRulesExplainThemselves(t *testing.T) {
	rules := 0
	for _, crd := range schemas(t) {
		walk(crd.Spec.Names.Kind, crd.Spec.Versions[0].Schema.OpenAPIV3Schema, func(path string, s *apiextensionsv1.JSONSchemaProps) {
			for _, r := range s.XValidations {
				rules++
				if !strings.HasPrefix(r.Message, "`") || !strings.Contains(r.Message, ": ") {
					t.Errorf("%s: %q names no field, or gives no reason", path, r.Message)
				}
			}
		})
	}
	if want := 226; rules != want {
		t.Errorf("%d CEL rules, want %d: a new one needs rows on both sides in serviceAdmission, templateAdmission, objectiveAdmission, experimentAdmission, switchAdmission or groupAdmission", rules, want)
	}
}
