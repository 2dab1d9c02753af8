// SPDX-License-Identifier: Apache-2.0

// Why a pod is not ready, in one line. Whoever reads the Ready condition should
// not have to look for the pod, then for its events, then for its log.
package rpcservice

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// starting are reasons for waiting that pass by themselves.
var starting = []string{"PodInitializing", "ContainerCreating"}

// trouble says what keeps a pod from being ready; empty when it is ready, being
// deleted, or merely on its way.
func trouble(p *corev1.Pod) string {
	if ready(p) || p.DeletionTimestamp != nil {
		return ""
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("pod %s cannot be scheduled: %s", p.Name, c.Message)
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && !slices.Contains(starting, w.Reason) {
			return fmt.Sprintf("pod %s, container %s: %s: %s", p.Name, c.Name, w.Reason, w.Message)
		}
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("pod %s, container %s ended with exit code %d: %s", p.Name, c.Name, t.ExitCode, t.Message)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.PodConditionJoined && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("pod %s waits to join: %s", p.Name, c.Message)
		}
	}
	return ""
}

// refusedPods says why a Deployment cannot make its pods: a quota, or a pod
// security standard of the namespace.
func refusedPods(d *appsv1.Deployment) string {
	if d == nil {
		return ""
	}
	if why := replicaFailure(d); why != "" {
		return fmt.Sprintf("Deployment %s cannot make pods: %s", d.Name, why)
	}
	return ""
}

// replicaFailure is what the API server says of the pods it refuses.
func replicaFailure(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// because appends the first trouble to a message.
func because(message string, deployment *appsv1.Deployment, pods []*corev1.Pod) string {
	if why := refusedPods(deployment); why != "" {
		return message + "; " + why
	}
	for _, p := range pods {
		if why := trouble(p); why != "" {
			return message + "; " + why
		}
	}
	return message
}
