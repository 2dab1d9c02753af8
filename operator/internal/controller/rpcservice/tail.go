// SPDX-License-Identifier: Apache-2.0

// What became of the tail once mode Auto sent copies: the model may be wrong about a
// service, so the percentile that the routers measure has the last word.
package rpcservice

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
	"github.com/bobtail-dev/bobtail/operator/internal/stretches"
)

const (
	// tailWindow is that part of the minute between two decisions in which every
	// router has surely heard of the first.
	tailWindow = 50 * time.Second
	// clearly above: the low end of the interval is so many times the high end of
	// the other, which leaves out what is too little to matter.
	clearly = 1.1
	// risenMost minutes in a row are no chance and no passing disturbance.
	risenMost = 2
	// comparedFor so long the service without copies is what it was. This also bounds
	// how often chance may speak.
	comparedFor = 15 * time.Minute
	// heldFor so long no copies are sent after the tail rose. The minutes that copies
	// then spoil again are three in sixty-three.
	heldFor = time.Hour
)

// compareTails keeps the percentile without copies and with them, and takes the
// decision back if it rose.
func compareTails(s *snapshot, out *v1alpha1.HedgingStatus) {
	percentile := judgedPercentile(s)
	t := tailSoFar(s, percentile)
	out.Tail = t
	sent, pays := render.HedgingMode(s.service, s.service.Status.Hedging) == v1alpha1.HedgingLoadAware, out.Mode == v1alpha1.HedgingLoadAware
	measured := measuredTail(s, t, percentile, *out.LoadPercent)
	switch {
	case pays && t.HeldUntil != nil && s.now.Before(t.HeldUntil.Time):
		takeBack(out)
	case pays && !sent:
		t.Without, t.With, t.RisenMinutes, t.HeldUntil = measured, nil, 0, nil
	case pays && measured != nil:
		t.With = measured
		t.RisenMinutes = risen(t)
		if t.RisenMinutes >= risenMost {
			t.HeldUntil = &metav1.Time{Time: s.now.Add(heldFor)}
			takeBack(out)
		}
	case !pays:
		t.RisenMinutes = 0
	}
	if sent != (out.Mode == v1alpha1.HedgingLoadAware) {
		t.ChangedTime = &metav1.Time{Time: s.now}
	}
}

// tailSoFar is what is known of the same percentile and cancellation.
func tailSoFar(s *snapshot, percentile float64) *v1alpha1.HedgingTail {
	t := &v1alpha1.HedgingTail{Percentile: strconv.FormatFloat(percentile*100, 'g', 6, 64)}
	was := s.service.Status.Hedging
	switch {
	case was == nil:
	case was.Tail == nil: // copies may have been sent by specification
		if was.Reason == v1alpha1.HedgingAsSpecified {
			t.ChangedTime = &metav1.Time{Time: s.now}
		}
	case was.Tail.Percentile == t.Percentile && was.Cancellation == cancellationOf(s.service.Spec.Hedging):
		t = was.Tail.DeepCopy()
	default:
		t.ChangedTime = was.Tail.ChangedTime
	}
	return t
}

// measuredTail is the interval of the percentile in the last minute; nil where copies
// were switched in it, where a router did not tell all of it, and where the interval
// has no end.
func measuredTail(s *snapshot, t *v1alpha1.HedgingTail, percentile float64, load int32) *v1alpha1.HedgingTailMeasured {
	if t.ChangedTime != nil && s.now.Sub(t.ChangedTime.Time) < decideEvery || len(s.tails) == 0 {
		return nil
	}
	parts := make([]*ll7.Histogram, stretches.Parts)
	for i := range parts {
		parts[i] = &ll7.Histogram{}
	}
	for _, reply := range s.tails {
		if reply == nil || len(reply.Parts) != len(parts) || reply.CoveredSeconds < int(tailWindow.Seconds()) {
			return nil
		}
		for i, part := range reply.Parts {
			parts[i].Merge(part)
		}
	}
	of := stretches.New(parts, percentile).Interval()
	if of.Low.Bound != ll7.Finite || of.High.Bound != ll7.Finite {
		return nil
	}
	return &v1alpha1.HedgingTailMeasured{LowMicroseconds: int64(of.Low.Nanoseconds / 1000), HighMicroseconds: int64((of.High.Nanoseconds + 999) / 1000), // clamped: finite values are minutes at most
		LoadPercent: load, MeasuredTime: metav1.Time{Time: s.now}}
}

// risen counts the minutes in a row in which the percentile was clearly above that
// without copies, although the load was not. One at a higher load, or long after, says
// nothing either way.
func risen(t *v1alpha1.HedgingTail) int32 {
	without, with := t.Without, t.With
	switch {
	case without == nil || with.MeasuredTime.Sub(without.MeasuredTime.Time) > comparedFor:
		return 0
	case with.LoadPercent > without.LoadPercent+max(1, without.LoadPercent/20):
		return t.RisenMinutes
	case float64(with.LowMicroseconds) > clearly*float64(without.HighMicroseconds):
		return t.RisenMinutes + 1
	}
	return 0
}

// takeBack says why copies that pay by the model are not sent.
func takeBack(out *v1alpha1.HedgingStatus) {
	t := out.Tail
	out.Mode, out.Reason = v1alpha1.HedgingProbe, v1alpha1.HedgingTailRose
	told := ""
	if t.Without != nil && t.With != nil {
		told = fmt.Sprintf("p%s was %s without copies at %d%% load, and %s with them at %d%%, %d minutes in a row; ", t.Percentile,
			fromTo(t.Without), t.Without.LoadPercent, fromTo(t.With), t.With.LoadPercent, t.RisenMinutes)
	}
	out.Message = told + "none are sent until " + t.HeldUntil.UTC().Format(time.RFC3339) + ", although " + out.Message
}

func fromTo(m *v1alpha1.HedgingTailMeasured) string {
	return fmt.Sprintf("%s to %s", time.Duration(m.LowMicroseconds)*time.Microsecond, time.Duration(m.HighMicroseconds)*time.Microsecond)
}
