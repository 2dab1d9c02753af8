// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"math"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// counting is a service whose two routers send copies that can be taken back.
func counting() *snapshot {
	s := inCancels(v1alpha1.CancellationAnswered, cancelled{})
	s.service.Status.Hedging = &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingLoadAware, Reason: v1alpha1.HedgingPays}
	s.states = map[string]stateRead{}
	tells(s, 0, dataplane.HedgingState{})
	tells(s, 1, dataplane.HedgingState{})
	return s
}

func tells(s *snapshot, router int, h dataplane.HedgingState) {
	s.states[s.routers[router].Name] = stateRead{Reply: &dataplane.SidecarState{Dataplane: &dataplane.State{Hedging: &h}}}
}

// only what came since the last look counts, probes apart, against what the
// model expected of it.
func TestR254CountsCancels(t *testing.T) {
	s := counting()
	look := func(what string, want cancelled) {
		t.Helper()
		s.counted = count(s)
		got := s.counted.sum
		if math.Abs(got.expected-want.expected) > 1e-9 || math.Abs(got.taken-want.taken) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	tells(s, 0, dataplane.HedgingState{Copies: 500, Cancelled: 400})
	look("what was before", cancelled{})
	tells(s, 0, dataplane.HedgingState{Copies: 600, Cancelled: 480})
	look("before a model was asked", cancelled{})
	s.counted = s.counted.expecting(0.5)
	tells(s, 0, dataplane.HedgingState{Copies: 700, Cancelled: 520, Compared: 20})
	tells(s, 1, dataplane.HedgingState{Copies: 40, Cancelled: 15})
	look("both routers", cancelled{60, 55})
	tells(s, 0, dataplane.HedgingState{Copies: 10, Cancelled: 5})
	look("one started again", cancelled{60, 55})
	tells(s, 0, dataplane.HedgingState{Copies: 20, Cancelled: 10})
	look("and goes on", cancelled{65, 60})
	tells(s, 1, dataplane.HedgingState{Copies: 40 + 8000, Cancelled: 15 + 4000})
	look("old ones are forgotten", cancelled{2000, 2000 * 4060.0 / 4065})

	s.service.Status.Hedging = &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingProbe, Reason: v1alpha1.HedgingMedianRises}
	s.now = s.now.Add(time.Hour)
	tells(s, 0, dataplane.HedgingState{Copies: 5000, Cancelled: 10})
	look("copies that cannot be taken back", cancelled{1000, 1000 * 4060.0 / 4065})
	s.counted = (&cancelsSeen{}).get(s.service)
	look("of another service of that name", cancelled{})
}

// An operator that starts again knows what the last one wrote down.
func TestR254CancelsAreRemembered(t *testing.T) {
	s := counting()
	s.service.Status.Hedging.Cancels = &v1alpha1.HedgingCancels{Expected: 300, TakenBack: 290}
	if got := count(s).sum; got != (cancelled{300, 290}) {
		t.Errorf("%+v", got)
	}
}

func TestR254Heeded(t *testing.T) {
	for _, c := range []struct {
		of    cancelled
		least float64
		known bool
	}{
		{cancelled{}, 0, false}, {cancelled{49.9, 49}, 0, false}, {cancelled{50, 0}, 0, true}, {cancelled{100, 100}, 0.963, true},
		{cancelled{2000, 2100}, 0.998, true}, {cancelled{1000, 500}, 0.469, true},
	} {
		if least, known := c.of.heeded(); known != c.known || math.Abs(least-c.least) > 0.001 {
			t.Errorf("%+v: %v %v", c.of, least, known)
		}
	}
}
