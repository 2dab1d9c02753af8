// SPDX-License-Identifier: Apache-2.0

// How long this node's clients waited for connections, for Prometheus.
package agent

import (
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// named says whose each VIP of the plan is.
func named(p crabplan.Plan) *map[redirect.VIPKey]types.NamespacedName {
	out := map[redirect.VIPKey]types.NamespacedName{}
	for _, v := range p.VIPs {
		out[redirect.VIPKey{Addr: v.Addr, Port: v.Port}] = v.Service
	}
	return &out
}

// collectConnects tells of the Services that this node's clients have dialled.
func (a *agent) collectConnects(out chan<- prometheus.Metric) {
	all, err := a.plane.Connects()
	if err != nil {
		out <- prometheus.NewInvalidMetric(connectDesc, err)
		return
	}
	services := a.named.Load()
	if services == nil {
		return
	}
	for key, h := range all {
		of, known := (*services)[key]
		if !known {
			continue
		}
		out <- prometheus.MustNewConstHistogram(connectDesc, h.Total(), float64(h.SumNanoseconds())/1e9, boundsOf(h),
			of.Namespace, of.Name, netip.AddrPortFrom(key.Addr, key.Port).String())
	}
}

// boundsOf are two for each power of two, as the sidecars have them.
func boundsOf(h *ll7.Histogram) map[float64]uint64 {
	out := map[float64]uint64{}
	for exp := 10; exp <= 36; exp++ {
		for _, edge := range []uint64{1 << exp, 3 << (exp - 1)} {
			out[float64(edge)/1e9] = h.CountAtMost(edge - 1)
		}
	}
	return out
}
