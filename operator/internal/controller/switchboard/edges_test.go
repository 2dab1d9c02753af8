// SPDX-License-Identifier: Apache-2.0

package switchboard

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// An answer is of one Service: neither the namespace alone nor the name alone is it.
func TestAnsweredIsOfOneService(t *testing.T) {
	b := New()
	b.Answer("leaf", []v1alpha1.SwitchService{{Namespace: "shop", Name: "db"}, {Namespace: "other", Name: "web"}, {Namespace: "shop", Name: "web", ConfigHash: "it"}}, true)
	for _, c := range []struct {
		namespace, name, hash string
		found                 bool
	}{{"shop", "web", "it", true}, {"shop", "none", "", false}, {"none", "web", "", false}} {
		if got, found, there := b.Answered("leaf", c.namespace, c.name); found != c.found || !there || got.ConfigHash != c.hash {
			t.Errorf("%s/%s: %+v, found %v, there %v", c.namespace, c.name, got, found, there)
		}
	}
}

// A group is the same one when each of its four parts is.
func TestSameGroup(t *testing.T) {
	g := Group{Switch: "leaf", At: netip.MustParseAddrPort("192.0.2.1:8000"), Cluster: 1, Number: 2}
	for name, change := range map[string]func(*Group){
		"switch":  func(o *Group) { o.Switch = "spine" },
		"address": func(o *Group) { o.At = netip.MustParseAddrPort("192.0.2.2:8000") },
		"cluster": func(o *Group) { o.Cluster++ },
		"number":  func(o *Group) { o.Number++ },
	} {
		o := g
		if change(&o); g.same(o) {
			t.Errorf("another %s is the same group", name)
		}
	}
	if o := g; !g.same(o) {
		t.Error("it is not the same as itself")
	}
}

// A load that is asked for again as it stands is no news; anything else about it is.
func TestLoadsThatAreNews(t *testing.T) {
	b := New()
	run := Run{Namespace: "lab", Name: "a", Switch: "leaf", Number: 1}
	b.AskRun(run)
	if got := news(b.Asks()); len(got) != 1 {
		t.Errorf("the first word reaches %q", got)
	}
	b.AskRun(run)
	if got := news(b.Asks()); len(got) != 0 {
		t.Errorf("nothing is new, and %q hear of it", got)
	}
	run.Number = 2
	b.AskRun(run)
	if got := news(b.Asks()); len(got) != 1 {
		t.Errorf("another run reaches %q", got)
	}
}

// Those who wait for a switch hear when it comes and when it goes, with an empty answer too, and of nothing in between.
func TestSwitchesThatComeAndGo(t *testing.T) {
	b := New()
	for n, c := range []struct {
		there bool
		heard int
	}{{false, 0}, {true, 1}, {true, 0}, {false, 1}, {false, 0}} {
		b.Answer("leaf", nil, c.there)
		if got := news(b.Replies()); len(got) != c.heard {
			t.Errorf("answer %d: heard %q, want %d", n, got, c.heard)
		}
	}
}

// A group that nobody ever led stands as it asked last, and a leader's word stands in the place of an older leader's.
func TestNewestWordOfAGroup(t *testing.T) {
	b := New()
	g := Group{Namespace: "shop", Name: "b", Switch: "leaf", Version: "one"}
	for n, c := range []struct {
		version      string
		known        bool
		stands, told string
	}{{"one", false, "one", "leaf"}, {"two", false, "two", "leaf"}, {"three", true, "three", "leaf"}, {"four", true, "four", "leaf"}, {"five", false, "four", ""}} {
		g.Version, g.Known = c.version, c.known
		got := b.AskGroup(g)
		if told := strings.Join(news(b.Asks()), ","); got.Version != c.stands || told != c.told {
			t.Errorf("word %d: %s stands, told to %q", n, got.Version, told)
		}
	}
}
