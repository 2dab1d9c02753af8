// SPDX-License-Identifier: Apache-2.0

// How long this node's clients waited for connections, for Prometheus and for the
// operator.
package agent

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/waits"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// counts are those of the kernel, with what full maps keep from them.
type counts struct {
	redirect.Plane
	evicted *atomic.Pointer[map[string]uint64]
}

// Lost: a wait without a bucket, and a SYN whose memory made room for another. The
// sweeps find the latter.
func (c counts) Lost() (map[string]uint64, error) {
	counters, err := c.Counters()
	if err != nil {
		return nil, err
	}
	lost := map[string]uint64{"no room": counters["client_connect_full"]}
	if evicted := c.evicted.Load(); evicted != nil {
		lost["pushed out"] = (*evicted)["pending"]
	}
	return lost, nil
}

// named says whose each VIP of the plan is.
func named(p crabplan.Plan) waits.Services {
	out := waits.Services{}
	for _, v := range p.VIPs {
		out[redirect.VIPKey{Addr: v.Addr, Port: v.Port}] = v.Service
	}
	return out
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
		out <- prometheus.MustNewConstHistogram(connectDesc, h.Total(), float64(h.SumNanoseconds())/1e9, maps.Collect(dataplane.Bounds(h)),
			of.Namespace, of.Name, netip.AddrPortFrom(key.Addr, key.Port).String())
	}
}

// serveConnects lets the operator read them.
func (a *agent) serveConnects(ctx context.Context) error {
	if a.options.Connects == 0 {
		return nil
	}
	address := netip.AddrPortFrom(a.options.NodeIP, a.options.Connects).String()
	return a.waits.Serve(ctx, address, &dataplane.Identity{Dir: a.options.TLSDir, Log: slog.Default()})
}
