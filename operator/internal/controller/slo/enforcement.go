// SPDX-License-Identifier: Apache-2.0

// Whether the routers enforce an objective that asks for it.
package slo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/enforce"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// enforcement is what an enforcing objective needs to know of its target.
type enforcement struct {
	// chosen is the objective that the target enforces; nil: none.
	chosen *v1alpha1.ServiceLevelObjective
	// config is the configuration of the target as it stands; nil: none yet.
	config *dataplane.Config
	// hashes are those of this configuration and of earlier ones from the same
	// sources.
	hashes []string
}

// gatherEnforcement reads it; nothing for an objective that only observes.
func (r *Reconciler) gatherEnforcement(ctx context.Context, s *snapshot) error {
	if s.target == nil || !enforce.Wanted(s.slo) {
		return nil
	}
	list := &v1alpha1.ServiceLevelObjectiveList{}
	if err := r.Client.List(ctx, list, client.InNamespace(s.slo.Namespace)); err != nil {
		return fmt.Errorf("list the objectives of the namespace: %w", err)
	}
	s.enforcement.chosen = enforce.Choose(s.target, list.Items)
	cm := &corev1.ConfigMap{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.target.Namespace, Name: render.ConfigMapName(s.target)}, cm)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the configuration of %s: %w", s.target.Name, err)
	}
	text := []byte(cm.Data[dataplane.ConfigMapKeyConfig])
	config, err := dataplane.ParseConfig(text)
	if err != nil {
		return nil // not there, or written by another version: nothing is known to be enforced
	}
	s.enforcement.config = config
	s.enforcement.hashes = append([]string{dataplane.HashConfig(text)}, strings.Split(cm.Annotations[dataplane.AnnotationSameGeneration], ",")...)
	return nil
}

// decideProgrammed says whether every live router runs a configuration made
// from this generation of the objective.
func decideProgrammed(s *snapshot, accepted verdict.Verdict) verdict.Verdict {
	if !enforce.Wanted(s.slo) {
		return verdict.Yes(v1alpha1.ReasonNothingToProgram, "the objective observes; routers and servers measure without being told")
	}
	no := func(reason, format string, args ...any) verdict.Verdict {
		return verdict.No(reason, fmt.Sprintf(format, args...))
	}
	if accepted.Status != metav1.ConditionTrue {
		return no(v1alpha1.ReasonNotAccepted, "%s", accepted.Message)
	}
	e, target := s.enforcement, s.target
	if e.chosen != nil && e.chosen.Name != s.slo.Name {
		return no(v1alpha1.ReasonConflict, "ServiceLevelObjective %s is enforced on RpcService %s: it is the oldest of those that ask for it; this one only observes",
			e.chosen.Name, target.Name)
	}
	if e.config == nil || !slices.Contains(e.config.Sources, enforce.Source(s.slo)) {
		return no(v1alpha1.ReasonReconciling, "the configuration of RpcService %s does not have this generation yet", target.Name)
	}
	programmed := meta.FindStatusCondition(target.Status.Conditions, v1alpha1.ConditionProgrammed)
	if programmed == nil || programmed.Status != metav1.ConditionTrue || !slices.Contains(e.hashes, target.Status.ConfigHash) {
		return no(v1alpha1.ReasonReconciling, "not every router of RpcService %s has acknowledged the configuration", target.Name)
	}
	return verdict.Yes(v1alpha1.ReasonProgrammed, fmt.Sprintf("every router of RpcService %s enforces the objective: %s",
		target.Name, s.slo.Spec.Enforcement.Mode))
}
