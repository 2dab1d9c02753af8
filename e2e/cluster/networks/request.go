// SPDX-License-Identifier: Apache-2.0

// Package networks is a CNI plugin that gives pods further interfaces the way
// Multus does: those their annotation names, each made by the plugin that a
// NetworkAttachmentDefinition configures. It is for the embedded cluster only,
// and keeps to what Multus documents of annotation and definition; Multus
// itself does not run there.
package networks

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Annotation of a pod that names its further networks.
const Annotation = "k8s.v1.cni.cncf.io/networks"

// Request is one further interface a pod asks for.
type Request struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`      // of the NetworkAttachmentDefinition
	Interface string `json:"interface"` // as the pod sees it
}

// Parse reads the annotation in either form: "name", "namespace/name",
// "name@interface", separated by commas, or a JSON list of objects. What says
// no namespace means the pod's, and interfaces are net1, net2, … by default.
func Parse(annotation, podNamespace string) ([]Request, error) {
	requests, err := split(strings.TrimSpace(annotation))
	if err != nil {
		return nil, fmt.Errorf("annotation %s: neither names nor a JSON list of networks: %w", Annotation, err)
	}
	taken := map[string]bool{}
	for i := range requests {
		r := &requests[i]
		if r.Namespace == "" {
			r.Namespace = podNamespace
		}
		if r.Interface == "" {
			r.Interface = fmt.Sprintf("net%d", i+1)
		}
		if r.Name == "" {
			return nil, fmt.Errorf("annotation %s: network %d has no name", Annotation, i+1)
		}
		if taken[r.Interface] || r.Interface == "eth0" || len(r.Interface) > 15 {
			return nil, fmt.Errorf("annotation %s: interface %q of network %s is taken, or longer than 15 characters", Annotation, r.Interface, r.Name)
		}
		taken[r.Interface] = true
	}
	return requests, nil
}

// split leaves out what an item leaves out.
func split(annotation string) (requests []Request, err error) {
	if annotation == "" {
		return nil, nil
	}
	if strings.HasPrefix(annotation, "[") {
		return requests, json.Unmarshal([]byte(annotation), &requests)
	}
	for _, item := range strings.Split(annotation, ",") {
		var r Request
		name, device, _ := strings.Cut(strings.TrimSpace(item), "@")
		r.Name, r.Interface = name, device
		if namespace, rest, ok := strings.Cut(name, "/"); ok {
			r.Namespace, r.Name = namespace, rest
		}
		requests = append(requests, r)
	}
	return requests, nil
}
