// SPDX-License-Identifier: Apache-2.0

// Package crds holds the generated CRDs; its test is the API lint: the house
// rules for fields, read off the schemas as the API server gets them.
package crds

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Names that hide a unit, or a type the house does not use.
var (
	unitless = regexp.MustCompile(`(?i)(timeout|delay|latency|duration|interval|period|window)$`)
	camel    = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)
	enumWord = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
)

// linter walks one schema and collects what breaks a rule.
type linter struct {
	kind     string
	findings []string
}

func (l *linter) find(path, format string, args ...any) {
	l.findings = append(l.findings, l.kind+path+": "+fmt.Sprintf(format, args...))
}

func (l *linter) walk(path, name string, s apiextensions.JSONSchemaProps) {
	if s.Description == "" && path != "" {
		l.find(path, "has no description")
	}
	l.scalar(path, name, s)
	if s.Type == "array" {
		l.list(path, s)
	}
	if embedded(s) {
		return
	}
	for child, schema := range s.Properties {
		if !camel.MatchString(child) {
			l.find(path+"."+child, "must be camelCase")
		}
		l.walk(path+"."+child, child, schema)
	}
}

// embedded says that a schema is a pod's spec: its fields are Kubernetes' own.
func embedded(s apiextensions.JSONSchemaProps) bool {
	_, pod := s.Properties["initContainers"]
	return pod
}

func (l *linter) scalar(path, name string, s apiextensions.JSONSchemaProps) {
	switch s.Type {
	case "number":
		l.find(path, "is a float; use an integer with its unit in the name")
	case "boolean":
		l.find(path, "is a bool; use an enum, which can grow")
	case "integer":
		if s.Minimum == nil {
			l.find(path, "has no minimum")
		}
		if strings.HasPrefix(path, ".spec") && s.Maximum == nil {
			l.find(path, "has no maximum")
		}
		if s.Format != "int32" && s.Format != "int64" {
			l.find(path, "must be int32 or int64, is %q", s.Format)
		}
		if unitless.MatchString(name) {
			l.find(path, "must say its unit: %sSeconds, %sMilliseconds …", name, name)
		}
	case "string":
		l.text(path, s)
	case "object":
		if s.AdditionalProperties != nil && s.MaxProperties == nil {
			l.find(path, "is a map without maxProperties")
		}
	}
}

func (l *linter) text(path string, s apiextensions.JSONSchemaProps) {
	if s.MaxLength == nil && len(s.Enum) == 0 && s.Format != "date-time" {
		l.find(path, "has no maxLength and no enum")
	}
	for _, e := range s.Enum {
		if word := strings.Trim(string(e.Raw), `"`); !enumWord.MatchString(word) {
			l.find(path, "enum value %q must be CamelCase", word)
		}
	}
}

func (l *linter) list(path string, s apiextensions.JSONSchemaProps) {
	if s.MaxItems == nil {
		l.find(path, "has no maxItems")
	}
	if s.XListType == nil {
		l.find(path, "has no list type (atomic, set or map)")
	}
	if s.Items == nil || s.Items.Schema == nil {
		return
	}
	item := *s.Items.Schema
	if item.Description == "" {
		item.Description = s.Description
	}
	l.walk(path+"[]", "", item)
}

// shape checks what every kind of the group has.
func (l *linter) shape(crd apiextensions.CustomResourceDefinition, v apiextensions.CustomResourceDefinitionVersion) {
	if crd.Spec.Group != "bobtail.dev" || !contains(crd.Spec.Names.Categories, "bobtail") || len(crd.Spec.Names.ShortNames) == 0 {
		l.find("", "must be in group bobtail.dev, category bobtail, with a short name")
	}
	if v.Subresources == nil || v.Subresources.Status == nil {
		l.find("", "has no status subresource")
	}
	if n := len(v.AdditionalPrinterColumns); n == 0 || v.AdditionalPrinterColumns[n-1].Name != "Age" {
		l.find("", "must end its printer columns with Age")
	}
	status := v.Schema.OpenAPIV3Schema.Properties["status"]
	for _, field := range []string{"conditions", "observedGeneration"} {
		if _, ok := status.Properties[field]; !ok {
			l.find(".status", "has no %s", field)
		}
	}
	if _, ok := status.Properties["phase"]; ok {
		l.find(".status.phase", "is deprecated by the Kubernetes conventions; use conditions")
	}
}

func contains(list []string, want string) bool {
	for _, s := range list {
		if s == want {
			return true
		}
	}
	return false
}

func lint(crd apiextensions.CustomResourceDefinition) []string {
	var findings []string
	for _, v := range crd.Spec.Versions {
		l := &linter{kind: crd.Spec.Names.Kind + " " + v.Name}
		l.shape(crd, v)
		for _, top := range []string{"spec", "status"} {
			schema, there := v.Schema.OpenAPIV3Schema.Properties[top]
			if !there && top == "spec" {
				continue // a kind that only reports
			}
			if top == "status" {
				delete(schema.Properties, "conditions") // metav1.Condition is not ours to bound
			}
			l.walk("."+top, top, schema)
		}
		findings = append(findings, l.findings...)
	}
	return findings
}

func TestAPIConventions(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs beside this test (run `make generate`): %v", err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensions.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, f := range lint(crd) {
			t.Error(f)
		}
	}
}

// TestLintFinds proves that the lint can fail: each planted fault is named.
func TestLintFinds(t *testing.T) {
	one := 1.0
	for _, c := range []struct {
		name   string
		schema apiextensions.JSONSchemaProps
		want   string
	}{
		{"share", apiextensions.JSONSchemaProps{Type: "number", Description: "d"}, "float"},
		{"fast", apiextensions.JSONSchemaProps{Type: "boolean", Description: "d"}, "bool"},
		{"count", apiextensions.JSONSchemaProps{Type: "integer", Format: "int32", Description: "d"}, "no minimum"},
		{"drainTimeout", apiextensions.JSONSchemaProps{Type: "integer", Format: "int32", Minimum: &one, Maximum: &one, Description: "d"}, "unit"},
		{"host", apiextensions.JSONSchemaProps{Type: "string", Description: "d"}, "maxLength"},
		{"names", apiextensions.JSONSchemaProps{Type: "array", Description: "d"}, "maxItems"},
		{"Upper", apiextensions.JSONSchemaProps{Type: "object", Description: "d"}, "camelCase"},
		{"bare", apiextensions.JSONSchemaProps{Type: "object"}, "description"},
		{"labels", apiextensions.JSONSchemaProps{Type: "object", Description: "d", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{}}, "maxProperties"},
	} {
		l := &linter{kind: "K"}
		l.walk(".spec", "spec", apiextensions.JSONSchemaProps{Type: "object", Description: "d",
			Properties: map[string]apiextensions.JSONSchemaProps{c.name: c.schema}})
		if got := strings.Join(l.findings, "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s: findings %q lack %q", c.name, got, c.want)
		}
	}
}
