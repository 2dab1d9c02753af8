// SPDX-License-Identifier: Apache-2.0

// The status of a Service, as far as it is CRAB's.
package redirection

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// conditionTypes are ours among the conditions of a Service.
var conditionTypes = []string{v1alpha1.ServiceConditionAccepted, v1alpha1.ServiceConditionProgrammed}

// marked says that a Service has a condition of ours.
func marked(s *corev1.Service) bool {
	return slices.ContainsFunc(s.Status.Conditions, func(c metav1.Condition) bool { return slices.Contains(conditionTypes, c.Type) })
}

// writeStatus gives a Service the status it should have. Its address belongs to us
// if its class is ours, and to nobody if it has no class and had ours.
func writeStatus(s *corev1.Service, d decision, now time.Time) {
	if d.released {
		for _, kind := range conditionTypes {
			meta.RemoveStatusCondition(&s.Status.Conditions, kind)
		}
		return
	}
	if crabplan.WantsVIP(s) {
		s.Status.LoadBalancer.Ingress = d.service.Status.LoadBalancer.Ingress
	}
	verdict.Set(&s.Status.Conditions, v1alpha1.ServiceConditionAccepted, d.accepted, s.Generation, now)
	verdict.Set(&s.Status.Conditions, v1alpha1.ServiceConditionProgrammed, d.programmed, s.Generation, now)
}

// Reasons whose events are warnings although CRAB serves the Service, and those
// that are none although it does not yet.
var (
	warned = map[string]bool{v1alpha1.ReasonEndpointsExcluded: true, v1alpha1.ReasonFamilyMissing: true, v1alpha1.ReasonFallingBack: true}
	quiet  = map[string]bool{v1alpha1.ReasonReconciling: true, v1alpha1.ReasonNotAccepted: true}
)
