// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

var (
	packetsDesc    = prometheus.NewDesc("bobtail_crab_packets_total", "Packets and pieces of state the node's programs counted, by reason (dataplane/bpf/crab_reasons.h).", []string{"reason"}, nil)
	heartbeatsDesc = prometheus.NewDesc("bobtail_crab_heartbeats_total", "Heartbeats of agents, by what became of them.", []string{"result"}, nil)
	arpDesc        = prometheus.NewDesc("bobtail_crab_arp_total", "ARP messages for announced VIPs, by what became of them.", []string{"result"}, nil)
	ownedDesc      = prometheus.NewDesc("bobtail_crab_owned_vips", "VIPs this node announces.", nil, nil)
	aliveDesc      = prometheus.NewDesc("bobtail_crab_live_agents", "Other agents whose heartbeats arrive.", nil, nil)
	probesDesc     = prometheus.NewDesc("bobtail_crab_probe_failures_total", "Probes that could not be sent; they say nothing of the server.", nil, nil)
)

// Describe makes the agent a collector.
func (a *agent) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{packetsDesc, heartbeatsDesc, arpDesc, ownedDesc, aliveDesc, probesDesc} {
		out <- d
	}
}

// Collect reads everything anew.
func (a *agent) Collect(out chan<- prometheus.Metric) {
	counters, err := a.plane.Counters()
	if err != nil {
		out <- prometheus.NewInvalidMetric(packetsDesc, err)
	}
	heartbeats, arp := a.keeper.Counters()
	for desc, values := range map[*prometheus.Desc]map[string]uint64{packetsDesc: counters, heartbeatsDesc: heartbeats, arpDesc: arp} {
		for name, n := range values {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), name)
		}
	}
	out <- prometheus.MustNewConstMetric(probesDesc, prometheus.CounterValue, float64(a.prober.failures()))
	out <- prometheus.MustNewConstMetric(ownedDesc, prometheus.GaugeValue, float64(len(a.keeper.Owned())))
	out <- prometheus.MustNewConstMetric(aliveDesc, prometheus.GaugeValue, float64(len(a.keeper.Alive())))
}

// serve gives metrics, and tells that the agent is at work.
func (a *agent) serve(ctx context.Context) error {
	if a.options.Metrics == "0" {
		return nil
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(a)
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/readyz", a.ready)
	listener, err := net.Listen("tcp", a.options.Metrics)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // a listener that breaks is beyond repair
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}

// ready tells that this node can own VIPs: before, the agent of the next node must
// not be replaced, or nobody owns them for as long as programs take to load.
func (a *agent) ready(w http.ResponseWriter, _ *http.Request) {
	if !a.applied.Load() {
		http.Error(w, "the programs are being loaded", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}
