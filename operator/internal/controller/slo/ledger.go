// SPDX-License-Identifier: Apache-2.0

// The ledger turns the records of pods that come and go into counts that last:
// the objective's record in its status, and counters that only grow, as Prometheus
// wants them.
package slo

import (
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// Counted is what happened since the last look.
type Counted struct {
	Requests   uint64 // measured: answered, or never
	Violations uint64 // of them, above the objective
	Rejected   uint64 // answered by DROP; not among Requests
}

// ledgers keeps one ledger for each objective, and when it was last fed. The
// status holds the record for the next operator; this one trusts its own copy,
// because what it reads back of the status may be older.
type ledgers struct {
	mu sync.Mutex
	by map[types.NamespacedName]*ledger
}

type ledger struct {
	read       time.Time
	generation int64
	record     *v1alpha1.ErrorRecord
	// since is from when on the record is whole.
	since time.Time
	// slices of the record, also where it has too many marks to be written.
	slices []v1alpha1.ErrorSlice
	// heard is when this operator last read each pod.
	heard map[string]time.Time
}

// gap is how long a pod may have gone unread before its end: what it saw in that
// time is lost, and after more than this the record says so.
const gap = time.Minute

// due says whether it is time to read the records: the first time, after every
// change of the objective, and then at that interval.
func (l *ledgers) due(key types.NamespacedName, generation int64, now time.Time, every time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.by[key]
	return old == nil || old.generation != generation || now.Sub(old.read) >= every
}

func (l *ledgers) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.by, key)
}

// count adds what the records hold beyond the last look to the objective's
// record, and returns it with what was new. An operator that just began goes on
// from the status. Where there is no record of this objective on this target yet, the pods' own
// records begin it, and none of it is new: it was never asked for.
func (l *ledgers) count(key types.NamespacedName, slo *v1alpha1.ServiceLevelObjective, records []record, now time.Time) (Counted, *ledger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[types.NamespacedName]*ledger{}
	}
	led := l.by[key]
	if led == nil {
		led = carriedOver(slo)
	}
	if led == nil || !led.of(slo) {
		led = begun(slo, records, now)
	}
	l.by[key] = led
	led.read, led.generation = now, slo.Generation
	sum := led.settle(slo, records, now)
	led.record.Slices = withSlice(led.record.Slices, sum, now)
	copied := &ledger{record: led.record.DeepCopy(), since: led.since}
	copied.slices = copied.record.Slices
	if len(copied.record.Marks) > most {
		copied.record = nil
	}
	return sum, copied
}

// carriedOver is the ledger as the operator before this one left it; nil when it
// left none.
func carriedOver(slo *v1alpha1.ServiceLevelObjective) *ledger {
	r := slo.Status.ErrorRecord
	if r == nil {
		return nil
	}
	led := &ledger{record: r.DeepCopy(), since: r.BeginTime.Time, heard: map[string]time.Time{}}
	if r.TargetName == "" { // an older operator's, which did not say
		led.record.TargetName = slo.Spec.TargetRef.Name
	}
	if at := slo.Status.HistorySince; at != nil {
		led.since = at.Time
	}
	return led
}

// of says whether the record is of this objective on this target. Marks do not tell
// targets apart: a node counts under its own name for every Service.
func (l *ledger) of(slo *v1alpha1.ServiceLevelObjective) bool {
	return l.record.LatencyMicroseconds == slo.Spec.LatencyMicroseconds && l.record.TargetName == slo.Spec.TargetRef.Name
}

// settle moves every pod's mark and returns what is new.
func (l *ledger) settle(slo *v1alpha1.ServiceLevelObjective, records []record, now time.Time) (sum Counted) {
	marks := map[string]v1alpha1.ErrorMark{}
	for _, m := range l.record.Marks {
		marks[m.Pod] = m
	}
	for _, r := range records {
		if !kept(r) {
			continue
		}
		old, known := marks[r.Name]
		sum.add(step(old, known, r.Reply, slo, l.record.BeginTime.Time))
		switch {
		case known && sameLife(old, r.Reply) && fewer(old, r.Reply, slo):
			l.since = now
		case known && !sameLife(old, r.Reply) && r.Reply.Started.Sub(l.heard[r.Name]) > gap:
			l.since = latest(l.since, r.Reply.Started)
		}
		marks[r.Name], l.heard[r.Name] = markOf(r.Name, r.Reply, slo), now
	}
	for pod := range marks {
		if slices.ContainsFunc(records, func(r record) bool { return r.Name == pod }) {
			continue
		}
		if now.Sub(l.heard[pod]) > gap {
			l.since = now
		}
		delete(marks, pod)
		delete(l.heard, pod)
	}
	l.record.Marks = sortedMarks(marks)
	return sum
}

// step is what one pod saw since its mark. A pod without one counts from its
// beginning, unless it was there, unread, before the record began.
func step(old v1alpha1.ErrorMark, known bool, h *dataplane.History, slo *v1alpha1.ServiceLevelObjective, begun time.Time) Counted {
	now := countsOf(&h.All, slo)
	switch {
	case known && sameLife(old, h) && fewer(old, h, slo):
		return Counted{}
	case known && sameLife(old, h):
		return now.minus(old.ErrorCounts)
	case known, h.Started.After(begun):
		return now
	}
	return Counted{}
}

func sameLife(old v1alpha1.ErrorMark, h *dataplane.History) bool {
	return old.StartTime.Time.Equal(h.Started.Truncate(time.Microsecond))
}

// fewer says that a record lost counts and went on: an address of the Service was
// taken from the node, and what was counted of it went along. What is left or came
// again since cannot be told apart.
func fewer(old v1alpha1.ErrorMark, h *dataplane.History, slo *v1alpha1.ServiceLevelObjective) bool {
	now := countsOf(&h.All, slo).written()
	return now.Requests < old.Requests || now.Violations < old.Violations
}

func kept(r record) bool { return r.Err == nil && r.Reply != nil && !r.Reply.Started.IsZero() }

func markOf(pod string, h *dataplane.History, slo *v1alpha1.ServiceLevelObjective) v1alpha1.ErrorMark {
	return v1alpha1.ErrorMark{Pod: pod, StartTime: metav1.NewMicroTime(h.Started.Truncate(time.Microsecond)),
		ErrorCounts: countsOf(&h.All, slo).written()}
}

// most marks that the status takes.
const most = 64

func sortedMarks(marks map[string]v1alpha1.ErrorMark) []v1alpha1.ErrorMark {
	var out []v1alpha1.ErrorMark
	for _, m := range marks {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b v1alpha1.ErrorMark) int { return strings.Compare(a.Pod, b.Pod) })
	return out
}

func countsOf(w *dataplane.HistoryWindow, slo *v1alpha1.ServiceLevelObjective) Counted {
	return Counted{w.Latency.Total(), violations(w.Latency, slo), w.Rejected}
}

func (c *Counted) add(d Counted) {
	c.Requests += d.Requests
	c.Violations += d.Violations
	c.Rejected += d.Rejected
}

// minus never goes below zero.
func (c Counted) minus(old v1alpha1.ErrorCounts) Counted {
	less := func(a uint64, b int64) uint64 { return a - min(a, uint64(max(b, 0))) }
	return Counted{less(c.Requests, old.Requests), less(c.Violations, old.Violations), less(c.Rejected, old.Rejected)}
}

func (c Counted) written() v1alpha1.ErrorCounts {
	return v1alpha1.ErrorCounts{Requests: *integer(c.Requests), Violations: *integer(c.Violations), Rejected: *integer(c.Rejected)}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
