// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"slices"
	"testing"
)

// The order in which members go and lead, where more than one could.
func TestOrderOfSteps(t *testing.T) {
	leaves := func(v *view) { // member 5 leads, and is the only one that is to go
		five(v)
		v.wanted, v.leader = 3, 5
		v.force = slices.Delete(v.force, 3, 4)
	}
	for _, row := range []struct {
		name   string
		change func(*view)
		want   step
	}{
		{"a leader in the lower of two seats that go stays longest", func(v *view) { five(v); v.wanted, v.leader = 3, 4 }, step{stepRemove, 5, 4}},
		{"a successor that comes is waited for, whatever seat before it is ill", func(v *view) {
			five(v)
			ill(v, 1)
			v.leader = 2
			ill(v, 3)
			v.seats[2] = seat{ordinal: 2, number: 6, coming: true}
		}, step{}},
		{"none of two is restarted: the other one could not agree alone", func(v *view) {
			v.wanted, v.seats, v.force = 2, v.seats[:2], v.force[:2]
			outdated(v, 1)
		}, step{}},
		{"all being alike the lowest seat leads next", leaves, step{stepTransfer, 1, 0}},
		{"in whatever order they are named", func(v *view) { leaves(v); slices.Reverse(v.force) }, step{stepTransfer, 1, 0}},
		{"one of the present specification leads next, though it has more to get", func(v *view) {
			leaves(v)
			outdated(v, 0, 1)
			v.inForce(3).lag = 50
		}, step{stepTransfer, 3, 2}},
		{"and stays the best when others are looked at", func(v *view) { leaves(v); outdated(v, 1, 2); v.inForce(1).lag = 50 }, step{stepTransfer, 1, 0}},
	} {
		if got := decideStep(three(row.change)); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
	}
}

// A group is settled when as many vote as are wanted, and nobody else is there.
func TestSettled(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*view)
		want   bool
	}{
		"as it is":                    {nil, true},
		"one has no vote yet":         {func(v *view) { v.force[2].voter = false }, false},
		"one is missing":              {func(v *view) { v.force = v.force[:2] }, false},
		"a learner more":              {func(v *view) { v.force = append(v.force, peer{number: 4, ordinal: 3}) }, false},
		"another one than was wanted": {func(v *view) { v.force[2].number = 4 }, false},
		"one is ill":                  {func(v *view) { ill(v, 2) }, true},
	} {
		if v := three(c.change); v.settled() != c.want {
			t.Errorf("%s: %v", name, v.settled())
		}
	}
}
