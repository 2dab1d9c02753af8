// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
)

// A round that cannot fail proves nothing: each invariant is shown a record
// that breaks it.
func TestCheckersFindWhatIsWrong(t *testing.T) {
	good := func() *load {
		l := &load{shape: shape{name: "small"}}
		l.Offered, l.Sent, l.Completed = 2, 2, 2
		l.outcomes = []outcome{{serial: "a", result: "answered"}, {serial: "b", result: "answered"}}
		return l
	}
	done := []execution{{"a", "8000", "c", "log-1"}, {"b", "8000", "c", "log-1"}}
	for _, c := range []struct {
		name, want string
		change     func(*load, *[]execution)
		allow      allowance
	}{
		{"nothing wrong", "", func(*load, *[]execution) {}, allowance{}},
		{"ended twice", "exactly once", func(l *load, _ *[]execution) { l.EndedTwice = 1 }, allowance{}},
		{"never ended", "exactly once", func(l *load, _ *[]execution) { l.Offered = 3 }, allowance{}},
		{"foreign bytes", "own payload", func(l *load, _ *[]execution) { l.Corrupt = 1 }, allowance{}},
		{"log and report differ", "exactly once", func(l *load, _ *[]execution) { l.outcomes[1].result = "timeout" }, allowance{timeouts: true}},
		{"one serial twice", "exactly once", func(l *load, _ *[]execution) { l.outcomes[1].serial = "a" }, allowance{}},
		{"unexplained timeout", "explained", timeOut, allowance{}},
		{"explained timeout", "", timeOut, allowance{timeouts: true}},
		{"unexplained DROP", "explained", func(l *load, d *[]execution) { dropOne(l); *d = (*d)[:1] }, allowance{}},
		{"explained DROP", "", func(l *load, d *[]execution) { dropOne(l); *d = (*d)[:1] }, allowance{queue: true}},
		{"DROP, yet executed", "not executed", func(l *load, _ *[]execution) { dropOne(l) }, allowance{queue: true}},
		{"answered, not executed", "executed", func(_ *load, d *[]execution) { *d = (*d)[:1] }, allowance{}},
		{"executed by two", "at most once", func(_ *load, d *[]execution) { *d = append(*d, execution{"a", "8001", "c", "log-1"}) }, allowance{}},
		{"executed by two, copied", "", func(_ *load, d *[]execution) { *d = append(*d, execution{"a", "8001", "c", "log-1"}) }, allowance{doubled: true}},
		{"executed twice by one", "at most once", func(_ *load, d *[]execution) { *d = append(*d, (*d)[0]) }, allowance{doubled: true}},
		{"nobody sent it", "executed", func(_ *load, d *[]execution) { *d = append(*d, execution{"z", "8001", "c", "log-1"}) }, allowance{}},
		{"no room for requests", "explained", func(l *load, _ *[]execution) {
			l.Offered, l.Errors, l.ErrorCodes = 3, 1, map[string]uint64{"tableFull": 1}
		}, allowance{timeouts: true}},
	} {
		l, d := good(), append([]execution(nil), done...)
		c.change(l, &d)
		r, v := &runner{total: &totals{}}, &verdict{}
		r.checkLoad(v, l, c.allow)
		r.checkExecutions(v, []*load{l}, d, c.allow)
		found := strings.Join(v.failures, "\n")
		if (c.want == "") != (found == "") || !strings.Contains(found, c.want+": ") && c.want != "" {
			t.Errorf("%s: want %q, found %q", c.name, c.want, found)
		}
	}
}

// The rows of one worker at two routers and its server's counters, before and after ten requests.
func TestCreditFindsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(row *ctl.WorkerState, router, server bed.Samples)
		allow      allowance
	}{
		{"nothing wrong", "", func(*ctl.WorkerState, bed.Samples, bed.Samples) {}, allowance{}},
		{"sent and not counted", "R-108", func(_ *ctl.WorkerState, router, _ bed.Samples) { router[0].Value++ }, allowance{}},
		{"outstanding is something else", "R-108", func(row *ctl.WorkerState, _, _ bed.Samples) { row.Outstanding++ }, allowance{}},
		{"done and not served", "R-109", func(_ *ctl.WorkerState, _, server bed.Samples) { server[0].Value-- }, allowance{}},
		{"lost, and nothing was", "R-111", func(row *ctl.WorkerState, router, _ bed.Samples) {
			row.Sent, row.Lost, router[0].Value = row.Sent+1, 1, 11
		}, allowance{}},
		{"lost by the network", "", func(row *ctl.WorkerState, router, _ bed.Samples) {
			row.Sent, row.Lost, router[0].Value = row.Sent+1, 1, 11
		}, allowance{timeouts: true}},
	} {
		router, server := &bed.Process{}, &bed.Process{}
		w := &world{v: Variant{Build: "release"}, routers: []*bed.Process{router}, servers: []*bed.Process{server}}
		state := func(count uint64) *snapshot {
			n := float64(count)
			return &snapshot{
				process: map[*bed.Process]bed.Samples{
					router: {{Name: "router_forwarded_total", Value: n}}, server: {{Name: "server_replies_total", Value: n}},
				},
				rows: map[*bed.Process][]ctl.WorkerState{router: {{Address: w.v.address(w.v.serverHost(0)), Sent: 5 + count, Done: 5 + count}}},
			}
		}
		before, after, v := state(0), state(10), &verdict{}
		c.change(&after.rows[router][0], after.process[router], after.process[server])
		w.checkCredit(v, before, after, c.allow)
		found := strings.Join(v.failures, "\n")
		if (c.want == "") != (found == "") || !strings.Contains(found, c.want) {
			t.Errorf("%s: want %q, found %q", c.name, c.want, found)
		}
	}
}

func TestStrangerMovesNothing(t *testing.T) {
	was := ctl.WorkerState{Sent: 9, Done: 8, Outstanding: 1, N: 2, Incarnation: 5}
	for name, change := range map[string]func(*ctl.WorkerState){
		"sent": func(m *ctl.WorkerState) { m.Sent++ }, "done": func(m *ctl.WorkerState) { m.Done++ },
		"lost": func(m *ctl.WorkerState) { m.Lost++ }, "outstanding": func(m *ctl.WorkerState) { m.Outstanding = 0 },
		"incarnation": func(m *ctl.WorkerState) { m.Incarnation = 6 }, "n": func(m *ctl.WorkerState) { m.N = 64 },
	} {
		v, is := &verdict{}, was
		sameCredit(v, "router", []ctl.WorkerState{was}, []ctl.WorkerState{is})
		if len(v.failures) != 0 {
			t.Errorf("nothing moved: %v", v.failures)
		}
		change(&is)
		if sameCredit(v, "router", []ctl.WorkerState{was}, []ctl.WorkerState{is}); len(v.failures) != 1 {
			t.Errorf("%s moved, and nobody says so", name)
		}
	}
}

func timeOut(l *load, _ *[]execution) {
	l.Completed, l.Timeouts = 1, 1
	l.outcomes[1].result = "timeout"
}

func dropOne(l *load) {
	l.Completed, l.Dropped = 1, 1
	l.outcomes[1].result = "dropped"
}

func TestFailoverTimeouts(t *testing.T) {
	l := &load{}
	for i, word := range strings.Fields("1A+ 1A- 2A- 1A- 2B+ 1B+ 1A- 2A- 1A+ 1A- 2A+") {
		sent := int64(100 * i) // each when the former had ended
		o := outcome{port: int(word[0] - '0'), router: word[1:2], result: "answered", sentMS: sent, endMS: sent + 50}
		if word[2] == '-' {
			o.result = "timeout"
		}
		l.outcomes = append(l.outcomes, o)
	}
	if most, at := failoverTimeouts(l); most != 3 || at != "port 1 at A" {
		t.Errorf("%d in a row (%s), want 3 (port 1 at A)", most, at)
	}
}

// A socket that has one router cannot leave it: that is no figure of fail-over.
func TestFailoverOfOneRouter(t *testing.T) {
	l := &load{}
	for i := range int64(9) {
		l.outcomes = append(l.outcomes, outcome{port: 1, router: "A", result: "timeout", sentMS: i, endMS: i})
	}
	for legacy, want := range map[bool]int{true: 0, false: 9} {
		r := &runner{w: &world{v: Variant{Legacy: legacy}}, total: &totals{}}
		r.checkFailover(&verdict{}, l)
		if r.total.failover != want {
			t.Errorf("legacy %v: %d timeouts are reported, want %d", legacy, r.total.failover, want)
		}
	}
}

// K-15: the least share of any load is the figure, one without any answer too.
func TestTheLeastShareBesideHalfOpenRequests(t *testing.T) {
	r, v := &runner{total: &totals{}}, &verdict{}
	of := func(completed, offered uint64) *load {
		return &load{tally: tally{Completed: completed, Offered: offered}}
	}
	r.checkAnswered(v, []*load{of(995, 1000), of(0, 1000), of(1000, 1000)})
	if got := 1 - r.total.unanswered; got != 0 || len(v.failures) != 1 {
		t.Errorf("%g, %v", got, v.failures)
	}
}

// A machine that stood still for a time-out has three requests of a socket end at once, behind which others are under way.
func TestFailoverTimeoutsUnderWay(t *testing.T) {
	l := &load{}
	for i := range int64(4) {
		l.outcomes = append(l.outcomes, outcome{router: "A", result: "timeout", sentMS: 100 * i, endMS: 400 + 100*i})
	}
	for _, sent := range []int64{300, 550, 600} {
		l.outcomes[3].sentMS = sent
		if most, _ := failoverTimeouts(l); most != 3 {
			t.Errorf("%d in a row, want 3: the fourth was sent at %d, before the third ended", most, sent)
		}
	}
	l.outcomes[3].sentMS, l.outcomes[3].endMS = 601, 1001
	if most, _ := failoverTimeouts(l); most != 4 {
		t.Errorf("%d in a row, want 4: the fourth was sent after the third had ended", most)
	}
	l.outcomes = append(l.outcomes, outcome{router: "A", result: "timeout", sentMS: 700, endMS: 1100})
	if most, _ := failoverTimeouts(l); most != 5 {
		t.Errorf("%d in a row, want 5: the fifth was sent after the third had ended", most)
	}
}

func TestDrawIsAFunctionOfTheSeed(t *testing.T) {
	v := Variant{Build: "release", Forwarding: "Encapsulated", Keys: true}
	for _, theme := range Themes {
		differs := false
		for seed := range uint64(50) {
			a, b := draw(v, theme, seed), draw(v, theme, seed)
			if a.String() != b.String() || len(a.rules) != len(b.rules) {
				t.Errorf("%s, seed %d: %s, then %s", theme, seed, a.String(), b.String())
			}
			if len(a.events) == 0 && len(a.rules) == 0 {
				t.Errorf("%s, seed %d injects nothing", theme, seed)
			}
			c := draw(v, theme, seed+1)
			differs = differs || c.String() != a.String() || len(a.rules) > 0 && a.rules[0].Chance != c.rules[0].Chance
		}
		if !differs && theme != "failover" {
			t.Errorf("%s: every seed injects the same", theme)
		}
	}
}

func TestVariants(t *testing.T) {
	for _, text := range []string{"release,ipv4,encapsulated,keys", "tsan,ipv6,transparent", "asan,ipv4,transparent,legacy", "asan,ipv6,encapsulated,keys,go", "tsan,ipv4,encapsulated,keys,split", "release,ipv4,encapsulated,keys,fastpath"} {
		v, err := ParseVariant(text)
		if err != nil || v.String() != text {
			t.Errorf("%q: %q, %v", text, v, err)
		}
	}
	if _, err := ParseVariant("release,ipx"); err == nil {
		t.Error("ipx is no variant")
	}
	for _, text := range []string{"release,ipv6,fastpath", "release,fastpath,split", "release,legacy,fastpath", "release,transparent,fastpath"} {
		if _, err := ParseVariant(text); err == nil {
			t.Errorf("%q: no router can do that", text)
		}
	}
}
