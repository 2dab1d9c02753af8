// SPDX-License-Identifier: Apache-2.0

// Package features says what each feature of the operator needs of a cluster besides what
// every release needed: kinds that a newer chart brings, and rights that a newer Role
// gives. A feature that lacks one waits, and the others work (decision 0024).
package features

import (
	"context"
	"fmt"
	"strings"
)

// Names of features.
const (
	Devices     = "devices"
	Experiments = "experiments"
	Switches    = "switches"
	Groups      = "groups"
	Cores       = "cores"
	CRAB        = "crab"
)

// Right is what may be done with a resource in every namespace.
type Right struct {
	Group, Resource string
	Verbs           []string
}

// Feature is one of them. Kind is the kind of ours that it is about, empty: none of its own.
type Feature struct {
	Name, About, Kind string
	Rights            []Right
	// Optional features are those that the operator is told of by an option.
	Optional bool
}

// All are the features, by name in the order in which they are told.
var All = []Feature{
	{Name: Devices, About: "`spec.device` of an RpcService", Rights: []Right{
		{"discovery.k8s.io", "endpointslices", []string{"get", "list", "watch", "create", "patch"}},
		{"k8s.cni.cncf.io", "network-attachment-definitions", []string{"get"}},
	}},
	{Name: Experiments, About: "kind LatencyExperiment", Kind: "LatencyExperiment", Rights: []Right{
		{"bobtail.dev", "latencyexperiments", []string{"get", "list", "watch"}},
		{"bobtail.dev", "latencyexperiments/status", []string{"patch"}},
		{"batch", "jobs", []string{"get", "list", "watch", "create", "patch"}},
	}},
	{Name: Switches, About: "kind ProgrammableSwitch", Kind: "ProgrammableSwitch", Rights: []Right{
		{"bobtail.dev", "programmableswitches", []string{"get", "list", "watch", "patch"}},
		{"bobtail.dev", "programmableswitches/status", []string{"patch"}},
	}},
	{Name: Groups, About: "kind ReplicationGroup", Kind: "ReplicationGroup", Rights: []Right{
		{"bobtail.dev", "replicationgroups", []string{"get", "list", "watch"}},
		{"bobtail.dev", "replicationgroups/status", []string{"patch"}},
		{"", "pods/eviction", []string{"create"}},
		{"apps", "statefulsets", []string{"get", "list", "watch", "create", "patch"}},
	}},
	{Name: Cores, About: "a change of `spec.scheduling` in place", Rights: []Right{{"", "pods/resize", []string{"patch"}}}},
	{Name: CRAB, About: "CRAB", Kind: "NodeDataplane", Optional: true, Rights: []Right{
		{"", "services", []string{"list", "watch"}},
		{"", "services/status", []string{"patch"}},
		{"", "nodes", []string{"list", "watch"}},
		{"discovery.k8s.io", "endpointslices", []string{"list", "watch"}},
		{"bobtail.dev", "nodedataplanes", []string{"list", "watch"}},
	}},
}

// Find is the feature of a name; there is always one, or the name is not of this package.
func Find(name string) Feature {
	for _, f := range All {
		if f.Name == name {
			return f
		}
	}
	panic("no feature " + name)
}

// Cluster answers what a feature needs to know.
type Cluster interface {
	// Served says whether the API server serves a kind of ours.
	Served(ctx context.Context, kind string) (bool, error)
	// May says whether the operator may do something in every namespace.
	May(ctx context.Context, group, resource, verb string) (bool, error)
}

// Missing says what a feature lacks, as short phrases; none: nothing. An error means
// that the cluster gave no answer.
func (f Feature) Missing(ctx context.Context, c Cluster) ([]string, error) {
	var out []string
	if f.Kind != "" {
		there, err := c.Served(ctx, f.Kind)
		if err != nil {
			return nil, fmt.Errorf("ask whether kind %s is served: %w", f.Kind, err)
		}
		if !there {
			out = append(out, "kind "+f.Kind)
		}
	}
	for _, r := range f.Rights {
		var denied []string
		for _, verb := range r.Verbs {
			may, err := c.May(ctx, r.Group, r.Resource, verb)
			if err != nil {
				return nil, fmt.Errorf("ask for the right to %s %s: %w", verb, r.Resource, err)
			}
			if !may {
				denied = append(denied, verb)
			}
		}
		if len(denied) > 0 {
			out = append(out, "the right to "+strings.Join(denied, ", ")+" "+Named(r.Group, r.Resource))
		}
	}
	return out, nil
}

// Named is a resource with its group, as kubectl writes it.
func Named(group, resource string) string {
	if group == "" {
		return resource
	}
	resource, sub, has := strings.Cut(resource, "/")
	name := resource + "." + group
	if has {
		name += "/" + sub
	}
	return name
}
