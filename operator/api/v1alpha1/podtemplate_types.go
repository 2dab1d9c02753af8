// SPDX-License-Identifier: Apache-2.0

// Pod templates: what a Deployment takes, merged into what the operator makes.
package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
)

// PodTemplate is merged into the pods that the operator makes, as a strategic merge
// patch is: lists of things with names are joined by name, everything else that is
// given takes the place of what was there.
//
// +kubebuilder:validation:XValidation:rule="!self.?spec.?hostNetwork.orValue(false)",message="`spec.hostNetwork` may not be true: our programs listen on ports of the pod's own address; use `device` for another network"
// +kubebuilder:validation:XValidation:rule="(!has(self.spec) || !has(self.spec.volumes) || self.spec.volumes.all(v, !(v.name in ['run', 'keys', 'tls', 'token', 'network', 'hugepages'])))",message="`spec.volumes` may not have one named run, keys, tls, token, network or hugepages: these are the operator's; choose another name"
// +kubebuilder:validation:XValidation:rule="(!has(self.spec) || !has(self.spec.containers) || self.spec.containers.all(c, (!has(c.volumeMounts) || c.volumeMounts.all(m, !(m.name in ['run', 'keys', 'tls', 'token', 'network', 'hugepages']))))) && (!has(self.spec) || !has(self.spec.initContainers) || self.spec.initContainers.all(c, (!has(c.volumeMounts) || c.volumeMounts.all(m, !(m.name in ['run', 'keys', 'tls', 'token', 'network', 'hugepages'])))))",message="`volumeMounts` may not name run, keys, tls, token, network or hugepages: these volumes are for the operator's containers; mount one of your own"
// +kubebuilder:validation:XValidation:rule="(!has(self.spec) || !has(self.spec.containers) || self.spec.containers.all(c, (!has(c.volumeMounts) || c.volumeMounts.all(m, !m.mountPath.startsWith('/run/bobtail') && !m.mountPath.startsWith('/etc/bobtail') && !m.mountPath.startsWith('/etc/lancet'))))) && (!has(self.spec) || !has(self.spec.initContainers) || self.spec.initContainers.all(c, (!has(c.volumeMounts) || c.volumeMounts.all(m, !m.mountPath.startsWith('/run/bobtail') && !m.mountPath.startsWith('/etc/bobtail') && !m.mountPath.startsWith('/etc/lancet')))))",message="`mountPath` may not begin with /run/bobtail, /etc/bobtail or /etc/lancet: the operator's own mounts are there; choose another path"
// +kubebuilder:validation:XValidation:rule="(!has(self.spec) || !has(self.spec.containers) || self.spec.containers.all(c, !(c.name in ['sidecar', 'router', 'agent', 'coordinator']))) && (!has(self.spec) || !has(self.spec.initContainers) || self.spec.initContainers.all(c, !(c.name in ['sidecar', 'router', 'agent', 'coordinator'])))",message="`name` of a container may not be sidecar, router, agent or coordinator: these are the operator's; the one to change is `server`, others need names of their own"
// +kubebuilder:validation:XValidation:rule="(!has(self.spec) || !has(self.spec.containers) || self.spec.containers.all(c, c.name == 'server' || has(c.image))) && (!has(self.spec) || !has(self.spec.initContainers) || self.spec.initContainers.all(c, c.name == 'server' || has(c.image)))",message="`image` must be given for every container but `server`: there is nothing else to run"
// +kubebuilder:validation:XValidation:rule="(!has(self.spec) || !has(self.spec.initContainers) || self.spec.initContainers.all(c, c.name != 'server'))",message="`spec.initContainers` may not have one named server: that is the container in `spec.containers`"
// +kubebuilder:validation:XValidation:rule="!self.?spec.?activeDeadlineSeconds.hasValue()",message="`spec.activeDeadlineSeconds` may not be specified: pods of a Deployment have no deadline, and experiments have their own"
type PodTemplate struct {
	// metadata is added to the pods' own.
	// +optional
	Metadata PodTemplateMetadata `json:"metadata,omitempty,omitzero"`

	// spec is what a Deployment takes as `spec.template.spec`.
	// +optional
	Spec PodTemplateSpec `json:"spec,omitempty,omitzero"`
}

// PodTemplateMetadata are labels and annotations of pods.
type PodTemplateMetadata struct {
	// labels are added to the pods'. Those by which pods are found are the
	// operator's: bobtail.dev/… and the recommended app.kubernetes.io/… ones.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('bobtail.dev/') && !(k in ['app.kubernetes.io/name', 'app.kubernetes.io/instance', 'app.kubernetes.io/component', 'app.kubernetes.io/part-of', 'app.kubernetes.io/managed-by', 'app.kubernetes.io/version', 'pod-template-hash']))",message="`labels` may not be bobtail.dev/…, app.kubernetes.io/name, instance, component, part-of, managed-by or version: the operator finds its pods by them; choose a key of your own"
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// annotations are added to the pods'.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('bobtail.dev/'))",message="`annotations` may not be bobtail.dev/…: the operator writes them; choose a key of your own"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`
}

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type LabelValue string

// AnnotationValue is the value of an annotation.
// +kubebuilder:validation:MaxLength=65536
type AnnotationValue string

// PodTemplateSpec is a pod's spec of which everything may be left out.
type PodTemplateSpec struct {
	corev1.PodSpec `json:",inline"`

	// containers are changed by name, or added. It takes the place of the field of the
	// same name, which Kubernetes requires.
	// +optional
	Containers []corev1.Container `json:"containers,omitempty"`
}

// Container is the container of a template by its name; nil: it says nothing of it.
func (t *PodTemplate) Container(name string) *corev1.Container {
	if t == nil {
		return nil
	}
	for i := range t.Spec.Containers {
		if t.Spec.Containers[i].Name == name {
			return &t.Spec.Containers[i]
		}
	}
	return nil
}

// Plain are strings of a map with a type of their own.
func Plain[V ~string](of map[string]V) map[string]string {
	if of == nil {
		return nil
	}
	out := make(map[string]string, len(of))
	for k, v := range of {
		out[k] = string(v)
	}
	return out
}
