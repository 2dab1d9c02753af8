// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the Bobtail API: the kinds a user writes, and the
// condition types and reasons the operator answers with. It imports nothing
// but Kubernetes API types, so that other programs can use it cheaply.
//
// Units stand in the field names, every number, string and list is bounded,
// and a field exists only when something acts on it.
//
// +kubebuilder:object:generate=true
// +groupName=bobtail.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "bobtail.dev", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&RpcService{}, &RpcServiceList{},
		&ServiceLevelObjective{}, &ServiceLevelObjectiveList{},
		&LatencyExperiment{}, &LatencyExperimentList{},
		&NodeDataplane{}, &NodeDataplaneList{},
		&ProgrammableSwitch{}, &ProgrammableSwitchList{},
		&ReplicationGroup{}, &ReplicationGroupList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
