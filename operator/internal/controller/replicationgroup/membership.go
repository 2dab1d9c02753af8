// SPDX-License-Identifier: Apache-2.0

// Which one thing is to happen next to a group: a member is taken in, promoted, removed,
// or a pod is restarted. Pure. Whatever it decides leaves as many healthy voters as must
// agree; it waits where it cannot.
package replicationgroup

import (
	"cmp"
	"slices"
)

// view is the group as its members tell it.
type view struct {
	// wanted is how many members there shall be, in the seats 0…wanted-1.
	wanted int
	// formed: all members that found the group have been up once.
	formed bool
	// leader is the number of the member that leads with a quorum behind it; 0: nobody.
	leader int
	// busy: a change is under way.
	busy bool
	// seats are the pods, force is the membership that the leader speaks of.
	seats []seat
	force []peer
}

// seat is a pod of the group.
type seat struct {
	ordinal int
	number  int  // of the member on its disk; 0: not known
	alive   bool // it runs and may be taken in
	coming  bool // it answers, and waits for its configuration
	// outdated: its pod is not of the present specification. spoilt: its process can go
	// on only in a new pod.
	outdated, spoilt bool
}

// peer is a member of the configuration in force.
type peer struct {
	number, ordinal int
	voter           bool
	healthy         bool  // it answers, and follows or leads
	lag             int64 // entries that it has yet to get
}

// kinds of a step.
const (
	stepNone     = ""
	stepAdd      = "add"
	stepPromote  = "promote"
	stepRemove   = "remove"
	stepTransfer = "transfer"
	stepEvict    = "evict"
)

// step is one thing to do. number is a member's, ordinal a pod's.
type step struct {
	kind    string
	number  int
	ordinal int
}

// caughtUp is how far behind a learner may be that is promoted; the leader looks again.
const caughtUp = 1024

// quorum is how many of so many voters must agree.
func quorum(voters int) int { return voters/2 + 1 }

func (v *view) voters() (all, healthy int) {
	for _, p := range v.force {
		if p.voter {
			all++
			if p.healthy {
				healthy++
			}
		}
	}
	return all, healthy
}

// wants says whether a member shall be one.
func (v *view) wants(number int) bool {
	return number != 0 && slices.ContainsFunc(v.seats, func(s seat) bool { return s.number == number && s.ordinal < v.wanted })
}

func (v *view) inForce(number int) *peer {
	for i := range v.force {
		if v.force[i].number == number {
			return &v.force[i]
		}
	}
	return nil
}

// settled: the members are those that are wanted, and all of them are voters.
func (v *view) settled() bool {
	voters, _ := v.voters()
	if voters != v.wanted || len(v.force) != v.wanted {
		return false
	}
	return !slices.ContainsFunc(v.force, func(p peer) bool { return !v.wants(p.number) })
}

// decideStep is the one decision. A group without a leader that has a quorum is left
// alone: whatever is done to it could only take more away.
func decideStep(v view) step {
	if !v.formed || v.leader == 0 || v.busy {
		return step{}
	}
	for _, decide := range []func(view) (step, bool){decideAdd, decidePromote, decideRemove, decideRestart} {
		if s, done := decide(v); done {
			return s
		}
	}
	return step{}
}

// decideAdd takes in whoever is wanted: a learner counts for nothing.
func decideAdd(v view) (step, bool) {
	for _, s := range v.seats {
		if s.ordinal < v.wanted && s.number != 0 && s.alive && v.inForce(s.number) == nil {
			return step{kind: stepAdd, number: s.number, ordinal: s.ordinal}, true
		}
	}
	return step{}, false
}

// decidePromote makes a voter of a learner that has caught up.
func decidePromote(v view) (step, bool) {
	voters, healthy := v.voters()
	for _, p := range v.force {
		if p.voter || !p.healthy || p.lag < 0 || p.lag > caughtUp || !v.wants(p.number) {
			continue
		}
		if healthy+1 >= quorum(voters+1) {
			return step{kind: stepPromote, number: p.number, ordinal: p.ordinal}, true
		}
	}
	return step{}, false
}

// decideRemove removes who is not wanted: learners, then voters that are not well, then
// those in the highest seats; who leads hands over first.
func decideRemove(v view) (step, bool) {
	var leaving []peer
	for _, p := range v.force {
		if !v.wants(p.number) {
			leaving = append(leaving, p)
		}
	}
	if len(leaving) == 0 || v.successorComes(leaving) {
		return step{}, len(leaving) > 0
	}
	slices.SortStableFunc(leaving, func(a, b peer) int {
		return cmp.Or(truth(a.voter)-truth(b.voter), truth(a.number == v.leader)-truth(b.number == v.leader),
			truth(a.healthy)-truth(b.healthy), b.ordinal-a.ordinal)
	})
	voters, healthy := v.voters()
	for _, p := range leaving {
		if p.voter && healthy-truth(p.healthy) < quorum(voters-1) {
			continue
		}
		if p.number == v.leader {
			return v.handOver()
		}
		return step{kind: stepRemove, number: p.number, ordinal: p.ordinal}, true
	}
	return step{}, true
}

// successorComes: a member was replaced in its seat, and its successor is on its way. It
// counts until then: a group does not get smaller for a while without need.
func (v *view) successorComes(leaving []peer) bool {
	for _, s := range v.seats {
		if s.ordinal >= v.wanted || !s.alive && !s.coming {
			continue
		}
		p := v.inForce(s.number)
		if p != nil && p.voter {
			continue
		}
		if slices.ContainsFunc(leaving, func(l peer) bool { return l.ordinal == s.ordinal && l.voter }) {
			return true
		}
	}
	return false
}

// decideRestart takes away one pod of an old specification. One that is well goes only
// while all others are; who leads goes last, after it has handed over.
func decideRestart(v view) (step, bool) {
	voters, healthy := v.voters()
	var due []seat
	for _, s := range v.seats {
		if s.outdated || s.spoilt {
			due = append(due, s)
		}
	}
	well := func(s seat) bool { p := v.inForce(s.number); return p != nil && p.healthy }
	slices.SortStableFunc(due, func(a, b seat) int {
		return cmp.Or(truth(well(a))-truth(well(b)), truth(a.number == v.leader)-truth(b.number == v.leader), b.ordinal-a.ordinal)
	})
	for _, s := range due {
		if !well(s) {
			if healthy >= quorum(voters) {
				return step{kind: stepEvict, number: s.number, ordinal: s.ordinal}, true
			}
			continue
		}
		if !v.settled() || healthy != voters || healthy-1 < quorum(voters) {
			continue
		}
		if s.number == v.leader {
			return v.handOver()
		}
		return step{kind: stepEvict, number: s.number, ordinal: s.ordinal}, true
	}
	return step{}, false
}

// handOver chooses the next leader: a healthy voter that stays, of the present
// specification if there is one, with the least to get.
func (v *view) handOver() (step, bool) {
	var best *peer
	old := func(p *peer) int {
		return truth(slices.ContainsFunc(v.seats, func(s seat) bool { return s.number == p.number && s.outdated }))
	}
	for i := range v.force {
		p := &v.force[i]
		if p.number == v.leader || !p.voter || !p.healthy || !v.wants(p.number) {
			continue
		}
		if best == nil || cmp.Or(old(p)-old(best), cmp.Compare(p.lag, best.lag), p.ordinal-best.ordinal) < 0 {
			best = p
		}
	}
	if best == nil {
		return step{}, true
	}
	return step{kind: stepTransfer, number: best.number, ordinal: best.ordinal}, true
}

func truth(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
