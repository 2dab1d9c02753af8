// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// definitions is the API group and version of NetworkAttachmentDefinitions.
const definitions = "k8s.cni.cncf.io/v1"

// devices: whether services can have a device other than Kernel, and what nodes offer for
// it. A cluster without is well: services are on Kernel by default.
func (c *cluster) devices(ctx context.Context) verdict {
	const subject, how = "devices", "docs/guides/devices.md#what-a-cluster-needs"
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes); err != nil {
		return unseen(subject, err)
	}
	offered := offers(nodes.Items)
	if _, err := c.set.Discovery().ServerResourcesForGroupVersion(definitions); err != nil {
		if len(offered) > 0 {
			return verdict{subject, warning, "nodes offer " + strings.Join(offered, ", ") + ", but there is no kind NetworkAttachmentDefinition",
				"install Multus where services shall be on AFXDP or SRIOV: " + how}
		}
		return verdict{subject, fine, "Kernel alone: there is no kind NetworkAttachmentDefinition", ""}
	}
	if len(offered) == 0 {
		return verdict{subject, fine, "AFXDP; no node offers hugepages or devices for SRIOV", ""}
	}
	return verdict{subject, fine, "AFXDP, and nodes offer " + strings.Join(offered, ", "), ""}
}

// offers are hugepages by size and resources of device plugins, with how much of each all
// nodes have together, and how many have some.
func offers(nodes []corev1.Node) []string {
	sum, have := map[corev1.ResourceName]*resource.Quantity{}, map[corev1.ResourceName]int{}
	for i := range nodes {
		for name, q := range nodes[i].Status.Allocatable {
			if q.IsZero() || !ofDevices(name) {
				continue
			}
			if sum[name] == nil {
				sum[name] = &resource.Quantity{Format: q.Format}
			}
			sum[name].Add(q)
			have[name]++
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		out = append(out, fmt.Sprintf("%s %s (%d of %d nodes)", sum[name], name, have[name], len(nodes)))
	}
	return out
}

// ofDevices says whether a resource is hugepages, or one that a plugin brought: those have
// a domain that is not Kubernetes' own.
func ofDevices(name corev1.ResourceName) bool {
	domain, _, has := strings.Cut(string(name), "/")
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) || has && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}
