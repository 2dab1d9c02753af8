// SPDX-License-Identifier: Apache-2.0

package programmableswitch

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/message"
)

// act hands the keeper what is wanted. A specification that is not accepted changes
// nothing: what worked goes on. gone says that there is no object any more.
func (r *Reconciler) act(ctx context.Context, s *snapshot, p plan) (gone bool, err error) {
	holds := controllerutil.ContainsFinalizer(s.psw, v1alpha1.FinalizerSwitch)
	if s.psw.DeletionTimestamp != nil {
		if holds && !s.state.Cleared {
			if p.desired != nil {
				r.Switches.Set(s.psw.Name, *p.desired)
			} else { // what was accepted last says how
				r.Switches.Clear(s.psw.Name)
			}
			return false, nil
		}
		if err := r.release(ctx, s.psw); err != nil { // and what is known of the switch stays, for the next attempt
			return true, err
		}
		r.parts.keep(s.psw.Name, nil)
		r.forget(s.psw.Name)
		return true, nil
	}
	if p.desired == nil {
		return false, nil
	}
	if !holds { // before the first entry is written
		if err := r.hold(ctx, s.psw); err != nil {
			return false, err
		}
	}
	if p.waits {
		return false, nil
	}
	r.Switches.Set(s.psw.Name, *p.desired)
	return false, nil
}

func (r *Reconciler) hold(ctx context.Context, psw *v1alpha1.ProgrammableSwitch) error {
	before := psw.DeepCopy()
	controllerutil.AddFinalizer(psw, v1alpha1.FinalizerSwitch)
	return r.patch(ctx, before, psw)
}

func (r *Reconciler) release(ctx context.Context, psw *v1alpha1.ProgrammableSwitch) error {
	before := psw.DeepCopy()
	if !controllerutil.RemoveFinalizer(psw, v1alpha1.FinalizerSwitch) {
		return nil
	}
	return client.IgnoreNotFound(r.patch(ctx, before, psw))
}

func (r *Reconciler) patch(ctx context.Context, before, after *v1alpha1.ProgrammableSwitch) error {
	status := after.Status
	err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager))
	after.Status = status
	if err != nil {
		return fmt.Errorf("write the finalizer: %w", err)
	}
	return nil
}

func (r *Reconciler) patchStatus(ctx context.Context, before, after *v1alpha1.ProgrammableSwitch) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, after, patch, client.FieldOwner(fieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	r.announce(before, after)
	return nil
}

// announce makes an event when an answer changes.
func (r *Reconciler) announce(before, after *v1alpha1.ProgrammableSwitch) {
	for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed} {
		c, old := meta.FindStatusCondition(after.Status.Conditions, kind), meta.FindStatusCondition(before.Status.Conditions, kind)
		if c == nil || old != nil && old.Status == c.Status && old.Reason == c.Reason {
			continue
		}
		level := corev1.EventTypeNormal
		if c.Status == metav1.ConditionFalse && c.Reason != v1alpha1.ReasonReconciling {
			level = corev1.EventTypeWarning
		}
		r.Events.Eventf(after, nil, level, c.Reason, kind, "%s", message.Bounded(c.Message, 1000))
	}
	if after.Status.PipelinePushes > before.Status.PipelinePushes {
		r.Events.Eventf(after, nil, corev1.EventTypeNormal, v1alpha1.EventPipelinePushed, "Push",
			"the pipeline with cookie %s was pushed; everything on the switch was interrupted", after.Status.Cookie)
	}
}
