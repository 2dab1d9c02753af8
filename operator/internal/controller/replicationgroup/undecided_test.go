// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/events"
)

// what the leader says is known stands in the status, and is told once.
func TestUndecidedStatesAreTold(t *testing.T) {
	s := newScene(t).formedBy(3)
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Events: recorder}
	told := func() (n int) {
		for len(recorder.Events) > 0 {
			if e := <-recorder.Events; strings.Contains(e, "Warning StatesUndecided") && strings.Contains(e, "entry 2048") {
				n++
			}
		}
		return n
	}
	for _, step := range []struct {
		name      string
		leads     bool
		undecided uint64
		shows     int64 // 0: absent
		told      int
	}{
		{"all alike", true, 0, 0, 0},
		{"no majority has the same", true, 2048, 2048, 1},
		{"still so", true, 2048, 2048, 0},
		{"nobody leads", false, 0, 2048, 0},
		{"a later one is decided", true, 0, 0, 0},
	} {
		s.said(0).Quorum.Heard = 1
		if step.leads {
			s.said(0).Quorum.Heard = 3
		}
		s.said(0).StatesUndecided = step.undecided
		before := s.group.DeepCopy()
		p := planFor(s.snapshot)
		done := &outcome{before: before}
		s.group = withStatus(s.snapshot, p, done, conclude(s.snapshot, p, done))
		r.announceMembers(before, s.group)
		got := int64(0)
		if e := s.group.Status.StatesUndecidedEntry; e != nil {
			got = *e
		}
		if n := told(); got != step.shows || n != step.told {
			t.Errorf("%s: the status shows %d, told %d times; want %d, %d", step.name, got, n, step.shows, step.told)
		}
	}
}
