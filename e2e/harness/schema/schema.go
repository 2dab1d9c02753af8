// SPDX-License-Identifier: Apache-2.0

// Package schema reads manifests of suites as the API server would, by the schemas of crds/: what a cluster would refuse
// is seen without one. Rules in CEL are not judged.
package schema

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

type crd struct {
	Spec struct {
		Group    string
		Names    struct{ Kind string }
		Versions []struct {
			Name   string
			Schema struct {
				OpenAPIV3Schema spec.Schema
			}
		}
	}
}

// Definitions are those of a folder; each is read when it is first asked for, since they are long.
type Definitions struct {
	files map[string][]byte
	read  map[string]*spec.Schema
}

// Read a folder.
func Read(folder string) (*Definitions, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("no definitions in %s", folder)
	}
	d := &Definitions{files: map[string][]byte{}, read: map[string]*spec.Schema{}}
	for _, name := range names {
		if d.files[name], err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// of is the schema of a kind of ours; nil: it is another's.
func (d *Definitions) of(version, kind string) (*spec.Schema, error) {
	if s, ok := d.read[version+kind]; ok {
		return s, nil
	}
	for name, text := range d.files {
		if !bytes.Contains(text, []byte("\n    kind: "+kind+"\n")) {
			continue
		}
		var one crd
		if err := yaml.Unmarshal(text, &one); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, v := range one.Spec.Versions {
			if one.Spec.Group+"/"+v.Name == version {
				d.read[version+kind] = &v.Schema.OpenAPIV3Schema
			}
		}
	}
	return d.read[version+kind], nil
}

// Refused says what of the documents in a text is not allowed. A document of another kind is passed over; judged counts
// the others.
func (d *Definitions) Refused(text string) (judged int, refused []string, err error) {
	for part := range strings.SplitSeq(text, "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			return judged, nil, fmt.Errorf("%w in\n%s", err, part)
		}
		s, err := d.of(fmt.Sprint(o["apiVersion"]), fmt.Sprint(o["kind"]))
		if err != nil {
			return judged, nil, err
		}
		if s == nil {
			continue
		}
		judged++
		for _, e := range validate.NewSchemaValidator(s, nil, "", strfmt.Default).Validate(o).Errors {
			refused = append(refused, e.Error())
		}
		refused = append(refused, unknown(s, o, "")...)
	}
	return judged, refused, nil
}

// unknown are fields that a schema does not have; the API server prunes or, asked strictly, refuses them.
func unknown(s *spec.Schema, value any, path string) (found []string) {
	if s.Extensions["x-kubernetes-preserve-unknown-fields"] == true {
		return nil
	}
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			switch inner, ok := s.Properties[name]; {
			case ok:
				found = append(found, unknown(&inner, field, path+"."+name)...)
			case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
				found = append(found, unknown(s.AdditionalProperties.Schema, field, path+"."+name)...)
			case len(s.Properties) > 0:
				found = append(found, strings.TrimPrefix(path+"."+name, ".")+" is no field")
			}
		}
	case []any:
		if s.Items == nil || s.Items.Schema == nil {
			return nil
		}
		for i, item := range v {
			found = append(found, unknown(s.Items.Schema, item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return found
}
