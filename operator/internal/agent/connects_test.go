// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"maps"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// waiting is a plane of which nothing but the waits is asked.
type waiting struct {
	redirect.Plane
	all map[redirect.VIPKey]*ll7.Histogram
	err error
}

func (w waiting) Connects() (map[redirect.VIPKey]*ll7.Histogram, error) { return w.all, w.err }

// Waits are told by Service; those of a VIP that is in no plan, by nobody.
func TestConnectsByService(t *testing.T) {
	h := &ll7.Histogram{}
	for range 99 {
		h.Record(uint64(100 * time.Microsecond))
	}
	h.RecordInf()
	ours, gone := redirect.VIPKey{Addr: netip.MustParseAddr("192.0.2.1"), Port: 80}, redirect.VIPKey{Addr: netip.MustParseAddr("192.0.2.2"), Port: 80}
	a := &agent{plane: waiting{all: map[redirect.VIPKey]*ll7.Histogram{ours: h, gone: h}}}
	services := named(crabplan.Plan{VIPs: []crabplan.VIP{{Addr: ours.Addr, Port: ours.Port, Service: types.NamespacedName{Namespace: "shop", Name: "web"}}}})
	a.named.Store(&services)
	out := make(chan prometheus.Metric, 10)
	a.collectConnects(out)
	if len(out) != 1 {
		t.Fatalf("%d metrics", len(out))
	}
	var m dto.Metric
	if err := (<-out).Write(&m); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, l := range m.Label {
		got[l.GetName()] = l.GetValue()
	}
	if got["namespace"] != "shop" || got["service"] != "web" || got["address"] != "192.0.2.1:80" {
		t.Errorf("labels %v", got)
	}
	if c := m.GetHistogram(); c.GetSampleCount() != 100 || c.GetSampleSum() < 0.0098 || c.GetSampleSum() > 0.01 {
		t.Errorf("%d waits, %g s in all", c.GetSampleCount(), c.GetSampleSum())
	}
	for _, b := range m.GetHistogram().Bucket {
		want := uint64(0)
		if b.GetUpperBound() > 110e-6 {
			want = 99 // and one in +Inf alone
		}
		if b.GetCumulativeCount() != want && (b.GetUpperBound() < 90e-6 || b.GetUpperBound() > 110e-6) {
			t.Errorf("%d waits up to %g s, want %d", b.GetCumulativeCount(), b.GetUpperBound(), want)
		}
	}
	a.plane = waiting{err: errors.New("the map is gone")}
	a.collectConnects(out)
	if err := (<-out).Write(&m); err == nil {
		t.Error("what could not be read is told as nothing")
	}
}

// counting tells of lost waits, too.
type counting struct {
	waiting
	counters map[string]uint64
}

func (c counting) Counters() (map[string]uint64, error) { return c.counters, c.err }

// What is pushed out is not known before the first sweep: it is not none.
func TestLostWaits(t *testing.T) {
	plane, evicted := counting{counters: map[string]uint64{"client_connect_full": 7, "client_syn_marked": 99}}, &atomic.Pointer[map[string]uint64]{}
	want := func(want map[string]uint64) {
		t.Helper()
		if got, err := (counts{plane, evicted}).Lost(); err != nil || !maps.Equal(got, want) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
	want(map[string]uint64{"no room": 7})
	evicted.Store(&map[string]uint64{"pending": 5, "flows": 6})
	want(map[string]uint64{"no room": 7, "pushed out": 5})
	plane.err = errors.New("the map is gone")
	if _, err := (counts{plane, evicted}).Lost(); err == nil {
		t.Error("no error")
	}
}

// Addresses that are in no plan hide none of those that are.
func TestConnectsBesideOthers(t *testing.T) {
	h := &ll7.Histogram{}
	h.Record(1)
	all := map[redirect.VIPKey]*ll7.Histogram{}
	var plan crabplan.Plan
	for port := range uint16(40) {
		key := redirect.VIPKey{Addr: netip.MustParseAddr("192.0.2.1"), Port: 1 + port}
		all[key] = h
		if port%2 == 0 {
			plan.VIPs = append(plan.VIPs, crabplan.VIP{Addr: key.Addr, Port: key.Port, Service: types.NamespacedName{Namespace: "shop", Name: "web"}})
		}
	}
	a := &agent{plane: waiting{all: all}}
	services := named(plan)
	a.named.Store(&services)
	out := make(chan prometheus.Metric, 50)
	if a.collectConnects(out); len(out) != 20 {
		t.Errorf("%d metrics of 20 addresses", len(out))
	}
}
