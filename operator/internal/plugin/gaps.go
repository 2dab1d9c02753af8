// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// gaps are the pods of a component that should serve and do not, each with the
// reason that the cluster gives: what is not there explains more than any figure.
func gaps(service *v1alpha1.RpcService, component string, all []corev1.Pod) []finding {
	wanted, cause := render.Replicas(service), causeNoServers
	if component == v1alpha1.ComponentRouter {
		wanted, cause = routersWanted(service), causeNoRouters
	}
	var out []finding
	running, waiting, unscheduled := 0, []string{}, []string{}
	for i := range all {
		pod := &all[i]
		switch why, placed := waitingFor(pod); {
		case pod.DeletionTimestamp != nil:
		case pod.Status.Phase == corev1.PodRunning:
			running++
		case !placed:
			unscheduled = append(unscheduled, pod.Name+": "+why)
		default:
			waiting = append(waiting, pod.Name+": "+why)
		}
	}
	if running < int(wanted) {
		out = append(out, finding{cause, fmt.Sprintf("%d of %d %ss run", running, wanted, component),
			fmt.Sprintf("kubectl -n %s describe deployment %s-%s", service.Namespace, service.Name, component)})
	}
	if len(unscheduled) > 0 {
		out = append(out, finding{causeUnscheduled, strings.Join(unscheduled, "; "),
			"kubectl get nodes: cordoned, full or without what these pods ask for (kubectl -n " + service.Namespace + " describe pod)"})
	}
	if len(waiting) > 0 {
		out = append(out, finding{causeNotStarted, strings.Join(waiting, "; "), "kubectl -n " + service.Namespace + " describe pod"})
	}
	return out
}

func routersWanted(s *v1alpha1.RpcService) int32 {
	if !render.HasRouter(s) {
		return 0
	}
	return s.Spec.Router.Replicas
}

// waitingFor is why a pod does not run, and whether it has a node.
func waitingFor(pod *corev1.Pod) (why string, placed bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message, false
		}
	}
	for _, s := range append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...) {
		if w := s.State.Waiting; w != nil && w.Reason != "PodInitializing" {
			return strings.TrimSuffix(s.Name+" "+w.Reason+": "+w.Message, ": "), true
		}
	}
	return strings.ToLower(string(pod.Status.Phase)), true
}
