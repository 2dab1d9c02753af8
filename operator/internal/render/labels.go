// SPDX-License-Identifier: Apache-2.0

// The recommended labels of Kubernetes, by which dashboards, policies and scrape
// configurations find what belongs together. Selectors never use them: they are of
// the labels bobtail.dev/service and bobtail.dev/component, and cannot change.
package render

import (
	"maps"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelComponent = "app.kubernetes.io/component"
	labelVersion   = "app.kubernetes.io/version"
	labelPartOf    = "app.kubernetes.io/part-of"

	// partOf is the documented way to all pods of Bobtail; the chart's have it, too.
	partOf = "bobtail"
	// Names of what runs. The chart's name is its own: its selectors ask for it.
	nameService    = "rpcservice"
	nameExperiment = "latencyexperiment"
	nameGroup      = "replicationgroup"
)

// recommended are the labels of an object made for an instance, or of its component.
func recommended(name, instance, component string) map[string]string {
	labels := map[string]string{
		labelName: name, labelInstance: instance, labelPartOf: partOf, LabelManagedBy: ManagedBy,
	}
	if component != "" {
		labels[labelComponent] = component
	}
	return labels
}

// ServerLabels are those of a service's server pods, the user's own among them, but for the
// version.
func ServerLabels(s *v1alpha1.RpcService) map[string]string {
	ours := recommended(nameService, s.Name, v1alpha1.ComponentServer)
	maps.Copy(ours, Selector(s.Name, v1alpha1.ComponentServer))
	if t := s.Spec.Server.PodTemplate; t != nil {
		return under(v1alpha1.Plain(t.Metadata.Labels), ours)
	}
	return ours
}

// versioned adds the version of our images to the labels of pods that hold them, and
// roll with it anyway. A tag may be what no label can be: then it stands in the
// image alone.
func versioned(labels map[string]string, version string) {
	if version != "" && len(validation.IsValidLabelValue(version)) == 0 {
		labels[labelVersion] = version
	}
}
