// SPDX-License-Identifier: Apache-2.0

// The record of a day in a status: fine slices for the last hour, coarse ones for
// the time before.
package slo

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

const (
	hour, day = time.Hour, 24 * time.Hour
	// fine is the length of a slice of the last hour; a window may reach one of
	// them further back.
	fine = 5 * time.Minute
	// coarse is that of one before.
	coarse = time.Hour
)

// begun starts a record from what the pods remember: the last hour is one slice,
// the time before another.
func begun(slo *v1alpha1.ServiceLevelObjective, records []record, now time.Time) *ledger {
	r := &v1alpha1.ErrorRecord{LatencyMicroseconds: slo.Spec.LatencyMicroseconds, TargetName: slo.Spec.TargetRef.Name, BeginTime: metav1.NewTime(now)}
	led := &ledger{record: r, since: now, heard: map[string]time.Time{}}
	if since, sources := wholeSince(records); sources > 0 && !since.IsZero() && windowed(records) {
		led.since = since
	}
	var inHour, inDay Counted
	for _, one := range records {
		if !kept(one) {
			continue
		}
		for i := range one.Reply.Windows {
			w := &one.Reply.Windows[i]
			switch time.Duration(w.WindowSeconds) * time.Second {
			case hour:
				inHour.add(countsOf(w, slo))
			case day:
				inDay.add(countsOf(w, slo))
			}
		}
		r.Marks = append(r.Marks, markOf(one.Name, one.Reply, slo))
		led.heard[one.Name] = now
	}
	before := inDay.minus(inHour.written())
	r.Slices = append(sliceOf(now.Add(-day), now.Add(-hour), before), sliceOf(now.Add(-hour), now, inHour)...)
	return led
}

// windowed says that the records tell when things happened; those of agents do not,
// and begin nothing.
func windowed(records []record) bool {
	return slices.ContainsFunc(records, func(r record) bool { return kept(r) && len(r.Reply.Windows) > 0 })
}

// sliceOf is one slice, or none of nothing.
func sliceOf(begin, end time.Time, c Counted) []v1alpha1.ErrorSlice {
	if c == (Counted{}) {
		return nil
	}
	return []v1alpha1.ErrorSlice{{BeginTime: metav1.NewTime(begin), EndTime: metav1.NewTime(end), ErrorCounts: c.written()}}
}

// withSlice adds what was counted now, and thins out the past. A status changes
// only when something happened.
func withSlice(all []v1alpha1.ErrorSlice, c Counted, now time.Time) []v1alpha1.ErrorSlice {
	if last := len(all) - 1; last >= 0 && now.Sub(all[last].BeginTime.Time) < fine {
		if c != (Counted{}) {
			all[last].EndTime = metav1.NewTime(now)
			grow(&all[last].ErrorCounts, c.written())
		}
	} else {
		all = append(all, sliceOf(now, now, c)...)
	}
	var out []v1alpha1.ErrorSlice
	for _, s := range all {
		old := !s.EndTime.After(now.Add(-hour - fine))
		switch {
		case !s.EndTime.After(now.Add(-day)):
		case old && len(out) > 0 && sameHour(out[len(out)-1], s):
			out[len(out)-1].EndTime = s.EndTime
			grow(&out[len(out)-1].ErrorCounts, s.ErrorCounts)
		default:
			out = append(out, s)
		}
	}
	return out
}

func sameHour(a, b v1alpha1.ErrorSlice) bool {
	return a.BeginTime.Truncate(coarse).Equal(b.BeginTime.Truncate(coarse))
}

func grow(sum *v1alpha1.ErrorCounts, more v1alpha1.ErrorCounts) {
	sum.Requests += more.Requests
	sum.Violations += more.Violations
	sum.Rejected += more.Rejected
}

// over adds up the slices that end within the window.
func over(all []v1alpha1.ErrorSlice, window time.Duration, now time.Time) (sum v1alpha1.ErrorCounts) {
	for _, s := range all {
		if s.EndTime.After(now.Add(-window)) {
			grow(&sum, s.ErrorCounts)
		}
	}
	return sum
}
