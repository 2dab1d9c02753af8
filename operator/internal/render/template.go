// SPDX-License-Identifier: Apache-2.0

// A user's pod template, merged into what we render as a strategic merge patch. What
// may not be in it the API server refuses; here nothing is judged again.
package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// merged is the pod with the template's spec in it. What a strategic merge would lose or
// mix up is seen to: our readiness gates, and handlers of which a probe has only one.
func merged(pod corev1.PodSpec, t *v1alpha1.PodTemplate) corev1.PodSpec {
	if t == nil {
		return pod
	}
	for i := range pod.Containers {
		if theirs := t.Container(pod.Containers[i].Name); theirs != nil {
			yieldHandlers(&pod.Containers[i], theirs)
		}
	}
	out := corev1.PodSpec{}
	if err := patch(pod, t.Spec, &out); err != nil {
		panic("pod specs of the API server's own types are always merged: " + err.Error())
	}
	// A merge has what is new first. Our sidecar starts before everything else, and
	// variables of theirs may refer to ours.
	name := func(c corev1.Container) string { return c.Name }
	out.InitContainers = oursFirst(pod.InitContainers, out.InitContainers, name)
	out.Containers = oursFirst(pod.Containers, out.Containers, name)
	for i := range pod.Containers {
		out.Containers[i].Env = oursFirst(pod.Containers[i].Env, out.Containers[i].Env, func(e corev1.EnvVar) string { return e.Name })
	}
	for _, gate := range pod.ReadinessGates {
		if !slices.Contains(out.ReadinessGates, gate) {
			out.ReadinessGates = append(out.ReadinessGates, gate)
		}
	}
	return out
}

// oursFirst is a merged list with what was there before at its begin, in its order.
func oursFirst[T any](ours, all []T, name func(T) string) []T {
	place := map[string]int{}
	for i, o := range ours {
		place[name(o)] = i - len(ours)
	}
	slices.SortStableFunc(all, func(a, b T) int { return place[name(a)] - place[name(b)] })
	return all
}

func patch(pod corev1.PodSpec, with v1alpha1.PodTemplateSpec, into *corev1.PodSpec) error {
	base, err := json.Marshal(pod)
	if err != nil {
		return err
	}
	change, err := json.Marshal(with)
	if err != nil {
		return err
	}
	text, err := strategicpatch.StrategicMergePatch(base, change, corev1.PodSpec{})
	if err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	return json.Unmarshal(text, into)
}

// yieldHandlers drops our handler of each probe and hook for which theirs has one.
func yieldHandlers(ours, theirs *corev1.Container) {
	for _, p := range []struct{ ours, theirs *corev1.Probe }{
		{ours.StartupProbe, theirs.StartupProbe}, {ours.ReadinessProbe, theirs.ReadinessProbe}, {ours.LivenessProbe, theirs.LivenessProbe},
	} {
		if p.ours != nil && p.theirs != nil && p.theirs.ProbeHandler != (corev1.ProbeHandler{}) {
			p.ours.ProbeHandler = corev1.ProbeHandler{}
		}
	}
	if ours.Lifecycle != nil && theirs.Lifecycle != nil && theirs.Lifecycle.PreStop != nil {
		ours.Lifecycle.PreStop = nil
	}
}

// serverSpec is the server with what its template says in the stead of a short field;
// the template that is left says it no more. It means the same in both places: options
// every server understands stand before `args`, and so on.
func serverSpec(s *v1alpha1.RpcService) (v1alpha1.RpcServiceServer, *v1alpha1.PodTemplate) {
	spec := s.Spec.Server
	theirs := spec.PodTemplate.Container(v1alpha1.ComponentServer)
	if theirs == nil {
		return spec, spec.PodTemplate
	}
	rest := spec.PodTemplate.DeepCopy()
	c := rest.Container(v1alpha1.ComponentServer)
	if c.Image != "" {
		spec.Image, c.Image = c.Image, ""
	}
	if c.ImagePullPolicy != "" {
		spec.ImagePullPolicy, c.ImagePullPolicy = c.ImagePullPolicy, ""
	}
	if c.Command != nil {
		spec.Command, c.Command = c.Command, nil
	}
	if c.Args != nil {
		spec.Args, c.Args = c.Args, nil
	}
	if r := c.Resources; r.Requests != nil || r.Limits != nil {
		spec.Resources = v1alpha1.Resources{Requests: r.Requests, Limits: r.Limits}
		c.Resources = corev1.ResourceRequirements{Claims: r.Claims}
	}
	return spec, rest
}

// serverTemplate is what is left to merge into a server's pod.
func serverTemplate(s *v1alpha1.RpcService) *v1alpha1.PodTemplate {
	_, rest := serverSpec(s)
	return rest
}

// described adds a template's labels and annotations; ours stay as they are.
func described(to *corev1.PodTemplateSpec, t *v1alpha1.PodTemplate) {
	if t == nil {
		return
	}
	to.Labels = under(v1alpha1.Plain(t.Metadata.Labels), to.Labels)
	to.Annotations = under(v1alpha1.Plain(t.Metadata.Annotations), to.Annotations)
}

func under(theirs, ours map[string]string) map[string]string {
	if len(theirs) == 0 {
		return ours
	}
	out := maps.Clone(theirs)
	maps.Copy(out, ours)
	return out
}

// accounts are the ServiceAccounts of the pods with a sidecar, ours first: a pod whose
// template names another one has a sidecar that reads its ConfigMap as that one.
func accounts(in Input) []string {
	out := []string{SidecarName(in.of())}
	s := in.Service
	if s == nil {
		return out
	}
	for _, t := range []*v1alpha1.PodTemplate{s.Spec.Server.PodTemplate, s.Spec.Router.PodTemplate} {
		if t != nil && t.Spec.ServiceAccountName != "" && !slices.Contains(out, t.Spec.ServiceAccountName) {
			out = append(out, t.Spec.ServiceAccountName)
		}
	}
	return out
}
