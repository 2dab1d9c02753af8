// SPDX-License-Identifier: Apache-2.0

// What the Jobs that copy a member's disk came to. The operator makes none of them, and
// only reads when the last one was complete.
package replicationgroup

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch

func (r *Reconciler) gatherBackups(ctx context.Context, s *snapshot) error {
	jobs := &batchv1.JobList{}
	if err := r.Client.List(ctx, jobs, client.InNamespace(s.group.Namespace), client.MatchingLabels{v1alpha1.LabelBackupOf: s.group.Name}); err != nil {
		return fmt.Errorf("list the backup jobs of the group: %w", err)
	}
	s.lastBackup = lastComplete(jobs.Items)
	return nil
}

// lastComplete is when the last Job that succeeded did; zero: none has.
func lastComplete(jobs []batchv1.Job) time.Time {
	var last time.Time
	for _, job := range jobs {
		for _, c := range job.Status.Conditions {
			if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue && c.LastTransitionTime.After(last) {
				last = c.LastTransitionTime.Time
			}
		}
	}
	return last
}

// newerBackup is what the status says of the last backup. A Job that was deleted takes
// nothing back: its copy is where it was.
func newerBackup(known *metav1.Time, last time.Time) *metav1.Time {
	if last.IsZero() || known != nil && !last.After(known.Time) {
		return known
	}
	t := metav1.NewTime(last)
	return &t
}

// groupOfBackup finds the group of a Job by its label.
func groupOfBackup(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[v1alpha1.LabelBackupOf]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}
