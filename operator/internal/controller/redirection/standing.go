// SPDX-License-Identifier: Apache-2.0

package redirection

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
)

// Standing tells whoever made a Service whether the agents acknowledge it exactly
// as it is given. The Service's own condition cannot: Services have no generation,
// and it may speak of the Service before its last change.
func (r *Reconciler) Standing(ctx context.Context, service *corev1.Service) (ok bool, reason, message string, err error) {
	agents := &v1alpha1.NodeDataplaneList{}
	if err := r.Cluster.List(ctx, agents, client.UnsafeDisableDeepCopy); err != nil {
		return false, "", "", fmt.Errorf("list NodeDataplanes: %w", err)
	}
	nodes := &corev1.NodeList{}
	if err := r.Cluster.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return false, "", "", fmt.Errorf("list Nodes: %w", err)
	}
	all := ofCRAB(agents.Items)
	gone, _ := absent(all, nodes.Items, r.Now())
	v := decideProgrammed(service, verdict.Yes("", ""), all, gone)
	return v.Status == metav1.ConditionTrue, v.Reason, v.Message, nil
}
