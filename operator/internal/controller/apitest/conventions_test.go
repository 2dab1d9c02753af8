// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// schemas are the CRDs as they are committed. No API server is needed.
func schemas(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob("../../../../crds/*.yaml")
	if err != nil || len(files) != 2 {
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

// The API conventions this project has chosen to hold, checked on every field:
// no bool, no float, no phase, everything bounded and described, units in names.
func TestAPIConventions(t *testing.T) {
	for _, crd := range schemas(t) {
		root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		for _, part := range []string{"spec", "status"} {
			p := root.Properties[part]
			walk(crd.Spec.Names.Kind+"."+part, &p, func(path string, s *apiextensionsv1.JSONSchemaProps) {
				for _, complaint := range complaints(path, s) {
					t.Errorf("%s: %s", path, complaint)
				}
			})
		}
	}
}

// foreign are fields whose types are Kubernetes' own, with the bounds that it
// gives them; maps of labels and quantities are bounded by their number.
var foreign = regexp.MustCompile(`\.conditions\[\]|\.lastChangeTime$|\{\}$`)

// timing finds durations that do not say their unit.
var timing = regexp.MustCompile(`(?i)(timeout|interval|period|duration|latency|window|delay)$`)

func complaints(path string, s *apiextensionsv1.JSONSchemaProps) (out []string) {
	name := path[strings.LastIndexAny(path, ".]}")+1:]
	if s.Description == "" && name != "" && !strings.HasSuffix(path, "[]") {
		out = append(out, "has no description")
	}
	if name == "phase" || timing.MatchString(name) {
		out = append(out, "a name like that is a phase, or lacks its unit")
	}
	if foreign.MatchString(path) {
		return out
	}
	switch s.Type {
	case "boolean":
		out = append(out, "is a bool: an enum can grow")
	case "number":
		out = append(out, "is a float")
	case "string":
		if s.MaxLength == nil && len(s.Enum) == 0 {
			out = append(out, "is an unbounded string")
		}
	case "integer":
		if s.Minimum == nil || s.Maximum == nil && !strings.Contains(path, ".status.") {
			out = append(out, "is an unbounded integer")
		}
	case "array":
		if s.MaxItems == nil || s.XListType == nil {
			out = append(out, "is an unbounded list, or one without a list type")
		}
	case "object":
		if s.AdditionalProperties != nil && s.MaxProperties == nil {
			out = append(out, "is an unbounded map")
		}
	}
	return out
}

// A rule that could never fire, or a linter that sees nothing, would look just
// like a clean API.
func TestConventionsAreSeen(t *testing.T) {
	for want, s := range map[string]apiextensionsv1.JSONSchemaProps{
		"bool": {Type: "boolean"}, "float": {Type: "number"}, "unbounded string": {Type: "string"},
		"unbounded integer": {Type: "integer"}, "unbounded list": {Type: "array"}, "no description": {Type: "object"},
		"unbounded map": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{}},
	} {
		if got := strings.Join(complaints("Kind.spec.field", &s), "; "); !strings.Contains(got, want) {
			t.Errorf("%q was not seen: %q", want, got)
		}
	}
	if got := complaints("Kind.spec.timeout", &apiextensionsv1.JSONSchemaProps{Description: "x", Type: "object"}); len(got) != 1 {
		t.Errorf("a timeout without a unit passed: %v", got)
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
	if want := 11; rules != want {
		t.Errorf("%d CEL rules, want %d: a new one needs rows on both sides in serviceAdmission", rules, want)
	}
}
