// SPDX-License-Identifier: Apache-2.0

package hedgemodel

import "testing"

// What is kept is what a run says; without copies nothing but the load counts; and no
// more is kept than was said.
func TestWhatIsRememberedIsTheSame(t *testing.T) {
	s := Service{Workers: 4, Routers: 2, Depth: 2, Load: 0.5, HiccupShare: 0.01, HiccupLength: 20, BusyShare: 0.5, BudgetShare: 0.1, Cancel: Answered,
		Heeded: 1, Percentile: 0.99, Requests: 2000, Seed: 3}
	for range 2 {
		if got, want := Run(s), serve(s); got != want {
			t.Fatalf("%+v, a run says %+v", got, want)
		}
	}
	plain := s
	plain.BusyShare = 0
	other := plain
	other.Heeded, other.Lag, other.BudgetShare, other.Cancel, other.ProbeShare = 0.3, 2, 0.5, Preemptive, 0.2
	if Run(plain) != serve(plain) || serve(other) != serve(plain) {
		t.Errorf("without copies: %+v, %+v, %+v", Run(plain), serve(plain), serve(other))
	}
	few := s
	few.Requests = 10
	for few.Seed = range uint64(remembered + 5) {
		if got, want := Run(few), serve(few); got != want {
			t.Fatalf("seed %d: %+v, a run says %+v", few.Seed, got, want)
		}
	}
	if len(memo.outcomes) > remembered || len(memo.order) != len(memo.outcomes) {
		t.Errorf("%d outcomes in an order of %d", len(memo.outcomes), len(memo.order))
	}
}
