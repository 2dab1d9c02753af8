// SPDX-License-Identifier: Apache-2.0

// Command podschema makes the pod specs that CRDs embed small enough to be applied, and
// bounded enough for rules. Kubernetes describes them itself, so descriptions go; what
// a Deployment refuses goes too; lists that rules walk get a bound. It rewrites the
// CRDs it is given, and leaves alone those that embed none. hack/generate runs it.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

func main() {
	for _, file := range os.Args[1:] {
		if err := rewrite(file); err != nil {
			fmt.Fprintf(os.Stderr, "podschema: %s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

func rewrite(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return err
	}
	var specs []string
	if err := trim(crd, &specs); err != nil || len(specs) == 0 {
		return err
	}
	if text, err = yaml.Marshal(crd); err != nil {
		return err
	}
	for i, spec := range specs {
		text = bytes.Replace(text, []byte(place(i)), []byte(spec), 1)
	}
	var check apiextensions.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &check); err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte("---\n"), text...), 0o644)
}

// trim looks for embedded pod specs, and puts a place in the stead of each, for what is
// appended to specs: on one line, as a reader of the file has no use for it.
func trim(node any, specs *[]string) error {
	switch node := node.(type) {
	case []any:
		for _, v := range node {
			if err := trim(v, specs); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			schema, _ := node[key].(map[string]any)
			properties, _ := schema["properties"].(map[string]any)
			if properties["initContainers"] == nil {
				if err := trim(node[key], specs); err != nil {
					return err
				}
				continue
			}
			podSpec(schema, properties)
			line, err := json.Marshal(schema)
			if err != nil {
				return err
			}
			node[key] = place(len(*specs))
			*specs = append(*specs, string(line))
		}
	}
	return nil
}

func place(i int) string { return fmt.Sprintf("-pod-spec-%d-", i) }

// podSpec keeps the description of the spec itself: the field is ours.
func podSpec(schema, properties map[string]any) {
	delete(schema, "required")
	delete(properties, "ephemeralContainers") // a template has none
	// Our type declares containers a second time, so what is generated of it is both.
	properties["containers"] = runtime.DeepCopyJSONValue(properties["initContainers"])
	for _, p := range properties {
		undescribed(p, false)
	}
	bound(properties, "volumes", 64)
	for _, list := range []string{"containers", "initContainers"} {
		bound(properties, list, 16)
		container := fields(properties[list])
		for name, most := range map[string]int64{"ports": 32, "volumeMounts": 64, "env": 64} {
			bound(container, name, most)
		}
		longest(fields(properties[list]), "name", 63)
		longest(fields(container["ports"]), "name", 15)
		longest(fields(container["volumeMounts"]), "name", 63)
		longest(fields(container["volumeMounts"]), "mountPath", 4096)
		longest(fields(container["env"]), "name", 256)
	}
	longest(fields(properties["volumes"]), "name", 63)
}

// fields are the properties of a list's items.
func fields(list any) map[string]any {
	return list.(map[string]any)["items"].(map[string]any)["properties"].(map[string]any)
}

func bound(of map[string]any, name string, most int64) {
	of[name].(map[string]any)["maxItems"] = most
}

func longest(of map[string]any, name string, most int64) {
	of[name].(map[string]any)["maxLength"] = most
}

// undescribed takes descriptions away. Properties may be called description; those stay.
func undescribed(node any, names bool) {
	switch node := node.(type) {
	case []any:
		for _, v := range node {
			undescribed(v, false)
		}
	case map[string]any:
		if !names {
			delete(node, "description")
		}
		for key, v := range node {
			undescribed(v, !names && key == "properties")
		}
	}
}
