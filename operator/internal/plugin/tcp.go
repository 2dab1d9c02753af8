// SPDX-License-Identifier: Apache-2.0

// Services of protocol TCP: nothing of ours is in their pods, and no router in
// front of them.
package plugin

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func overTCP(s *v1alpha1.RpcService) bool { return s.Spec.Protocol == v1alpha1.ProtocolTCP }

const (
	causeUnmeasured = "NoMeasurementSource"
	causeUnseen     = "RequestsUnseen"
	causeRedirected = "NotProgrammed"
)

func printHeadTCP(s streams, slo *v1alpha1.ServiceLevelObjective) {
	printMet(s, slo)
	if st := slo.Status; st.Observed != "" && st.Samples != nil {
		fmt.Fprintf(s.out, "  p%s      %s until a connection is established, objective %s, last %d s, %d connections\n",
			slo.Spec.Percentile, st.Observed, st.Objective, st.WindowSeconds, *st.Samples)
	}
}

// findingsTCP are what is known without a router: whether the servers are ready,
// and whether connections take the way they should.
func findingsTCP(slo *v1alpha1.ServiceLevelObjective, service *v1alpha1.RpcService) []finding {
	var findings []finding
	if f := ofReadiness(service, &observation{}); f != nil {
		f.Evidence = service.Status.Workers + " servers ready"
		findings = append(findings, *f)
	}
	c := meta.FindStatusCondition(service.Status.Conditions, v1alpha1.ConditionProgrammed)
	if c != nil && (c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonProgrammed) {
		findings = append(findings, finding{causeRedirected, fmt.Sprintf("%s: %s", c.Reason, c.Message),
			fmt.Sprintf("kubectl describe service %s; kubectl get ndp (docs/guides/crab.md)", service.Name)})
	}
	if met := meta.FindStatusCondition(slo.Status.Conditions, v1alpha1.ConditionMet); met != nil && met.Reason == v1alpha1.ReasonMeasurementIncomplete {
		findings = append(findings, finding{met.Reason, met.Message, "kubectl get ndp -o wide; docs/guides/crab.md says what the operator must reach"})
	}
	cause := causeUnmeasured
	if slo.Status.Source == v1alpha1.SourceClientNode {
		cause = causeUnseen
	}
	return append(findings, finding{cause,
		fmt.Sprintf("RpcService %s speaks TCP: connections leave the balancer with their SYN, and nobody in between sees requests", service.Name),
		fmt.Sprintf("a LatencyExperiment with `target.targetRef` %s and `workload.protocol` HTTP, Redis or what else the servers speak", service.Name)})
}
