// SPDX-License-Identifier: Apache-2.0

// Command apidoc prints docs/reference/api.md from the generated CRDs and from the
// documented condition constants, so that the reference cannot drift from what
// the API server enforces. hack/generate runs it.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	crds := flag.String("crds", "crds", "folder of the generated CRDs")
	flag.Parse()
	if err := write(os.Stdout, *crds); err != nil {
		fmt.Fprintln(os.Stderr, "apidoc:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, crds string) error {
	fmt.Fprint(w, "# API reference\n\nGenerated from the CRDs by `make generate`. Group `bobtail.dev`, category `bobtail` (`kubectl get bobtail`).\nA letter with a number, such as C-6, is a rule of the [protocol](protocol.md).\n")
	files, err := filepath.Glob(filepath.Join(crds, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no CRDs in %s (run from the top of the repository): %v", crds, err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var crd apiextensions.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		writeKind(w, crd)
	}
	constants, err := filepath.Glob("operator/api/v1alpha1/conditions*.go")
	if err != nil || len(constants) == 0 {
		return fmt.Errorf("no condition constants in operator/api/v1alpha1: %v", err)
	}
	fmt.Fprint(w, "\n## Conditions and reasons\n\n| constant | meaning |\n|---|---|\n")
	for _, path := range constants {
		if err := writeConditions(w, path); err != nil {
			return err
		}
	}
	return nil
}

func writeKind(w io.Writer, crd apiextensions.CustomResourceDefinition) {
	for _, v := range crd.Spec.Versions {
		root := v.Schema.OpenAPIV3Schema
		fmt.Fprintf(w, "\n## %s (`%s`, %s)\n\n%s\n", crd.Spec.Names.Kind, strings.Join(crd.Spec.Names.ShortNames, "`, `"), v.Name, oneLine(root.Description))
		for _, rule := range root.XValidations {
			fmt.Fprintf(w, "\nRule: %s\n", oneLine(rule.Message))
		}
		for _, top := range []string{"spec", "status"} {
			if _, there := root.Properties[top]; !there {
				continue // NodeDataplane only reports
			}
			fmt.Fprintf(w, "\n### %s.%s\n\n| field | type | default | meaning |\n|---|---|---|---|\n", crd.Spec.Names.Kind, top)
			writeFields(w, top, root.Properties[top])
		}
	}
}

// writeFields prints a row a field, depth first, with the rules of objects.
func writeFields(w io.Writer, path string, s apiextensions.JSONSchemaProps) {
	if _, embedded := s.Properties["initContainers"]; embedded || strings.HasSuffix(path, ".conditions") {
		return // Kubernetes describes its own
	}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		child := s.Properties[name]
		where := path + "." + name
		fmt.Fprintf(w, "| `%s`%s | %s | %s | %s |\n", where, mark(s, name), kind(child), value(child.Default), meaning(child))
		writeFields(w, where, child)
		if child.Items != nil && child.Items.Schema != nil {
			writeFields(w, where+"[]", *child.Items.Schema)
		}
	}
}

func mark(parent apiextensions.JSONSchemaProps, name string) string {
	for _, r := range parent.Required {
		if r == name {
			return " (required)"
		}
	}
	return ""
}

// kind is the type with its bounds, as a reader wants it.
func kind(s apiextensions.JSONSchemaProps) string {
	if len(s.Enum) > 0 {
		words := make([]string, len(s.Enum))
		for i, e := range s.Enum {
			words[i] = strings.Trim(string(e.Raw), `"`)
		}
		return strings.Join(words, ", ")
	}
	switch {
	case s.Type == "integer" && s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("integer %.0f…%.0f", *s.Minimum, *s.Maximum)
	case s.Type == "string" && s.MaxLength != nil:
		return fmt.Sprintf("string ≤ %d", *s.MaxLength)
	case s.Type == "array" && s.MaxItems != nil:
		return fmt.Sprintf("list ≤ %d", *s.MaxItems)
	}
	return s.Type
}

func value(d *apiextensions.JSON) string {
	if d == nil || string(d.Raw) == "{}" {
		return ""
	}
	return "`" + strings.Trim(string(d.Raw), `"`) + "`"
}

func meaning(s apiextensions.JSONSchemaProps) string {
	text := oneLine(s.Description)
	for _, rule := range s.XValidations {
		text += " Rule: " + oneLine(rule.Message) + "."
	}
	return strings.ReplaceAll(text, "|", "\\|")
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// writeConditions prints the documented constants of the conditions file.
func writeConditions(w io.Writer, path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("read the condition constants: %w", err)
	}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			v := spec.(*ast.ValueSpec)
			literal, ok := v.Values[0].(*ast.BasicLit)
			if !ok {
				continue
			}
			text := strings.TrimPrefix(oneLine(v.Doc.Text()), v.Names[0].Name)
			fmt.Fprintf(w, "| `%s` | %s |\n", strings.Trim(literal.Value, `"`), strings.TrimLeft(text, ": "))
		}
	}
	return nil
}
