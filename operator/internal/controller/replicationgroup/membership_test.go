// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// three is a group of three in seats 0, 1 and 2 with members 1, 2 and 3, led by 1.
func three(change func(*view)) view {
	v := view{wanted: 3, formed: true, leader: 1}
	for i := range 3 {
		v.seats = append(v.seats, seat{ordinal: i, number: i + 1, alive: true})
		v.force = append(v.force, peer{number: i + 1, ordinal: i, voter: true, healthy: true})
	}
	if change != nil {
		change(&v)
	}
	return v
}

func grown(v *view, members int) {
	for i := len(v.seats); i < members; i++ {
		v.seats = append(v.seats, seat{ordinal: i, number: i + 1, alive: true})
	}
}

func ill(v *view, number int) {
	v.inForce(number).healthy = false
	for i := range v.seats {
		if v.seats[i].number == number {
			v.seats[i].alive = false
		}
	}
}

func five(v *view) {
	v.wanted = 5
	grown(v, 5)
	for i := 3; i < 5; i++ {
		v.force = append(v.force, peer{number: i + 1, ordinal: i, voter: true, healthy: true})
	}
}
func outdated(v *view, places ...int) {
	for _, p := range places {
		v.seats[p].outdated = true
	}
}

// replacedDisk: the disk of seat 2 was lost, and member 4 came in its place.
func replacedDisk(v *view) {
	ill(v, 3)
	v.seats[2] = seat{ordinal: 2, number: 4, alive: true}
}

var stepRows = []struct {
	name   string
	change func(*view)
	want   step
}{
	{"settled", nil, step{}},
	{"not formed", func(v *view) { v.formed = false; v.wanted = 5; grown(v, 5) }, step{}},
	{"nobody leads", func(v *view) { v.leader = 0; outdated(v, 1) }, step{}},
	{"a change is under way", func(v *view) { v.busy = true; v.wanted = 5; grown(v, 5) }, step{}},

	{"up: the first newcomer is taken in", func(v *view) { v.wanted = 5; grown(v, 5) }, step{stepAdd, 4, 3}},
	{"up: one that does not run waits", func(v *view) { v.wanted = 5; grown(v, 5); v.seats[3].alive = false }, step{stepAdd, 5, 4}},
	{"up: nothing of a pod that is not known", func(v *view) { v.wanted = 5; grown(v, 4); v.seats[3].number = 0 }, step{}},
	{"up: a learner that caught up", func(v *view) {
		v.wanted = 5
		grown(v, 4)
		v.force = append(v.force, peer{number: 4, ordinal: 3, healthy: true, lag: caughtUp})
	}, step{stepPromote, 4, 3}},
	{"up: a learner that is behind", func(v *view) {
		v.wanted = 5
		grown(v, 4)
		v.force = append(v.force, peer{number: 4, ordinal: 3, healthy: true, lag: caughtUp + 1})
	}, step{}},
	{"up: a learner that is not well", func(v *view) {
		v.wanted = 5
		grown(v, 4)
		v.force = append(v.force, peer{number: 4, ordinal: 3, lag: 0})
	}, step{}},

	{"down: the highest seat", func(v *view) { five(v); v.wanted = 3 }, step{stepRemove, 5, 4}},
	{"down: one that is not well goes first", func(v *view) { five(v); v.wanted = 3; ill(v, 4) }, step{stepRemove, 4, 3}},
	{"down: of three that are well none goes while two are ill that stay", func(v *view) { five(v); v.wanted = 3; ill(v, 2); ill(v, 3) }, step{}},
	{"down: the leader goes last", func(v *view) { five(v); v.wanted = 3; v.leader = 5 }, step{stepRemove, 4, 3}},
	{"down: the leader hands over first", func(v *view) {
		five(v)
		v.wanted, v.leader = 3, 5
		v.force = slices.Delete(v.force, 3, 4)
		v.inForce(1).lag = 7
	}, step{stepTransfer, 2, 1}},
	{"down: a learner that is not wanted", func(v *view) {
		v.force = append(v.force, peer{number: 4, ordinal: 3})
	}, step{stepRemove, 4, 3}},

	{"down: a learner that is not wanted gets no vote, however well it is", func(v *view) {
		v.force = append(v.force, peer{number: 4, ordinal: 3, healthy: true})
	}, step{stepRemove, 4, 3}},
	{"down: the leader does not hand over to one that is ill", func(v *view) {
		five(v)
		v.wanted, v.leader = 3, 5
		v.force = slices.Delete(v.force, 3, 4)
		ill(v, 1)
	}, step{stepTransfer, 2, 1}},
	{"down: the leader does not hand over to a learner", func(v *view) {
		five(v)
		v.wanted, v.leader = 3, 5
		v.force = slices.Delete(v.force, 3, 4)
		v.inForce(1).voter, v.inForce(1).lag = false, caughtUp+1
		v.inForce(2).lag, v.inForce(3).lag = caughtUp+2, caughtUp+3
	}, step{stepTransfer, 2, 1}},
	{"up: no vote more while too few are seen to be well", func(v *view) {
		v.wanted = 5
		grown(v, 4)
		ill(v, 2)
		ill(v, 3)
		v.force = append(v.force, peer{number: 4, ordinal: 3, healthy: true})
	}, step{}},

	{"replaced: the successor is taken in", replacedDisk, step{stepAdd, 4, 2}},
	{"replaced: the old one stays until then", func(v *view) {
		replacedDisk(v)
		v.force = append(v.force, peer{number: 4, ordinal: 2, healthy: true, lag: caughtUp + 1})
	}, step{}},
	{"replaced: promoted", func(v *view) {
		replacedDisk(v)
		v.force = append(v.force, peer{number: 4, ordinal: 2, healthy: true})
	}, step{stepPromote, 4, 2}},
	{"replaced: then the old one goes", func(v *view) {
		replacedDisk(v)
		v.force = append(v.force, peer{number: 4, ordinal: 2, voter: true, healthy: true})
	}, step{stepRemove, 3, 2}},

	{"restart: followers, the highest first", func(v *view) { outdated(v, 0, 1, 2) }, step{stepEvict, 3, 2}},
	{"restart: followers before a leader in the highest seat", func(v *view) { outdated(v, 0, 1, 2); v.leader = 3 }, step{stepEvict, 2, 1}},
	{"restart: the leader hands over, to one that is new", func(v *view) { outdated(v, 0, 2); v.seats[2].outdated = false }, step{stepTransfer, 2, 1}},
	{"restart: not while another is ill", func(v *view) { outdated(v, 1); ill(v, 3) }, step{}},
	{"restart: the one that is ill itself", func(v *view) { outdated(v, 0, 1, 2); ill(v, 2) }, step{stepEvict, 2, 1}},
	{"restart: none where too few are seen to be well", func(v *view) { outdated(v, 1, 2); ill(v, 2); ill(v, 3) }, step{}},
	{"restart: not while members change", func(v *view) { outdated(v, 1); v.wanted = 5; grown(v, 4); v.seats[3].alive = false }, step{}},
	{"restart: a process that forgot who it was", func(v *view) { ill(v, 3); v.seats[2].spoilt = true }, step{stepEvict, 3, 2}},
}

// G-3, G-4, G-5: one thing at a time, and what each of them waits for.
func TestDecideStep(t *testing.T) {
	for _, row := range stepRows {
		t.Run(row.name, func(t *testing.T) {
			if got := decideStep(three(row.change)); got != row.want {
				t.Errorf("%+v, want %+v", got, row.want)
			}
		})
	}
}

// model is a group whose members do as they are told, and which is hit by faults.
type model struct {
	rng    *rand.Rand
	wanted int
	next   int
	pods   []modelPod // by seat
	force  []peer
	leader int
	newest int // revision of the specification
}

type modelPod struct {
	number, revision int
	up               bool
}

func newModel(seed uint64) *model {
	m := &model{rng: rand.New(rand.NewPCG(seed, 1)), wanted: []int{3, 5}[seed%2], next: 1}
	for i := range m.wanted {
		m.pods = append(m.pods, modelPod{number: m.next, up: true})
		m.force = append(m.force, peer{number: m.next, ordinal: i, voter: true})
		m.next++
	}
	return m
}

func (m *model) up(number int) bool {
	return slices.ContainsFunc(m.pods, func(p modelPod) bool { return p.number == number && p.up })
}

func (m *model) voters() (all, healthy int) {
	for _, p := range m.force {
		if p.voter {
			all++
			if m.up(p.number) {
				healthy++
			}
		}
	}
	return all, healthy
}

// elect has a healthy voter lead while a quorum is there.
func (m *model) elect() {
	all, healthy := m.voters()
	if healthy < quorum(all) {
		m.leader = 0
		return
	}
	if p := slices.IndexFunc(m.force, func(p peer) bool { return p.number == m.leader && p.voter }); p >= 0 && m.up(m.leader) {
		return
	}
	for _, i := range m.rng.Perm(len(m.force)) {
		if p := m.force[i]; p.voter && m.up(p.number) {
			m.leader = p.number
		}
	}
}

// view is what the controller sees of it; pods are numbered as they come.
func (m *model) view() view {
	for len(m.pods) < m.wanted {
		m.pods = append(m.pods, modelPod{revision: m.newest, up: true})
	}
	v := view{wanted: m.wanted, formed: true, leader: m.leader}
	for i := range m.pods {
		p := &m.pods[i]
		if p.number == 0 && p.up && i < m.wanted {
			p.number = m.next
			m.next++
		}
		v.seats = append(v.seats, seat{ordinal: i, number: p.number, alive: p.up && p.number != 0, outdated: p.revision != m.newest && p.up})
	}
	if m.leader != 0 {
		for _, p := range m.force {
			p.healthy = m.up(p.number)
			if m.rng.IntN(4) == 0 && !p.voter {
				p.lag = caughtUp + 1
			}
			v.force = append(v.force, p)
		}
	}
	return v
}

// take does what the leader and the API server do.
func (m *model) take(s step) {
	at := slices.IndexFunc(m.force, func(p peer) bool { return p.number == s.number })
	switch s.kind {
	case stepAdd:
		m.force = append(m.force, peer{number: s.number, ordinal: s.ordinal})
	case stepPromote:
		m.force[at].voter = true
	case stepRemove:
		m.force = slices.Delete(m.force, at, at+1)
	case stepTransfer:
		m.leader = s.number
	case stepEvict:
		m.pods[s.ordinal].up = false
	}
	// Pods of members that are gone go, from the end, as the record forgets them.
	for len(m.pods) > m.wanted {
		last := m.pods[len(m.pods)-1]
		if slices.ContainsFunc(m.force, func(p peer) bool { return p.number == last.number }) {
			break
		}
		m.pods = m.pods[:len(m.pods)-1]
	}
}

// fault is one thing that happens to the group from outside.
func (m *model) fault() {
	i := m.rng.IntN(len(m.pods))
	switch m.rng.IntN(12) {
	case 0, 1:
		m.pods[i].up = false
	case 2: // with its disk
		m.pods[i] = modelPod{revision: m.newest, up: true}
	case 3:
		m.wanted = []int{3, 5, 7, 9}[m.rng.IntN(4)]
	case 4:
		m.newest++
	case 5:
		m.leader = 0
	default:
		m.heal(i)
	}
}

// heal starts a pod again, of the present specification if it was taken away.
func (m *model) heal(i int) {
	if !m.pods[i].up {
		m.pods[i].up, m.pods[i].revision = true, m.newest
	}
}

// G-4: whatever happens to a group, nothing that is decided leaves fewer healthy voters
// than must agree, and once nothing happens any more the group gets to where it shall be.
func TestModelNeverTakesTheQuorum(t *testing.T) {
	kinds := map[string]int{}
	for seed := range uint64(1500) {
		m := newModel(seed)
		for round := range 400 {
			if round < 150 {
				m.fault()
			} else {
				m.heal(round % len(m.pods))
			}
			m.elect()
			before, healthyBefore := m.voters()
			s := decideStep(m.view())
			kinds[s.kind]++
			m.take(s)
			all, healthy := m.voters()
			if s.kind != stepNone && (healthyBefore < quorum(before) || healthy < quorum(all)) {
				t.Fatalf("seed %d, round %d: %+v left %d of %d voters, %d must agree", seed, round, s, healthy, all, quorum(all))
			}
		}
		// What faults took for good is gone: a quorum of lost disks stays lost.
		if all, healthy := m.voters(); healthy < quorum(all) {
			kinds["lost"]++
			continue
		}
		m.elect()
		v := m.view()
		if s := decideStep(v); !v.settled() || s.kind != stepNone {
			t.Fatalf("seed %d: not settled in the end: next %+v, %s", seed, s, m)
		}
	}
	for _, kind := range []string{stepAdd, stepPromote, stepRemove, stepTransfer, stepEvict} {
		if kinds[kind] < 100 {
			t.Errorf("%s happened %d times: the model tries too little", kind, kinds[kind])
		}
	}
	t.Logf("%v", kinds)
}

func (m *model) String() string {
	return fmt.Sprintf("wanted %d, leader %d, pods %+v, force %+v", m.wanted, m.leader, m.pods, m.force)
}
