// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

type recoverOptions struct {
	force        bool
	into, member string
	answers      io.Reader
	patience     time.Duration // for the old group's pods to end
}

func recoverCommand(s streams, connect connector) *cobra.Command {
	o := recoverOptions{patience: 2 * time.Minute}
	c := &cobra.Command{
		Use:   "recover NAME --force-new-quorum --from-member=POD --into=NEWNAME",
		Short: "Make a new group of one member's disk, when a majority of a ReplicationGroup's disks is lost",
		Long: "Ends the group and begins another one, with another cluster id, from the disk of the member that is named. Writes that this member does not\n" +
			"have are lost, also answered ones: name the one that has the most. Nothing is done before the group's name was typed. All claims of the old\n" +
			"group stay.",
		Args: takes(1, 1, "the NAME of a ReplicationGroup"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := connect()
			if err != nil {
				return err
			}
			o.answers = cmd.InOrStdin()
			return recoverGroup(cmd.Context(), s, cluster, args[0], o)
		},
	}
	c.Flags().BoolVar(&o.force, "force-new-quorum", false, "yes, go on with what one member has; required")
	c.Flags().StringVar(&o.member, "from-member", "", "pod whose disk is the new group's beginning; required")
	c.Flags().StringVar(&o.into, "into", "", "name of the new group; required, and not the old one's, whose claims stay")
	for _, f := range []string{"force-new-quorum", "from-member", "into"} {
		_ = c.MarkFlagRequired(f)
	}
	return c
}

// recoverGroup asks, ends the old group, and begins the new one.
func recoverGroup(ctx context.Context, s streams, c *cluster, name string, o recoverOptions) error {
	old, err := c.group(ctx, name)
	if err != nil {
		return err
	}
	if err := mayRecover(ctx, c, old, o); err != nil {
		return err
	}
	printGroup(s, old)
	if err := confirmed(s, o.answers, name); err != nil {
		return err
	}
	if err := c.Delete(ctx, old, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		return fmt.Errorf("end group %s: %w", name, err)
	}
	fmt.Fprintf(s.out, "group %s is ended; waiting for its pods\n", name)
	if err := c.gone(ctx, old, o.patience); err != nil {
		return err
	}
	next := successor(old, o)
	if err := c.Create(ctx, next); err != nil {
		return fmt.Errorf("begin group %s (the old one is ended, its claims are there: apply a ReplicationGroup with `spec.restore: {claimName: %s}`): %w", o.into, next.Spec.Restore.ClaimName, err)
	}
	fmt.Fprintf(s.out, "group %s begins with the disk of %s\n  see it:  kubectl -n %s get rg %s -w\n  clients: %s\n", o.into, o.member, c.namespace, o.into, render.GroupAddress(next))
	return nil
}

// mayRecover refuses what would lose more than it has to, or cannot end well.
func mayRecover(ctx context.Context, c *cluster, old *v1alpha1.ReplicationGroup, o recoverOptions) error {
	if !o.force {
		return errors.New("--force-new-quorum must be given: the new group has only what one member has")
	}
	if _, is := render.MemberOrdinal(old, o.member); !is {
		return fmt.Errorf("--from-member must be a pod of %s, such as %s; got %q", old.Name, render.MemberPod(old, 0), o.member)
	}
	if o.into == old.Name {
		return fmt.Errorf("--into must be another name than %s: the claims of the old group stay, and would be taken for the new one's", old.Name)
	}
	ready := meta.FindStatusCondition(old.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue || ready.Reason != v1alpha1.ReasonNoQuorum {
		return fmt.Errorf("group %s has not lost its quorum (condition Ready, reason %s): nothing is done to a group that can answer", old.Name, reasonOf(ready))
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: old.Namespace, Name: "data-" + o.member}, claim); err != nil {
		return fmt.Errorf("read the claim of %s: %w", o.member, err)
	}
	err := c.Get(ctx, client.ObjectKey{Namespace: old.Namespace, Name: o.into}, &v1alpha1.ReplicationGroup{})
	if err == nil {
		return fmt.Errorf("there is a ReplicationGroup %s already", o.into)
	}
	return client.IgnoreNotFound(err)
}

func reasonOf(c *metav1.Condition) string {
	if c == nil {
		return "unknown"
	}
	return c.Reason
}

// printGroup shows what is known of the members.
func printGroup(s streams, g *v1alpha1.ReplicationGroup) {
	fmt.Fprintf(s.out, "%s/%s, cluster %s\n", g.Namespace, g.Name, g.Status.ClusterID)
	for _, m := range g.Status.Members {
		fmt.Fprintf(s.out, "  %-3d %-30s %-8s %s\n", m.Number, m.Pod, m.Role, m.State)
	}
	fmt.Fprintln(s.out, "\nAnswered writes that the member you named does not have are lost for good. If pods of a majority can come back, let them.")
}

// confirmed wants the name typed.
func confirmed(s streams, answers io.Reader, name string) error {
	fmt.Fprintf(s.out, "Type the name of the group to end it and go on with one disk: ")
	line, err := bufio.NewReader(answers).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if got := strings.TrimSpace(line); got != name {
		return fmt.Errorf("nothing was done: %q is not %q", got, name)
	}
	return nil
}

// gone waits until no pod of the group runs: its disks are then nobody's.
func (c *cluster) gone(ctx context.Context, old *v1alpha1.ReplicationGroup, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		pods := &corev1.PodList{}
		err := c.List(ctx, pods, client.InNamespace(old.Namespace), client.MatchingLabels(render.Selector(old.Name, v1alpha1.ComponentMember)))
		if err == nil && len(pods.Items) == 0 {
			err = c.Get(ctx, client.ObjectKeyFromObject(old), &v1alpha1.ReplicationGroup{})
			if apierrors.IsNotFound(err) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the pods of %s do not end (the group is deleted, its claims are there: when they have ended, apply a ReplicationGroup with `spec.restore`): %d are there", old.Name, len(pods.Items))
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// successor is the old group's specification under another name, with a disk to begin with.
func successor(old *v1alpha1.ReplicationGroup, o recoverOptions) *v1alpha1.ReplicationGroup {
	next := &v1alpha1.ReplicationGroup{ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, Name: o.into, Labels: old.Labels}, Spec: *old.Spec.DeepCopy()}
	next.Spec.Restore = &v1alpha1.GroupRestore{ClaimName: "data-" + o.member, Path: "data"}
	return next
}
