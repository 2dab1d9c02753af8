// SPDX-License-Identifier: Apache-2.0

package redirection

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// Agent is the agent of one node.
type Agent struct {
	Node, Version string
	// Address is the node's, as its kubelet tells pods of the host's network.
	Address string
	// AtWork: the node is ready, and the agent has said that it does its part there.
	AtWork bool
}

// Agents lists those of all nodes there are.
func (r *Reconciler) Agents(ctx context.Context) ([]Agent, error) {
	agents, nodes := &v1alpha1.NodeDataplaneList{}, &corev1.NodeList{}
	if err := r.Cluster.List(ctx, agents, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list NodeDataplanes: %w", err)
	}
	if err := r.Cluster.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	return agentsOf(ofCRAB(agents.Items), nodes.Items), nil
}

// ofCRAB leaves out nodes that only tell what they have: no agent there acknowledges
// anything.
func ofCRAB(all []v1alpha1.NodeDataplane) []v1alpha1.NodeDataplane {
	out := make([]v1alpha1.NodeDataplane, 0, len(all))
	for i := range all {
		if all[i].RunsCRAB() {
			out = append(out, all[i])
		}
	}
	return out
}

func agentsOf(agents []v1alpha1.NodeDataplane, nodes []corev1.Node) (out []Agent) {
	by := map[string]*corev1.Node{}
	for i := range nodes {
		by[nodes[i].Name] = &nodes[i]
	}
	for _, a := range agents {
		node := by[a.Name]
		if node == nil {
			continue // on its way out
		}
		out = append(out, Agent{Node: a.Name, Version: a.Status.AgentVersion, Address: hostAddress(node),
			AtWork: ready(node) && meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionProgrammed)})
	}
	return out
}

// hostAddress is the first InternalIP, which is where agents listen.
func hostAddress(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

func ready(n *corev1.Node) bool {
	c := readiness(n)
	return c != nil && c.Status == corev1.ConditionTrue
}
