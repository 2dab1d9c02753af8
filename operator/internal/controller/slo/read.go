// SPDX-License-Identifier: Apache-2.0

// Who is read for an objective.
package slo

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// running are the sidecars of the pods that run, by name. One in rotation is required:
// one that is starting or draining adds what it has.
func running(target client.Object, pods []corev1.Pod) (out []dataplane.Asked) {
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase == corev1.PodRunning && p.Status.PodIP != "" {
			out = append(out, dataplane.Asked{Name: p.Name, Required: inRotation(p), Target: dataplane.NewTarget(p.Status.PodIP, target.GetName(), target.GetNamespace())})
		}
	}
	slices.SortFunc(out, func(a, b dataplane.Asked) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func inRotation(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// unread lists the pods whose answer is missing from the picture.
func unread[T any](all []dataplane.Reading[T]) (pods []string) {
	for _, r := range all {
		if r.Required && r.Err != nil {
			pods = append(pods, r.Name)
		}
	}
	return pods
}
