// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// routers' measurements are merged by what they are the mean of, and
// those that measured nothing say nothing.
func TestR252JitterIsMergedOverRouters(t *testing.T) {
	s := &snapshot{service: aService(), routers: pods("r r r"), states: map[string]stateRead{}}
	if got := jitterStatus(s); got != nil {
		t.Fatalf("out of nothing: %+v", got)
	}
	told := func(i int, h dataplane.HedgingState) {
		s.states[s.routers[i].Name] = stateRead{Reply: &dataplane.SidecarState{Dataplane: &dataplane.State{Hedging: &h}}}
	}
	told(0, dataplane.HedgingState{Compared: 3000, HiccupMillionths: 1000, HiccupNanoseconds: 4_000_000, ServiceNanoseconds: 100_000})
	told(1, dataplane.HedgingState{Compared: 1000, HiccupMillionths: 9000, HiccupNanoseconds: 8_000_000, ServiceNanoseconds: 300_000})
	told(2, dataplane.HedgingState{Mode: "Off"})
	want := v1alpha1.JitterStatus{Compared: 4000, HiccupsPerMillion: 3000, HiccupMicroseconds: 7000, ServiceMicroseconds: 150}
	if got := jitterStatus(s); got == nil || *got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestTwoDigits(t *testing.T) {
	for in, want := range map[float64]int64{0: 0, 7: 7, 99: 99, 101: 100, 1234: 1200, 98765: 98000} {
		if got := twoDigits(in); got != want {
			t.Errorf("twoDigits(%v) = %d, want %d", in, got, want)
		}
	}
}
