// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// What a switch refused in the window is told, whatever it refused before and however often
// its counters began anew.
func TestRefusedInWindow(t *testing.T) {
	var r refusals
	key := types.NamespacedName{Name: "p99"}
	begin := time.Unix(1_000_000, 0)
	for n, row := range []struct {
		second      int
		since       int
		count, want uint64
	}{
		{0, 0, 100, 0}, // before anybody looked
		{5, 0, 110, 10},
		{10, 0, 110, 10},
		{20, 0, 113, 13},
		{25, 0, 113, 3}, // the first reading that still counts is that of second 5
		{30, 27, 50, 0}, // another leader
		{35, 27, 55, 5},
		{40, 27, 2, 0}, // another pipeline
		{45, 27, 4, 2},
	} {
		at := begin.Add(time.Duration(row.second) * time.Second)
		got := r.within(key, SwitchRefusals{Since: begin.Add(time.Duration(row.since) * time.Second), Count: row.count}, at, 20*time.Second)
		if got != row.want {
			t.Errorf("reading %d: %d refused, want %d", n, got, row.want)
		}
	}
	r.forget(key)
	if len(r.by) != 0 {
		t.Error("an objective that is gone is remembered")
	}
}

// Servers saw 90 requests and the switch refused 10 more: a tenth was rejected.
func TestRejectedBySwitch(t *testing.T) {
	counts := []uint64{40, 50}
	r := &Reconciler{Now: time.Now, Refusals: func(name, namespace, service string) (SwitchRefusals, bool) {
		if name != "leaf" || namespace != "demo" || service != "echo" {
			t.Errorf("asked for %s of %s/%s", name, namespace, service)
		}
		defer func() { counts = counts[1:] }()
		return SwitchRefusals{Count: counts[0]}, true
	}}
	slo := &v1alpha1.ServiceLevelObjective{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "p99"}, Spec: v1alpha1.ServiceLevelObjectiveSpec{Percentile: "99", WindowSeconds: 20}}
	target := &v1alpha1.RpcService{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "echo"}}
	if n := r.refusedBySwitch(slo, target); n != 0 {
		t.Errorf("%d refused by no switch", n)
	}
	target.Status.Switch = &v1alpha1.RpcServiceSwitchStatus{Name: "leaf"}
	r.refusedBySwitch(slo, target)
	s := &snapshot{slo: slo, target: target, refused: r.refusedBySwitch(slo, target)}
	s.parts = []part{{Name: "server", Reply: &dataplane.HistogramReply{Histogram: &ll7.Histogram{}, Requests: 90, CoveredSeconds: 20}}}
	m, err := measure(s)
	if err != nil || share(m.rejected, m.requests) != "10.0%" {
		t.Errorf("%d of %d rejected, %v", m.rejected, m.requests, err)
	}
}

// What the switch measured, and what the routers that stand by did, are one measurement; what it refused is rejected. The
// record of the day has its line, too.
func TestMeasuredBySwitch(t *testing.T) {
	target := &v1alpha1.RpcService{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "echo"}}
	target.Spec.Router.Placement = v1alpha1.PlacementSwitch
	slo := &v1alpha1.ServiceLevelObjective{Spec: v1alpha1.ServiceLevelObjectiveSpec{Percentile: "99", LatencyMicroseconds: 1000, WindowSeconds: 60}}
	fast, slow := &ll7.Histogram{}, &ll7.Histogram{}
	fast.RecordMany(100_000, 900)
	slow.RecordMany(5_000_000, 100)
	started := time.Unix(1000, 0)
	r := &Reconciler{Switches: func(name, namespace, service string, window time.Duration, parts int) (SwitchMeasured, bool) {
		if name != "leaf" || namespace != "demo" || service != "echo" || window != time.Minute || parts != 6 {
			t.Errorf("asked %s for %s/%s, %v in %d parts", name, namespace, service, window, parts)
		}
		return SwitchMeasured{
			Window:  &dataplane.HistogramReply{Histogram: slow, Requests: 110, Rejected: 10, CoveredSeconds: 60, Parts: []*ll7.Histogram{slow}},
			History: &dataplane.History{Started: started, All: dataplane.HistoryWindow{Latency: slow, Requests: 110, Rejected: 10}},
		}, true
	}}
	s := &snapshot{slo: slo, target: target, slow: true}
	if s.onSwitch = r.measuredBySwitch(slo, target); s.onSwitch != nil {
		t.Error("a service on no switch was measured by one")
	}
	target.Status.Switch = &v1alpha1.RpcServiceSwitchStatus{Name: "leaf"}
	s.onSwitch = r.measuredBySwitch(slo, target)
	s.parts = []part{{Name: "router", Reply: &dataplane.HistogramReply{Histogram: fast, Requests: 900, CoveredSeconds: 60, Parts: []*ll7.Histogram{fast}}}}
	s.addSwitch(target)
	m, err := measure(s)
	if err != nil || m.source != v1alpha1.SourceSwitch || m.samples != 1000 || share(m.rejected, m.requests) != "1.0%" || m.value.Nanoseconds < 5_000_000 || len(m.unparted) > 0 {
		t.Errorf("%+v, %v", m, err)
	}
	if len(s.records) != 1 || s.records[0].Name != "switch leaf" || violations(s.records[0].Reply.All.Latency, slo) != 100 {
		t.Errorf("%+v", s.records)
	}
	if n := (&snapshot{slo: slo}).windowParts(); n != windowParts {
		t.Errorf("%d parts without a switch", n)
	}
}
