// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// stuckGroup has lost its quorum; the claim of its third member is there.
func stuckGroup() *v1alpha1.ReplicationGroup {
	size := int32(1024)
	return &v1alpha1.ReplicationGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "orders", UID: "1-2-3"},
		Spec: v1alpha1.ReplicationGroupSpec{Members: 3, Protocol: v1alpha1.ReplicationRaft, Server: v1alpha1.RpcServiceServer{Image: "kv:1"},
			Storage: v1alpha1.ReplicationStorage{Policy: v1alpha1.StorageAlways, SizeMebibytes: &size}},
		Status: v1alpha1.ReplicationGroupStatus{ClusterID: "123", Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoQuorum}},
			Members: []v1alpha1.GroupMemberStatus{{Number: 3, Pod: "orders-member-2", Role: v1alpha1.MemberVoter, State: v1alpha1.MemberFollowing}}},
	}
}

func aClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
}

func clusterOf(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{Client: crfake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), namespace: ns}
}

func recovering(t *testing.T, c *cluster, typed string, o recoverOptions) (string, error) {
	t.Helper()
	var out bytes.Buffer
	o.answers, o.patience = strings.NewReader(typed), 2*time.Second
	err := recoverGroup(context.Background(), streams{&out, &out}, c, "orders", o)
	return out.String(), err
}

func exists(t *testing.T, c *cluster, name string) *v1alpha1.ReplicationGroup {
	t.Helper()
	g, err := c.group(context.Background(), name)
	if err == nil {
		return g
	}
	if !apierrors.IsNotFound(err) {
		t.Log(err)
	}
	return nil
}

var wished = recoverOptions{force: true, member: "orders-member-2", into: "orders-b"}

// G-12: the old group is ended, and another one begins with the disk that was named.
func TestRecoverMakesANewGroup(t *testing.T) {
	c := clusterOf(t, stuckGroup(), aClaim("data-orders-member-2"))
	out, err := recovering(t, c, "orders\n", wished)
	if err != nil {
		t.Fatal(err)
	}
	next := exists(t, c, "orders-b")
	if next == nil || exists(t, c, "orders") != nil {
		t.Fatalf("the new group %v, the old one %v", next, exists(t, c, "orders"))
	}
	if r := next.Spec.Restore; r == nil || r.ClaimName != "data-orders-member-2" || r.Path != "data" || next.Spec.Members != 3 || next.UID == "1-2-3" || next.Status.ClusterID != "" {
		t.Errorf("the new group %+v", next.Spec)
	}
	if !strings.Contains(out, "orders-b.shop.svc:8000") {
		t.Errorf("says %s", out)
	}
}

// G-12: what is wrong is refused by name, and nothing is done.
func TestRecoverRefuses(t *testing.T) {
	for _, row := range []struct {
		name, typed, says string
		change            func(*v1alpha1.ReplicationGroup, *recoverOptions)
	}{
		{"another name typed", "order\n", "nothing was done", nil},
		{"nothing typed", "", "nothing was done", nil},
		{"without the word", "orders\n", "--force-new-quorum must be given", func(_ *v1alpha1.ReplicationGroup, o *recoverOptions) { o.force = false }},
		{"a pod of another group", "orders\n", "--from-member must be a pod of orders", func(_ *v1alpha1.ReplicationGroup, o *recoverOptions) { o.member = "cart-member-2" }},
		{"the same name", "orders\n", "--into must be another name", func(_ *v1alpha1.ReplicationGroup, o *recoverOptions) { o.into = "orders" }},
		{"no such disk", "orders\n", "read the claim of orders-member-1", func(_ *v1alpha1.ReplicationGroup, o *recoverOptions) { o.member = "orders-member-1" }},
		{"a group that can answer", "orders\n", "has not lost its quorum", func(g *v1alpha1.ReplicationGroup, _ *recoverOptions) {
			g.Status.Conditions[0].Status, g.Status.Conditions[0].Reason = metav1.ConditionTrue, v1alpha1.ReasonReady
		}},
		{"one that is about to elect", "orders\n", "has not lost its quorum", func(g *v1alpha1.ReplicationGroup, _ *recoverOptions) {
			g.Status.Conditions[0].Reason = v1alpha1.ReasonNoLeader
		}},
	} {
		g, o := stuckGroup(), wished
		if row.change != nil {
			row.change(g, &o)
		}
		c := clusterOf(t, g, aClaim("data-orders-member-2"))
		_, err := recovering(t, c, row.typed, o)
		if err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", row.name, err, row.says)
		}
		if exists(t, c, "orders") == nil || exists(t, c, "orders-b") != nil {
			t.Errorf("%s: something was done", row.name)
		}
	}
}

// G-12: while a pod of the old group is there, its disk is not given to another.
func TestRecoverWaitsForPods(t *testing.T) {
	pod := aPod("orders-member-2", "member")
	pod.Labels[v1alpha1.LabelService] = "orders"
	c := clusterOf(t, stuckGroup(), aClaim("data-orders-member-2"), pod)
	if _, err := recovering(t, c, "orders\n", wished); err == nil || !strings.Contains(err.Error(), "do not end") || exists(t, c, "orders-b") != nil {
		t.Errorf("%v", err)
	}
}

// a backup stands on the member's node, reads its disk, and goes with the group.
func TestBackup(t *testing.T) {
	for _, schedule := range []string{"", "0 3 * * *"} {
		c := clusterOf(t, stuckGroup(), aClaim("backups"))
		var out bytes.Buffer
		if err := backup(context.Background(), streams{&out, &out}, c, "orders", backupOptions{"backups", schedule, 7}); err != nil {
			t.Fatal(err)
		}
		jobs, crons := &batchv1.JobList{}, &batchv1.CronJobList{}
		if err := c.List(context.Background(), jobs); err != nil {
			t.Fatal(err)
		}
		if err := c.List(context.Background(), crons); err != nil {
			t.Fatal(err)
		}
		var pod corev1.PodSpec
		var owner string
		switch {
		case schedule == "" && len(jobs.Items) == 1 && len(crons.Items) == 0:
			pod, owner = jobs.Items[0].Spec.Template.Spec, jobs.Items[0].OwnerReferences[0].Name
		case schedule != "" && len(jobs.Items) == 0 && len(crons.Items) == 1 && crons.Items[0].Spec.Schedule == schedule:
			pod, owner = crons.Items[0].Spec.JobTemplate.Spec.Template.Spec, crons.Items[0].OwnerReferences[0].Name
		default:
			t.Fatalf("%q made %d jobs, %d cron jobs", schedule, len(jobs.Items), len(crons.Items))
		}
		disk, target := pod.Volumes[0].PersistentVolumeClaim, pod.Volumes[1].PersistentVolumeClaim
		if owner != "orders" || disk.ClaimName != "data-orders-member-0" || !disk.ReadOnly || target.ClaimName != "backups" || target.ReadOnly {
			t.Errorf("%q: owner %s, volumes %+v %+v", schedule, owner, disk, target)
		}
		near := pod.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
		if near.LabelSelector.MatchLabels["statefulset.kubernetes.io/pod-name"] != "orders-member-0" || near.TopologyKey != corev1.LabelHostname {
			t.Errorf("%q: near %+v", schedule, near)
		}
		if a := pod.Containers[0].Args; a[1] != "--data=/disk/data" || a[2] != "--backup-to=/backup/$(POD_NAME)" || a[3] != "--backup-keep=7" || !pod.Containers[0].VolumeMounts[0].ReadOnly {
			t.Errorf("%q: %v", schedule, a)
		}
	}
}

// without a number all copies stay.
func TestBackupsThatStay(t *testing.T) {
	for _, arg := range backupPod(stuckGroup(), backupOptions{claim: "backups"}).Containers[0].Args {
		if strings.HasPrefix(arg, "--backup-keep") {
			t.Error(arg)
		}
	}
}

// what cannot be copied is refused.
func TestBackupRefuses(t *testing.T) {
	volatile := stuckGroup()
	volatile.Spec.Storage = v1alpha1.ReplicationStorage{Policy: v1alpha1.StorageVolatile}
	for says, c := range map[string]*cluster{
		"there is no disk to copy":     clusterOf(t, volatile, aClaim("backups")),
		"read the claim of the backup": clusterOf(t, stuckGroup()),
		"read ReplicationGroup orders": clusterOf(t, aClaim("backups")),
	} {
		var out bytes.Buffer
		if err := backup(context.Background(), streams{&out, &out}, c, "orders", backupOptions{claim: "backups"}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
