// SPDX-License-Identifier: Apache-2.0

package switchboard

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

func news(from <-chan event.GenericEvent) (names []string) {
	for {
		select {
		case e := <-from:
			names = append(names, e.Object.GetName())
		default:
			return names
		}
	}
}

// Who is asked something else hears of it, and nobody else; what is not known yet is told apart from nothing.
func TestBoard(t *testing.T) {
	b := New()
	if all, told := b.Asked("leaf"); told || all != nil {
		t.Error("somebody has asked already")
	}
	b.Ask(nil)
	if got := news(b.Asks()); len(got) != 1 || got[0] != "" {
		t.Errorf("the first word reaches %q", got)
	}
	web := crabplan.VIP{Switch: "leaf", Port: 80}
	b.Ask([]crabplan.VIP{web, {Port: 81}})
	b.Ask([]crabplan.VIP{web, {Port: 82}}) // of nodes
	if all, told := b.Asked("leaf"); !told || len(all) != 1 {
		t.Errorf("asked %v", all)
	}
	web.Port = 83
	b.Ask([]crabplan.VIP{web})
	b.Ask(nil)
	if got := news(b.Asks()); len(got) != 3 {
		t.Errorf("told %q, want leaf three times", got)
	}
	answer := []v1alpha1.SwitchService{{Namespace: "shop", Name: "web", ConfigHash: "one"}}
	if _, _, there := b.Answered("leaf", "shop", "web"); there {
		t.Error("a switch is there that never answered")
	}
	b.Answer("leaf", answer, true)
	b.Answer("leaf", answer, true)
	if s, found, there := b.Answered("leaf", "shop", "web"); !found || !there || s.ConfigHash != "one" {
		t.Errorf("answered %+v", s)
	}
	b.Answer("leaf", nil, false)
	if got := news(b.Replies()); len(got) != 2 {
		t.Errorf("heard %q", got)
	}
	late, early := Run{Namespace: "a", Name: "z", Switch: "leaf", Created: time.Unix(2, 0)}, Run{Namespace: "a", Name: "y", Switch: "leaf", Created: time.Unix(1, 0)}
	b.AskRun(late)
	b.AskRun(early)
	b.AskRun(early)
	if all := b.Runs("leaf"); len(all) != 2 || all[0].Name != "y" || len(b.Runs("other")) != 0 {
		t.Errorf("%+v", all)
	}
	b.WithdrawRun("a/y")
	b.WithdrawRun("a/y")
	if got := news(b.Asks()); len(b.Runs("leaf")) != 1 || len(got) != 3 {
		t.Errorf("%d runs, told %q", len(b.Runs("leaf")), got)
	}
	var none *Board
	if all, told := none.Asked("leaf"); !told || all != nil || none.Runs("leaf") != nil {
		t.Error("where there is no board somebody asks")
	}
}
