// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// Three digits, in the unit that reads best, also where rounding reaches the next one.
func TestFiguresAtTheirEdges(t *testing.T) {
	for ns, want := range map[uint64]string{9_994: "9.99us", 9_995: "10us", 99_949: "99.9us", 999_499: "999us", 999_500: "1ms", 999_499_999: "999ms", 999_500_000: "1s"} {
		if got := duration(ns); got != want {
			t.Errorf("%d ns: %s, want %s", ns, got, want)
		}
	}
	if got := rangeOf(1.5, 10); got != "1-10" {
		t.Errorf("%s", got)
	}
	for n, want := range map[int]string{1: "n0", named: "n0, n1, n2, n3, n4", named + 1: "n0, n1, n2, n3, n4 and 1 more"} {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("n%d", i))
		}
		if got := list(all); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	value := dataplane.Value{Bound: ll7.Finite, Nanoseconds: 1000}
	if !within(value, 1000) || within(value, 999) || within(dataplane.Value{Bound: ll7.AtLeast, Nanoseconds: 1}, 1000) {
		t.Error("at the objective is within it, beyond it is not")
	}
}

// The mean is of requests that were answered, and who measured nothing hides nobody behind.
func TestMeanOfWhatWasAnswered(t *testing.T) {
	s := &snapshot{slo: anObjective("99", 1000), target: aTarget(), parts: []part{
		{Name: "a", Required: true, Err: errors.New("gone")}, {Name: "b", Required: true, Reply: measured(8, 100, 2, 1)},
	}}
	m, err := measure(s)
	if err != nil || math.Abs(m.meanSeconds-100e-6) > 1e-12 || m.samples != 10 || m.unanswered != 2 || strings.Join(m.incomplete, " ") != "a" {
		t.Errorf("%+v, %v", m, err)
	}
	for independent, want := range map[uint64]bool{333: false, 332: true} {
		one := measurement{samples: 999, span: span{independent: independent}}
		if got := one.evidence(); (got != "") != want {
			t.Errorf("%d of 999: %q", independent, got)
		}
	}
}

// Overhead is of times whose load is trusted, few went unanswered, and nobody waited much longer than the model expects; a
// server that said nothing is no server.
func TestOverheadAtItsBounds(t *testing.T) {
	s := serving(40_000)
	s.services = append(s.services, part{Name: "draining"})
	times := &dataplane.Histogram{}
	for _, p := range s.services[:2] {
		times.Merge(p.Reply.Histogram)
	}
	q, err := question(s, times)
	if err != nil {
		t.Fatal(err)
	}
	mean := q.Service.Mean()
	light := measurement{samples: 5000, requests: 5000, perSecond: 10}
	held := func(each float64) func(*measurement) {
		return func(m *measurement) {
			h := &dataplane.Histogram{}
			for range m.samples {
				h.Record(uint64(each * mean * 1e9))
			}
			s.holds = []part{{Name: "r", Required: true, Reply: &dataplane.HistogramReply{Histogram: h}}, {Name: "draining"}, {Name: "old", Reply: &dataplane.HistogramReply{}}}
		}
	}
	for name, c := range map[string]struct {
		change func(*measurement)
		want   bool
	}{
		"light":                  {func(*measurement) {}, true},
		"as loaded as trusted":   {func(m *measurement) { m.perSecond = trustedLoad * float64(q.Workers) / mean * (1 - 1e-12) }, true},
		"more loaded":            {func(m *measurement) { m.perSecond = trustedLoad*float64(q.Workers)/mean + 1 }, false},
		"a fiftieth unanswered":  {func(m *measurement) { m.unanswered = 100 }, true},
		"one more":               {func(m *measurement) { m.unanswered = 101 }, false},
		"held for a while":       {held(0.09), true},
		"held for longer":        {held(0.11), false},
		"one in flight a worker": {func(m *measurement) { m.requests += 100 }, true},
	} {
		m := light
		s.holds = nil
		if c.change(&m); settled(q, s, m) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
	last := int64(1500)
	s.holds, s.slo.Status.Capacity = nil, &v1alpha1.CapacityEstimate{OverheadMicroseconds: &last}
	if _, e := decideCapacity(s, measurement{}, 1000); e == nil || e.HighRequestsPerSecond < 1000 || *e.OverheadMicroseconds != 1500 {
		t.Errorf("%+v", e)
	}
	s.slo.Spec.LatencyMicroseconds = 2000
	if v, _ := decideCapacity(s, measurement{}, 1000); !strings.Contains(v.Message, " and 1.5ms of overhead come on top") {
		t.Errorf("%s", v.Message)
	}
}

// A record that counts less of either than before has lost something; as much is nothing new.
func TestRecordsThatLostCounts(t *testing.T) {
	slo := anObjective("99", 1000)
	for _, c := range []struct {
		requests, violations int64
		want                 bool
	}{{10, 3, false}, {11, 3, true}, {10, 4, true}, {9, 2, false}} {
		now := &dataplane.History{All: dataplane.HistoryWindow{Latency: measured(7, 100, 3, 1).Histogram}}
		old := v1alpha1.ErrorMark{ErrorCounts: v1alpha1.ErrorCounts{Requests: c.requests, Violations: c.violations}}
		if fewer(old, now, slo) != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
	for name, r := range map[string]record{"failed": {Err: errors.New("x"), Reply: &dataplane.History{Started: start}}, "nothing": {}, "no life": {Reply: &dataplane.History{}}} {
		if kept(r) {
			t.Errorf("%s is kept", name)
		}
	}
}

// Who cannot be read does not hide who can, at the first look and at later ones; as many marks as the status takes are kept.
func TestRecordsBehindOneThatIsUnread(t *testing.T) {
	slo, l := anObjective("99", 1000), &ledgers{}
	unread := record{Name: "a", Required: true, Err: errors.New("gone")}
	if _, led := l.count(types.NamespacedName{Namespace: slo.Namespace, Name: slo.Name}, slo, []record{unread, recordOf("b", start.Add(-time.Hour), 10)}, start); len(led.record.Slices) != 1 || led.record.Slices[0].Requests != 10 {
		t.Errorf("at first: %+v", led.record)
	}
	if got := look(l, slo, start.Add(time.Minute), unread, recordOf("b", start.Add(-time.Hour), 14)); got.Requests != 4 {
		t.Errorf("later: %+v", got)
	}
	var records []record
	for i := range most {
		records = append(records, recordOf(fmt.Sprintf("p%02d", i), start.Add(-time.Hour), 10))
	}
	slo = anObjective("99", 1000)
	if look(&ledgers{}, slo, start, records...); slo.Status.ErrorRecord == nil || len(slo.Status.ErrorRecord.Marks) != most {
		t.Errorf("%+v", slo.Status.ErrorRecord)
	}
}

// What comes within five minutes of a slice's beginning is added to it, the only one too.
func TestSlicesGrow(t *testing.T) {
	begun := []v1alpha1.ErrorSlice{{BeginTime: metav1.NewTime(start), EndTime: metav1.NewTime(start), ErrorCounts: v1alpha1.ErrorCounts{Requests: 1}}}
	for after, want := range map[time.Duration]int{fine - 1: 1, fine: 2} {
		all := append([]v1alpha1.ErrorSlice(nil), begun...)
		got := withSlice(all, Counted{Requests: 2}, start.Add(after))
		if len(got) != want || got[len(got)-1].Requests != int64(4-want) {
			t.Errorf("after %v: %+v", after, got)
		}
	}
	if got := withSlice(nil, Counted{}, start); len(got) != 0 {
		t.Errorf("a slice of nothing: %+v", got)
	}
}

// A switch whose counts began anew is another one, also at the second look; so is one that counts less.
func TestRefusalsThatBeginAnew(t *testing.T) {
	key := types.NamespacedName{Name: "p"}
	for name, second := range map[string]SwitchRefusals{"another life": {Since: start.Add(time.Second), Count: 9}, "less": {Since: start, Count: 3}} {
		var r refusals
		r.within(key, SwitchRefusals{Since: start, Count: 5}, start, time.Minute)
		if got := r.within(key, second, start.Add(2*time.Second), time.Minute); got != 0 {
			t.Errorf("%s: %d were refused", name, got)
		}
	}
}

// Connections that found no room are spoken of where there were some.
func TestLostConnections(t *testing.T) {
	for lost, want := range map[uint64]bool{0: false, 1: true} {
		s := &snapshot{slo: anObjective("99", 1000), target: overTCP(), parts: []part{{Name: "n", Required: true, Reply: measured(10, 100, 0, 1)}}, nodes: nodes{lost: lost}}
		m := measurement{}
		if m.describe(s); strings.Contains(m.scope, "found no room") != want {
			t.Errorf("%d lost: %s", lost, m.scope)
		}
	}
}
