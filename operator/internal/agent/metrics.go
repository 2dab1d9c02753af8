// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("bobtail_crab_"+name, help, labels, nil)
}

var (
	packetsDesc    = desc("packets_total", "Packets and pieces of state the node's programs counted, by reason (dataplane/bpf/crab_reasons.h).", "reason")
	heartbeatsDesc = desc("heartbeats_total", "Heartbeats and reports of agents, by what became of them.", "result")
	arpDesc        = desc("arp_total", "ARP messages for announced IPv4 VIPs, by what became of them.", "result")
	ndpDesc        = desc("ndp_total", "Neighbour discovery messages for announced IPv6 VIPs, by what became of them.", "result")
	probesDesc     = desc("probe_failures_total", "Probes that could not be sent; they say nothing of the server.")
	loadsDesc      = desc("loads_total", "Loads of servers that other agents and this one told, by what became of them.", "result")
	tellsDesc      = desc("balancer_reports_total", "Reports of load to balancers outside the cluster, by what became of them.", "result")
	keysDesc       = desc("key_changes_total", "Changes of the heartbeats' key in the mounted Secret, by what became of them.", "result")
	stateDesc      = desc("state_evicted_total", "Entries of the node's bounded maps that a full map pushed out, by the kind of state.", "state")
	evictedDesc    = desc("flows_evicted_total", "Live redirected connections that a full map pushed out; each hangs until its client gives up.")

	ownedDesc   = desc("owned_vips", "VIPs this node announces, by family.", "family")
	unownedDesc = desc("unowned_vips", "VIPs for which this agent hears of no owner, by family.", "family")
	aliveDesc   = desc("live_agents", "Other agents whose heartbeats arrive.")
	silentDesc  = desc("silent_agents", "Other agents that should be heard and are not.")
	staleDesc   = desc("stale_reports", "Servers of VIPs balanced here by load whose last report is too old to count.")
	connectDesc = desc("connect_seconds", "How long clients of this node waited for a connection, from the first SYN to its answer; those that never got one count in +Inf and in no sum.", "namespace", "service", "address")
	flowsDesc   = desc("flows", "Redirected connections of clients on this node, as of the last sweep.")
)

// descs are all of them; docs/reference/metrics.md says what they mean.
var descs = []*prometheus.Desc{
	packetsDesc, heartbeatsDesc, arpDesc, ndpDesc, probesDesc, loadsDesc, tellsDesc, keysDesc, evictedDesc, stateDesc,
	ownedDesc, unownedDesc, aliveDesc, silentDesc, staleDesc, flowsDesc, connectDesc,
}

// Describe makes the agent a collector.
func (a *agent) Describe(out chan<- *prometheus.Desc) {
	for _, d := range descs {
		out <- d
	}
}

// Collect reads everything anew.
func (a *agent) Collect(out chan<- prometheus.Metric) {
	packets, err := a.plane.Counters()
	if err != nil {
		out <- prometheus.NewInvalidMetric(packetsDesc, err)
	}
	a.collectConnects(out)
	heartbeats, arp, ndp := a.keeper.Counters()
	loads, tells, evicted := a.loads.Counters(), a.teller.Counters(), map[string]uint64{"flows": 0}
	if swept := a.evicted.Load(); swept != nil {
		evicted = *swept
	}
	for desc, values := range map[*prometheus.Desc]map[string]uint64{
		packetsDesc: packets, heartbeatsDesc: heartbeats, arpDesc: arp, ndpDesc: ndp,
		loadsDesc: {
			"taken": loads.Taken, "not_on_that_node": loads.Foreign, "not_balanced_here": loads.Unasked,
			"not_written": loads.WriteFailed, "not_counted": loads.CountFailed,
		},
		tellsDesc: {
			"sent": tells.Sent, "not_sent": tells.NotSent, "no_key": tells.NoKey, "not_counted": tells.NotCounted,
			"session": tells.Sessions, "refused_answer": tells.Refused,
		},
		keysDesc:  {"taken": a.keys.loaded.Load(), "refused": a.keys.refused.Load()},
		stateDesc: evicted,
	} {
		for name, n := range values {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), name)
		}
	}
	for desc, n := range map[*prometheus.Desc]uint64{probesDesc: a.prober.failures(), evictedDesc: evicted["flows"]} {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n))
	}
	alive, expected := len(a.keeper.Alive()), a.keeper.Expected()
	for desc, n := range map[*prometheus.Desc]int{
		aliveDesc: alive, silentDesc: max(0, expected-alive),
		staleDesc: a.loads.Stale(), flowsDesc: int(a.flows.Load()),
	} {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n))
	}
	for desc, vips := range map[*prometheus.Desc][]netip.Addr{ownedDesc: a.keeper.Owned(), unownedDesc: a.unowned()} {
		n := map[corev1.IPFamily]int{corev1.IPv4Protocol: 0, corev1.IPv6Protocol: 0}
		for _, vip := range vips {
			n[crabplan.FamilyOf(vip)]++
		}
		for family, count := range n {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(count), string(family))
		}
	}
}

// unowned are the addresses nobody announces as far as is known here, also those
// that this node could not announce itself.
func (a *agent) unowned() []netip.Addr {
	var all []netip.Addr
	if known := a.known.Load(); known != nil {
		for _, vip := range *known {
			if a.keeper.Owner(vip) == "" {
				all = append(all, vip)
			}
		}
	}
	return all
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
