// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// recorded is the record of a router: fast and slow requests in the last hour,
// ten times as many in the day.
func recorded(pod string, started time.Time, fast, slow int) record {
	h := &dataplane.History{Started: started}
	for i, seconds := range []int{0, 3600, 86400} {
		w := dataplane.HistoryWindow{WindowSeconds: seconds, CoveredSeconds: seconds, Rejected: 7, Latency: &dataplane.Histogram{}}
		for range max(1, 10*(i-1)) {
			w.Latency.Merge(measured(fast, 100, slow, 1).Histogram)
		}
		if i == 0 {
			h.All = w
		} else {
			h.Windows = append(h.Windows, w)
		}
	}
	return record{Name: pod, Required: true, Reply: h}
}

// look is one look of an operator: its ledgers, the status it finds and leaves.
func look(l *ledgers, slo *v1alpha1.ServiceLevelObjective, now time.Time, records ...record) Counted {
	key := types.NamespacedName{Namespace: slo.Namespace, Name: slo.Name}
	counted, led := l.count(key, slo, records, now)
	writeBudgets(&slo.Status, slo, records, led, now)
	return counted
}

func TestBudgets(t *testing.T) {
	slo := anObjective("99", 1000)
	st := &slo.Status
	first, second := start.Add(-2*time.Hour), start.Add(-30*time.Minute)
	look(&ledgers{}, slo, start, recorded("a", first, 9990, 10), recorded("b", second, 9960, 40))
	if len(st.ErrorBudgets) != 2 || st.MeasuredBy != 2 {
		t.Fatalf("%+v", st)
	}
	// 20000 requests may miss it 200 times; 50 did.
	hour, day := st.ErrorBudgets[0], st.ErrorBudgets[1]
	if hour.WindowSeconds != 3600 || hour.Requests != 20000 || hour.Violations != 50 || hour.Rejected != 14 || hour.Remaining != "75.0%" {
		t.Errorf("hour %+v", hour)
	}
	if day.WindowSeconds != 86400 || day.Requests != 200000 || day.Violations != 500 || day.Remaining != "75.0%" {
		t.Errorf("day %+v", day)
	}
	if !st.HistorySince.Time.Equal(second) {
		t.Errorf("since %s, want %s: the younger router's start", st.HistorySince, second)
	}
	// One that is starting adds what it has, and takes nothing away.
	starting := recorded("c", start.Add(-time.Second), 10, 0)
	starting.Required = false
	fresh := anObjective("99", 1000)
	look(&ledgers{}, fresh, start, recorded("a", first, 9990, 10), starting)
	if !fresh.Status.HistorySince.Time.Equal(first) || fresh.Status.MeasuredBy != 2 {
		t.Errorf("since %s by %d, want %s by 2: the starting router counts for nothing yet", fresh.Status.HistorySince, fresh.Status.MeasuredBy, first)
	}
}

// A budget outlives the pods that measured it: a rollout replaces both routers, a
// sidecar restarts, the operator is replaced, and each request counts once.
func TestBudgetsOutliveRolloutsAndOperators(t *testing.T) {
	slo := anObjective("99", 1000)
	began := start.Add(-20 * time.Hour)
	l := &ledgers{}
	want := func(step string, requests, violations int64) {
		t.Helper()
		if b := slo.Status.ErrorBudgets; len(b) != 2 || b[0].Requests != requests || b[0].Violations != violations {
			t.Errorf("%s: %+v; want %d requests, %d violations in the hour", step, b, requests, violations)
		}
		if at := slo.Status.HistorySince; at == nil || !at.Time.Equal(began) {
			t.Errorf("%s: whole since %v, want %s", step, at, began)
		}
	}
	look(l, slo, start, recorded("a", began, 1000, 10), recorded("b", began, 1000, 10))
	want("begin", 2020, 20)
	now := start.Add(15 * time.Second)
	look(l, slo, now, recorded("a", began, 1100, 10), recorded("c", now.Add(-5*time.Second), 50, 5))
	want("one router replaced", 2020+100+55, 25)
	now = now.Add(15 * time.Second)
	look(l, slo, now, recorded("c", now.Add(-20*time.Second), 60, 5), recorded("d", now.Add(-5*time.Second), 7, 0))
	want("both replaced", 2020+100+65+7, 25)
	now = now.Add(15 * time.Second)
	look(l, slo, now, recorded("c", now.Add(-35*time.Second), 60, 5), recorded("d", now.Add(-time.Second), 3, 1))
	want("a sidecar restarted", 2020+100+65+7+4, 26)
	l, now = &ledgers{}, now.Add(40*time.Second)
	look(l, slo, now, recorded("c", now.Add(-75*time.Second), 90, 6), recorded("d", now.Add(-41*time.Second), 3, 1))
	want("another operator", 2020+100+65+7+4+31, 27)
	// 70 minutes on, the hour has forgotten it and the day has not.
	now = now.Add(70 * time.Minute)
	look(l, slo, now, recorded("c", now.Add(-75*time.Second-70*time.Minute), 90, 6), recorded("d", now.Add(-41*time.Second-70*time.Minute), 3, 1))
	want("an hour later", 0, 0)
	if n := slo.Status.ErrorBudgets[1].Requests; n != 10*2020+207 {
		t.Errorf("day: %d requests", n)
	}
}

// What nobody looked at for more than a minute and is gone is missing, and the
// status says from when on nothing is.
func TestHistorySince(t *testing.T) {
	slo := anObjective("99", 1000)
	st := &slo.Status
	old, young := start.Add(-20*time.Hour), start.Add(-time.Hour)
	l := &ledgers{}
	a, b := recorded("a", old, 100, 0), recorded("b", young, 100, 0)
	step := func(now time.Time, want time.Time, records ...record) {
		t.Helper()
		look(l, slo, now, records...)
		if !st.HistorySince.Time.Equal(want) {
			t.Errorf("since %s, want %s", st.HistorySince, want)
		}
	}
	step(start, young, a, b)
	step(start.Add(15*time.Second), young, a, b)
	// The younger leaves: what it had seen is counted.
	step(start.Add(30*time.Second), young, a)
	// A new operator finds that a router left while nobody looked.
	l = &ledgers{}
	late := start.Add(20 * time.Minute)
	step(late, late, recorded("c", late.Add(-time.Minute), 100, 0))
	// One that cannot be read takes the budgets away, not the memory.
	look(l, slo, late.Add(15*time.Second), recorded("c", late.Add(-time.Minute), 100, 0), record{Name: "d", Required: true, Err: errors.New("refused")})
	if st.ErrorBudgets != nil || !st.HistorySince.Time.Equal(late) || st.ErrorRecord == nil {
		t.Errorf("with a silent router: %+v since %s", st.ErrorBudgets, st.HistorySince)
	}
	if look(l, slo, late.Add(30*time.Second)); st.ErrorBudgets != nil {
		t.Error("budgets of nobody")
	}
}

// The status stays small however long it goes on, and nothing is lost by it.
func TestRecordIsBounded(t *testing.T) {
	slo := anObjective("99", 1000)
	l := &ledgers{}
	requests := 0
	for i := range 30 * 60 * 4 { // thirty hours, a look every 15 s
		requests += i % 3
		look(l, slo, start.Add(time.Duration(i)*15*time.Second), recordOf("a", start.Add(-time.Second), requests))
		if n := len(slo.Status.ErrorRecord.Slices); n > 45 {
			t.Fatalf("%d slices after look %d", n, i)
		}
	}
	hour, day := slo.Status.ErrorBudgets[0].Requests, slo.Status.ErrorBudgets[1].Requests
	// One request a look: 240 in an hour, 5760 in a day; a slice more at most.
	if hour < 239 || hour > 262 || day < 5759 || day > 6001 {
		t.Errorf("hour %d, day %d", hour, day)
	}
}

// More pods than the status takes marks of: budgets as long as the pods live.
func TestTooManyPods(t *testing.T) {
	slo := anObjective("99", 1000)
	var records []record
	for i := range most + 1 {
		records = append(records, recordOf(fmt.Sprintf("p%02d", i), start.Add(-time.Hour), 10))
	}
	look(&ledgers{}, slo, start, records...)
	if slo.Status.ErrorRecord != nil || len(slo.Status.ErrorBudgets) != 2 {
		t.Errorf("%+v", slo.Status)
	}
}

// recordOf is a record of fast requests in all windows.
func recordOf(pod string, started time.Time, requests int) record {
	h := &dataplane.Histogram{}
	for range requests {
		h.Record(100_000)
	}
	w := func(seconds int) dataplane.HistoryWindow {
		return dataplane.HistoryWindow{WindowSeconds: seconds, Latency: h}
	}
	return record{Name: pod, Required: true, Reply: &dataplane.History{Started: started, All: w(0), Windows: []dataplane.HistoryWindow{w(3600), w(86400)}}}
}

func TestRemaining(t *testing.T) {
	for _, c := range []struct {
		percentile string
		total, bad uint64
		want       string
	}{
		{"99", 0, 0, "100.0%"}, {"99", 1000, 0, "100.0%"}, {"99", 1000, 5, "50.0%"}, {"99", 1000, 10, "0.0%"},
		{"99", 1000, 30, "-200.0%"}, {"99.9", 10000, 1, "90.0%"}, {"99.99", 1000, 1000, "-10000.0%"},
	} {
		if got := remaining(c.percentile, c.total, c.bad); got != c.want && !(got == "-0.0%" && c.want == "0.0%") {
			t.Errorf("p%s, %d of %d: %s, want %s", c.percentile, c.bad, c.total, got, c.want)
		}
	}
}

// The doubt of a bucket goes against the service, as it does in Met.
func TestViolations(t *testing.T) {
	h := measured(10, 999, 3, 1).Histogram
	if n := violations(h, anObjective("99", 1010)); n != 3 {
		t.Errorf("%d violations, want the 3 unanswered", n)
	}
	if n := violations(h, anObjective("99", 999)); n != 13 {
		t.Errorf("%d violations, want all: the bucket reaches above the objective", n)
	}
}

// Counters only grow, each request is counted once, whoever comes and goes.
func TestLedger(t *testing.T) {
	slo := anObjective("99", 1000)
	l := &ledgers{}
	key := types.NamespacedName{Namespace: "demo", Name: "p"}
	count := func(now time.Time, want Counted, records ...record) {
		t.Helper()
		if got, _ := l.count(key, slo, records, now); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
	}
	began := start.Add(-time.Hour)
	if !l.due(key, slo.Generation, start, slowly) {
		t.Error("not due although never read")
	}
	count(start, Counted{}, recorded("a", began, 1000, 10))
	if l.due(key, slo.Generation, start.Add(slowly-1), slowly) || !l.due(key, slo.Generation, start.Add(slowly), slowly) {
		t.Error("due at the wrong time")
	}
	count(start, Counted{Requests: 105, Violations: 5}, recorded("a", began, 1100, 15))
	count(start, Counted{}, record{Name: "a", Err: errors.New("refused")})
	count(start, Counted{Requests: 5}, recorded("a", began, 1105, 15))
	// The sidecar was restarted: what its new record holds is new.
	again := start.Add(time.Minute)
	count(start, Counted{Requests: 12, Violations: 2, Rejected: 7}, recorded("a", again, 10, 2))
	// A router that came while this operator looks counts from its beginning, one
	// that was there before and could not be read does not.
	count(start, Counted{Requests: 20, Rejected: 7}, recorded("a", again, 10, 2), recorded("b", again, 20, 0), recorded("c", began, 500, 0))
	// Another objective begins anew.
	slo.Generation++
	slo.Spec.LatencyMicroseconds++
	if !l.due(key, slo.Generation, start, slowly) {
		t.Error("not due although the objective changed")
	}
	count(start, Counted{}, recorded("a", again, 100, 2))
	l.forget(key)
	count(start, Counted{}, recorded("a", again, 200, 2))
}

// Half a picture is no picture.
func TestWriteSlowWithoutTarget(t *testing.T) {
	slo := anObjective("99", 1000)
	slo.Status.Capacity = &v1alpha1.CapacityEstimate{Workers: 1}
	writeSlow(slo, &snapshot{slo: slo, slow: true}, &ledger{}, &plan{required: 1000}, start)
	if slo.Status.Capacity != nil || len(slo.Status.Conditions) != 0 {
		t.Errorf("%+v", slo.Status)
	}
}

// Who could not be read, or keeps no history, is passed over; the others count, and the latest to begin of those that
// must be there says from when on all is known.
func TestWholeSince(t *testing.T) {
	at := func(second int64, required bool) record {
		return record{Required: required, Reply: &dataplane.History{Started: time.Unix(second, 0)}}
	}
	failed, none := record{Required: true, Err: errors.New("gone")}, record{Required: true, Reply: &dataplane.History{}}
	for what, c := range map[string]struct {
		records []record
		since   time.Time
		sources int32
	}{
		"nobody":                      {nil, time.Time{}, 0},
		"nobody who keeps one":        {[]record{failed, none}, time.Time{}, 0},
		"the latest, behind a failed": {[]record{failed, at(20, true), none, at(30, true), at(10, true)}, time.Unix(30, 0), 3},
		"one that may be missing":     {[]record{at(20, true), at(40, false)}, time.Unix(20, 0), 2},
	} {
		if since, sources := wholeSince(c.records); !since.Equal(c.since) || sources != c.sources {
			t.Errorf("%s: since %v by %d, want %v by %d", what, since, sources, c.since, c.sources)
		}
	}
}
