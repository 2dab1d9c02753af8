// SPDX-License-Identifier: Apache-2.0

// Package gate is the readiness gate by which a pod says whether it has joined what
// it belongs to.
package gate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
)

// Same says that a pod says this already.
func Same(p *corev1.Pod, v verdict.Verdict) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.PodConditionJoined {
			return (c.Status == corev1.ConditionTrue) == v.OK() && c.Reason == v.Reason && c.Message == v.Message
		}
	}
	return false
}

// Patch is what makes it say so. The time of the last change stays where the status does.
func Patch(p *corev1.Pod, v verdict.Verdict, now time.Time) *unstructured.Unstructured {
	status := string(corev1.ConditionFalse)
	if v.OK() {
		status = string(corev1.ConditionTrue)
	}
	since := now
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.PodConditionJoined && string(c.Status) == status {
			since = c.LastTransitionTime.Time
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": p.Name, "namespace": p.Namespace, "uid": string(p.UID)},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": v1alpha1.PodConditionJoined, "status": status, "reason": v.Reason, "message": v.Message,
			"lastTransitionTime": since.UTC().Format(time.RFC3339),
		}}},
	}}
}
