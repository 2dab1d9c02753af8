// SPDX-License-Identifier: Apache-2.0

// Objectives on services of protocol TCP, whose requests nobody sees but the
// servers.
package slo

import (
	"fmt"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// unseen says why there are no latencies of a TCP service, and what can be done.
func unseen(target *v1alpha1.RpcService) string {
	return fmt.Sprintf("RpcService %s speaks TCP: connections leave the balancer with their SYN, and no router or server of ours sees their requests; "+
		"a LatencyExperiment with `target.targetRef` %s and `workload.protocol` HTTP, Redis or what else its servers speak measures them once, and bobtail_crab_connect_seconds of the agents is how long clients wait for a connection",
		target.Name, target.Name)
}
