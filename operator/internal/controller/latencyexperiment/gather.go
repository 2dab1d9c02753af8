// SPDX-License-Identifier: Apache-2.0

// Gather reads the target of an experiment and what became of its coordinator.
package latencyexperiment

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// target is the RpcService that is loaded, nil when there is none.
func (r *Reconciler) target(ctx context.Context, e *v1alpha1.LatencyExperiment) (*v1alpha1.RpcService, error) {
	ref := e.Spec.Target.TargetRef
	if ref == nil {
		return nil, nil
	}
	s := &v1alpha1.RpcService{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: ref.Name}, s)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the target: %w", err)
	}
	return s, nil
}

// gaps is the recorded arrivals of the experiment, nil when there are none. Any
// ConfigMap may be named and one is read once, so it is not cached.
func (r *Reconciler) gaps(ctx context.Context, e *v1alpha1.LatencyExperiment) (*string, error) {
	from := e.Spec.Workload.GapsFrom
	if from == nil {
		return nil, nil
	}
	m := &corev1.ConfigMap{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: from.ConfigMapKeyRef.Name}, m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the gaps: %w", err)
	}
	if text, there := m.Data[from.ConfigMapKeyRef.Key]; there {
		return &text, nil
	}
	return nil, nil
}

// started says that the coordinator's Job is there: from then on the experiment is
// under way, whatever becomes of what it was made from.
func (r *Reconciler) started(ctx context.Context, e *v1alpha1.LatencyExperiment) (bool, error) {
	job := &batchv1.Job{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: render.CoordinatorName(e)}, job)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read the coordinator's Job: %w", err)
	}
	return err == nil && metav1.IsControlledBy(job, e), nil
}

// outcome looks at the coordinator's Job and, once that is over, at its pod. Pods
// of experiments are few and asked for once, so they are not cached.
func (r *Reconciler) outcome(ctx context.Context, e *v1alpha1.LatencyExperiment) (outcome, error) {
	job := &batchv1.Job{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: render.CoordinatorName(e)}, job)
	if apierrors.IsNotFound(err) {
		return outcome{}, nil
	}
	if err != nil {
		return outcome{}, fmt.Errorf("read the coordinator's Job: %w", err)
	}
	if !metav1.IsControlledBy(job, e) || ending(job) == "" {
		return outcome{}, nil
	}
	pods := &corev1.PodList{}
	err = r.Live.List(ctx, pods, client.InNamespace(e.Namespace),
		client.MatchingLabels(render.ExperimentSelector(e.Name, v1alpha1.ComponentCoordinator)))
	if err != nil {
		return outcome{}, fmt.Errorf("list the coordinator's pods: %w", err)
	}
	return decideOutcome(pods.Items, job), nil
}
