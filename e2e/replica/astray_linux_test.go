// SPDX-License-Identifier: Apache-2.0

//go:build replica

package replica

import (
	"os"
	"path/filepath"
	"testing"
)

// One member executes a write otherwise than the others. They find it, it takes no part, gets the leader's state, and is
// one of them again; clients notice nothing.
func TestAstray(t *testing.T) {
	p := begin(t, 3, 3, Kind{})
	leader, astray := p.leader(), p.g.Members[0]
	if astray == leader {
		astray = p.g.Members[1]
	}
	astray.Kill()
	astray.Program = filepath.Join(build(), "tests", "run", "replica_astray")
	p.must(p.g.Start(astray))
	p.must(p.g.AwaitReady(p.g.Members...))
	p.round("astray", func() {
		p.must(until("writes at "+astray.Name, func() bool { return p.value(astray, "replica_executed_total", "write") >= 40 }))
	})
	// States are compared where a term begins.
	for _, event := range []string{"fenced", "mended"} {
		p.must(until(astray.Name+" "+event, func() bool {
			if l := p.g.Leader(); l != nil && p.value(astray, "replica_events_total", "fenced") == 0 {
				_ = p.g.Order(l, "transfer", nil)
			}
			return p.value(astray, "replica_events_total", event) >= 1
		}))
	}
	p.must(p.g.AwaitReady(p.g.Members...))
	p.same(p.g.Members...)
	for _, m := range p.g.Members {
		if n := p.value(m, "replica_events_total", "fenced"); m != astray && n != 0 {
			t.Errorf("%s was fenced %d times, and only %s went astray", m.Name, n, astray.Name)
		}
	}
}

// All members execute a write otherwise, each in a way of its own. Nobody knows whose state is right: the leader says
// so, nobody is fenced, and the group serves.
func TestAllAstray(t *testing.T) {
	p := begin(t, 3, 3, Kind{})
	for _, m := range p.g.Members {
		m.Kill()
		m.Program = filepath.Join(build(), "tests", "run", "replica_astray")
		p.must(p.g.Start(m))
		p.must(p.g.AwaitReady(p.g.Members...))
	}
	p.round("all astray", func() {
		p.must(until("writes at "+p.g.Members[0].Name, func() bool { return p.value(p.g.Members[0], "replica_executed_total", "write") >= 40 }))
	})
	p.must(until("the leader's word", func() bool {
		l := p.g.Leader()
		if l == nil {
			return false
		}
		if s := p.g.Status(l); s != nil && s.Undecided != 0 {
			return p.value(l, "replica_states_undecided_index", "") == s.Undecided && p.value(l, "replica_events_total", "states_undecided") >= 1
		}
		_ = p.g.Order(l, "transfer", nil) // states are compared where a term begins
		return false
	}))
	for _, m := range p.g.Members {
		if n := p.value(m, "replica_events_total", "fenced"); n != 0 {
			t.Errorf("%s was fenced %d times, and no majority has the same state", m.Name, n)
		}
	}
	p.round("after it", func() {})
}

// build is the folder of the C programs.
func build() string {
	wd, _ := os.Getwd()
	return filepath.Join(wd, "..", "..", "build", "dataplane")
}
