// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// places are where programs are at work: each holds one, and refuses what it is told to.
type places map[string]*ebpf.Program

func (p places) swap(program string, refuse func(*ebpf.Program) error) swap {
	return swap{program, "place of " + program, func(next *ebpf.Program) error {
		if err := refuse(next); err != nil {
			return err
		}
		p[program] = next
		return nil
	}}
}

// What cannot be exchanged as a whole is put back, and the error says what could not be.
func TestExchangeIsWholeOrPutBack(t *testing.T) {
	broken := errors.New("broken")
	next := map[string]*ebpf.Program{"a": {}, "b": {}, "c": {}}
	former := map[string]*ebpf.Program{"a": {}, "c": {}}
	take := func(*ebpf.Program) error { return nil }
	never := func(*ebpf.Program) error { return broken }
	gone := func(*ebpf.Program) error { return unix.ENOLINK }
	backFails := func(err error) func(*ebpf.Program) error {
		return func(p *ebpf.Program) error {
			if p == former["a"] {
				return err
			}
			return nil
		}
	}
	for _, c := range []struct {
		name  string
		swaps func(places) []swap
		a     *ebpf.Program // what is at work in the end
		says  []string
		not   string
	}{
		{"all", func(p places) []swap { return []swap{p.swap("a", take), p.swap("c", take)} }, next["a"], nil, ""},
		{"a device that went", func(p places) []swap { return []swap{p.swap("a", take), p.swap("c", gone)} }, next["a"], nil, ""},
		{"put back", func(p places) []swap { return []swap{p.swap("a", take), p.swap("c", never)} }, former["a"], []string{"exchange the program of place of c: broken"}, "put back"},
		{"its device went meanwhile", func(p places) []swap { return []swap{p.swap("a", backFails(unix.ENOLINK)), p.swap("c", never)} }, next["a"], []string{"exchange"}, "put back"},
		{"not put back", func(p places) []swap { return []swap{p.swap("a", backFails(broken)), p.swap("c", never)} }, next["a"], []string{"exchange", "put back the program of place of a: broken"}, ""},
		{"nothing to put back", func(p places) []swap { return []swap{p.swap("b", take), p.swap("a", never)} }, nil, []string{"exchange", "place of b keeps the new program"}, "put back"},
	} {
		p := places{}
		err := exchange(c.swaps(p), next, former)
		if (err != nil) != (c.says != nil) || p["a"] != c.a {
			t.Errorf("%s: %v, place a holds the program of before: %v, of after: %v", c.name, err, p["a"] == former["a"], p["a"] == next["a"])
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", c.name, err, want)
			}
		}
		if c.not != "" && strings.Contains(err.Error(), c.not) {
			t.Errorf("%s: %q tells of %q", c.name, err, c.not)
		}
	}
}

// Our own programs on one hook, in the order of their comment.
func TestProgramsOfOneHookHaveTheirOrder(t *testing.T) {
	for _, c := range [][2]string{
		{"crab_tunnel_in", "crab_watch_in"}, {"crab_watch_in", "crab_balance_in"}, {"crab_watch_in", "crab_server_in"}, {"crab_watch_out", "crab_client_out"},
		{"crab_watch_out", "crab_balance_out"}, {"crab_client_out", "crab_balance_out"}, {"crab_server_in", "crab_client_in"}, {"crab_server_out_pod", "crab_client_out_pod"},
	} {
		before, known := order[c[0]]
		after, alsoKnown := order[c[1]]
		if !known || !alsoKnown || before >= after {
			t.Errorf("%s (%d) comes before %s (%d)", c[0], before, c[1], after)
		}
	}
}
