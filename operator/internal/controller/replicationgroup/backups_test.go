// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func aBackup(name string, kind batchv1.JobConditionType, status corev1.ConditionStatus, at time.Time) batchv1.Job {
	return batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", Labels: map[string]string{v1alpha1.LabelBackupOf: "orders"}},
		Status:     batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(at)}}},
	}
}

// the status tells of the last backup that was complete, also when its Job has gone.
func TestLastBackup(t *testing.T) {
	yes, no := corev1.ConditionTrue, corev1.ConditionFalse
	s := newScene(t)
	status := func() v1alpha1.ReplicationGroupStatus {
		return withStatus(s.snapshot, &plan{}, &outcome{before: s.group}, verdicts{}).Status
	}
	if got := status().LastBackupTime; got != nil {
		t.Fatalf("a backup of %v that nobody made", got)
	}
	s.lastBackup = lastComplete([]batchv1.Job{
		aBackup("a", batchv1.JobComplete, yes, start.Add(-3*time.Hour)),
		aBackup("b", batchv1.JobComplete, yes, start.Add(-2*time.Hour)),
		aBackup("c", batchv1.JobFailed, yes, start.Add(-time.Hour)),
		aBackup("d", batchv1.JobComplete, no, start),
		{},
	})
	if got := status().LastBackupTime; got == nil || !got.Time.Equal(start.Add(-2*time.Hour)) {
		t.Fatalf("last backup %v", got)
	}
	s.group.Status, s.lastBackup = status(), time.Time{}
	if got := status().LastBackupTime; got == nil || !got.Time.Equal(start.Add(-2*time.Hour)) {
		t.Fatalf("forgotten with its Job: %v", got)
	}
	job := aBackup("a", batchv1.JobComplete, yes, start)
	if asked := groupOfBackup(context.Background(), &job); len(asked) != 1 || asked[0].String() != "shop/orders" {
		t.Errorf("a Job asks for %v", asked)
	}
	if asked := groupOfBackup(context.Background(), &batchv1.Job{}); asked != nil {
		t.Errorf("somebody else's Job asks for %v", asked)
	}
}
