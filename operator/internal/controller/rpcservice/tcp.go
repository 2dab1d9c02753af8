// SPDX-License-Identifier: Apache-2.0

// Services of protocol TCP on the kernel: CRAB's agents balance the connections, so Programmed
// is theirs to say. Whatever they say, kube-proxy serves the ClusterIP.
package rpcservice

import (
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// Redirection says what CRAB makes of a Service.
type Redirection interface {
	// Standing says whether the agents of all nodes acknowledge the Service as
	// it is given, as status, reason and message of a condition.
	Standing(ctx context.Context, s *corev1.Service) (ok bool, reason, message string, err error)
}

// standing is its answer; the zero value: there is no CRAB.
type standing struct {
	crab bool
	verdict.Verdict
}

// decideProgrammedTCP says whether every agent has acknowledged the Service that
// this generation asks for. wanted is that Service.
func decideProgrammedTCP(s *snapshot, wanted *corev1.Service) verdict.Verdict {
	no := func(reason, format string, args ...any) verdict.Verdict {
		return verdict.No(reason, fmt.Sprintf(format, args...)+
			"; clients in the cluster reach it by its ClusterIP, "+render.NamedAddress(s.service))
	}
	if !s.standing.crab {
		return no(v1alpha1.ReasonCRABDisabled, "this installation has no CRAB, which would balance the connections: set crab.enabled and crab.vipPool of the chart")
	}
	if s.front == nil || !asks(s.front, wanted) {
		return no(v1alpha1.ReasonReconciling, "Service %s has just been changed", wanted.Name)
	}
	judged := meta.FindStatusCondition(s.front.Status.Conditions, v1alpha1.ServiceConditionAccepted)
	switch {
	case judged == nil:
		return no(v1alpha1.ReasonReconciling, "CRAB has not judged Service %s yet", s.front.Name)
	case judged.Status != metav1.ConditionTrue:
		return no(judged.Reason, "CRAB refuses Service %s: %s", s.front.Name, judged.Message)
	case !s.standing.OK():
		return no(s.standing.Reason, "Service %s: %s", s.front.Name, s.standing.Message)
	}
	message := fmt.Sprintf("Service %s, generation %d: %s", s.front.Name, s.service.Generation, s.standing.Message)
	if judged.Reason != v1alpha1.ReasonAccepted {
		message += "; " + judged.Message
	}
	return verdict.Yes(s.standing.Reason, message)
}

// unbalanced says of servers of TCP on a device what CRAB cannot do for them.
func unbalanced(s *snapshot, v verdict.Verdict) verdict.Verdict {
	if render.TCP(s.service) {
		v.Message += "; CRAB does not balance their connections, for its relays lead to the pod network: clients choose among the addresses of Service " + s.service.Name
	}
	return v
}

// asks says that the Service as it is asks of CRAB what it should.
func asks(is, wanted *corev1.Service) bool {
	return is.Annotations[v1alpha1.AnnotationPolicy] == wanted.Annotations[v1alpha1.AnnotationPolicy] &&
		len(is.Spec.Ports) == 1 && is.Spec.Ports[0].Port == wanted.Spec.Ports[0].Port
}

// frontAddresses are those at which the load balancer answers: none where no node
// has an agent, though the Service may have been given one.
func frontAddresses(s *snapshot) []string {
	if s.front == nil || !s.standing.crab || s.standing.Reason == v1alpha1.ReasonNoAgents {
		return nil
	}
	var out []string
	const most = 4
	for _, i := range s.front.Status.LoadBalancer.Ingress {
		if i.IP != "" && len(out) < most {
			out = append(out, net.JoinHostPort(i.IP, strconv.Itoa(int(s.service.Spec.TCP.Port))))
		}
	}
	return out
}
