// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

const (
	// The folders of a member's disk and of the backups in the pod that copies.
	backupDisk, backupTarget = "/disk", "/backup"
	// backupUser is that of the members, whose files nobody else may read.
	backupUser = 65532
)

type backupOptions struct {
	claim, schedule string
	keep            uint32 // copies of the group that stay; 0: all
}

func backupCommand(s streams, connect connector) *cobra.Command {
	o := backupOptions{}
	c := &cobra.Command{
		Use:   "backup NAME --to-claim=CLAIM [--schedule=CRON] [--keep=N]",
		Short: "Copy the disk of a ReplicationGroup's first member into a volume, now or on a schedule",
		Long: "Makes a Job, or with --schedule a CronJob, that copies the disk of the group's first member while it runs, and opens the copy to see that\n" +
			"it is whole. Each copy is a folder of the volume, named like the pod that made it. With --keep the oldest copies of this\n" +
			"group are removed after each new one. `spec.restore` begins a group with one.",
		Args: takes(1, 1, "the NAME of a ReplicationGroup"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := connect()
			if err != nil {
				return err
			}
			return backup(cmd.Context(), s, cluster, args[0], o)
		},
	}
	c.Flags().StringVar(&o.claim, "to-claim", "", "PersistentVolumeClaim that takes the copies; required")
	c.Flags().StringVar(&o.schedule, "schedule", "", `when to copy, as a CronJob has it: "0 3 * * *"; now when empty`)
	c.Flags().Uint32Var(&o.keep, "keep", 0, "how many copies of this group stay in the volume, the new one counted; 0 removes none")
	_ = c.MarkFlagRequired("to-claim")
	return c
}

func backup(ctx context.Context, s streams, c *cluster, name string, o backupOptions) error {
	group, err := c.group(ctx, name)
	if err != nil {
		return err
	}
	if group.Spec.Storage.Policy == v1alpha1.StorageVolatile {
		return fmt.Errorf("the members of %s keep everything in memory (`spec.storage.policy` Volatile): there is no disk to copy", name)
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: o.claim}, claim); err != nil {
		return fmt.Errorf("read the claim of the backups: %w", err)
	}
	made, kind := backupObject(group, o), "job"
	if o.schedule != "" {
		kind = "cronjob"
	}
	if err := c.Create(ctx, made); err != nil {
		return fmt.Errorf("make the %s: %w", kind, err)
	}
	fmt.Fprintf(s.out, "%s/%s copies the disk of %s into claim %s\n  see it:  kubectl -n %s get %s %s; kubectl -n %s logs -l %s=%s\n  restore: `spec.restore: {claimName: %s, path: NAME OF THE POD}` in a new ReplicationGroup\n",
		kind, made.GetName(), render.MemberPod(group, 0), o.claim, c.namespace, kind, made.GetName(), c.namespace, v1alpha1.LabelBackupOf, name, o.claim)
	return nil
}

func (c *cluster) group(ctx context.Context, name string) (*v1alpha1.ReplicationGroup, error) {
	group := &v1alpha1.ReplicationGroup{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, group); err != nil {
		return nil, fmt.Errorf("read ReplicationGroup %s in namespace %s: %w", name, c.namespace, err)
	}
	return group, nil
}

// backupObject is what copies, once or again and again. It goes with its group.
func backupObject(group *v1alpha1.ReplicationGroup, o backupOptions) client.Object {
	of := map[string]string{v1alpha1.LabelBackupOf: group.Name}
	meta := metav1.ObjectMeta{
		Namespace: group.Namespace, Name: group.Name + "-backup", Labels: of,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.TargetGroup, Name: group.Name, UID: group.UID}},
	}
	retries := int32(3)
	job := batchv1.JobSpec{BackoffLimit: &retries, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: of}, Spec: backupPod(group, o)}}
	if o.schedule == "" {
		meta.Name, meta.GenerateName = "", group.Name+"-backup-"
		return &batchv1.Job{ObjectMeta: meta, Spec: job}
	}
	return &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{
		Schedule: o.schedule, ConcurrencyPolicy: batchv1.ForbidConcurrent, JobTemplate: batchv1.JobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: of}, Spec: job},
	}}
}

// backupPod stands on the member's node, which is where its disk can be read, and has no rights.
func backupPod(group *v1alpha1.ReplicationGroup, o backupOptions) corev1.PodSpec {
	yes, no, user := true, false, int64(backupUser)
	member, server := render.MemberPod(group, 0), group.Spec.Server
	args := []string{"--name=backup", "--data=" + backupDisk + "/data", "--backup-to=" + backupTarget + "/$(POD_NAME)"}
	if o.keep != 0 {
		args = append(args, fmt.Sprintf("--backup-keep=%d", o.keep))
	}
	volume := func(name, claim string, readOnly bool) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: readOnly}}}
	}
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no, ImagePullSecrets: render.PullSecrets(group.Spec.ImagePullSecrets),
		Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"statefulset.kubernetes.io/pod-name": member}},
		}}}},
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, FSGroup: &user,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: "backup", Image: server.Image, ImagePullPolicy: server.ImagePullPolicy, Command: server.Command,
			Args: args,
			Env: []corev1.EnvVar{{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}},
			VolumeMounts: []corev1.VolumeMount{{Name: "disk", MountPath: backupDisk, ReadOnly: true}, {Name: "backup", MountPath: backupTarget}},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		}},
		Volumes: []corev1.Volume{volume("disk", "data-"+member, true), volume("backup", o.claim, false)},
	}
}
