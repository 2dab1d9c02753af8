// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// Jobs of experiments and of backups are seen as they are; of all others only that they are there.
func TestJobsThatAreSeen(t *testing.T) {
	jobs := cacheOptions(labels.Everything()).ByObject
	for o, by := range jobs {
		if _, is := o.(*batchv1.Job); !is {
			continue
		}
		for _, row := range []struct {
			name   string
			labels map[string]string
			whole  bool
		}{
			{"an experiment's", map[string]string{v1alpha1.LabelExperiment: "sweep"}, true},
			{"a backup's", map[string]string{v1alpha1.LabelBackupOf: "orders"}, true},
			{"somebody else's", map[string]string{"app": "shop"}, false},
		} {
			if by.Label != nil && !by.Label.Matches(labels.Set(row.labels)) {
				t.Errorf("%s Job is not seen", row.name)
				continue
			}
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "n", UID: "u", ResourceVersion: "7", Labels: row.labels, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
				Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}}
			got, err := by.Transform(job)
			kept, is := got.(*batchv1.Job)
			if err != nil || !is || kept.Name != "j" || kept.ResourceVersion != "7" || len(kept.ManagedFields) != 0 || (len(kept.Status.Conditions) == 1) != row.whole || (len(kept.Labels) == 1) != row.whole {
				t.Errorf("%s Job is kept as %+v, %v", row.name, kept, err)
			}
		}
		return
	}
	t.Error("no rule for Jobs")
}
