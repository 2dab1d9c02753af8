// SPDX-License-Identifier: Apache-2.0

// Objectives on replication groups. Whichever member answers a request measures it, from
// its first packet to its reply; the members' counts are added.
package slo

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/enforce"
)

// groupCapacity says why there is no estimate.
const groupCapacity = "the capacity of a ReplicationGroup is not estimated: its requests wait for disks and for one another, which the queueing model of services does not know"

// gatherGroup reads the group and what its members have measured.
func (r *Reconciler) gatherGroup(ctx context.Context, s *snapshot) error {
	group := &v1alpha1.ReplicationGroup{}
	name := s.slo.Spec.TargetRef.Name
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.slo.Namespace, Name: name}, group)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the target ReplicationGroup %s: %w", name, err)
	}
	s.group = group
	_, err = r.gatherLatencies(ctx, s, group, v1alpha1.ComponentMember)
	return err
}

// decideAcceptedGroup says whether the objective on a group can be measured.
func decideAcceptedGroup(s *snapshot) verdict.Verdict {
	name := s.slo.Spec.TargetRef.Name
	switch {
	case s.group == nil:
		return verdict.No(v1alpha1.ReasonTargetNotFound, fmt.Sprintf("there is no ReplicationGroup %q in namespace %q; create it or change `spec.targetRef`", name, s.slo.Namespace))
	case enforce.Wanted(s.slo):
		return verdict.No(v1alpha1.ReasonNothingEnforces, fmt.Sprintf(
			"`spec.enforcement.mode` %s needs a router, and ReplicationGroup %s has none: its leader bounds what is under way (`spec.inFlightLimit`); set the mode to Observe",
			s.slo.Spec.Enforcement.Mode, name))
	}
	return verdict.Yes(v1alpha1.ReasonAccepted, "the objective can be measured, by the members that answer")
}
