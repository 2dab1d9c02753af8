// SPDX-License-Identifier: Apache-2.0

package switchboard

import (
	"strings"
	"testing"
	"time"
)

// Groups are asked for by their newest word; one that nobody leads keeps the members that it had, unless it is another one.
func TestGroupsOnTheBoard(t *testing.T) {
	b := New()
	if all, told := b.Groups("leaf"); told || all != nil {
		t.Error("somebody has asked already")
	}
	older := Group{Namespace: "shop", Name: "a", Switch: "leaf", Created: time.Unix(1, 0), Cluster: 9}
	known := Group{Namespace: "shop", Name: "b", Switch: "leaf", Created: time.Unix(2, 0), Cluster: 8, Known: true, Epoch: 3, Version: "one"}
	unknown := known
	unknown.Known, unknown.Epoch, unknown.Version = false, 0, ""
	b.AskGroup(known)
	b.AskGroup(older)
	b.ToldGroups()
	if got := strings.Join(news(b.Asks()), ","); got != "leaf,leaf," {
		t.Errorf("told %q", got)
	}
	b.ToldGroups()
	if got := b.AskGroup(unknown); !got.Known || got.Epoch != 3 {
		t.Errorf("without a leader %+v stands", got)
	}
	if got := news(b.Asks()); len(got) != 0 {
		t.Errorf("nothing is new, and %q hear of it", got)
	}
	all, told := b.Groups("leaf")
	if !told || len(all) != 2 || all[0].Name != "a" || all[1].Version != "one" {
		t.Errorf("%+v", all)
	}
	heir := unknown
	heir.Cluster = 7 // made anew under the same name
	if got := b.AskGroup(heir); got.Known {
		t.Errorf("another group has the members of the one before: %+v", got)
	}
	heir.Switch = "spine"
	news(b.Asks())
	b.AskGroup(heir)
	if got := strings.Join(news(b.Asks()), ","); got != "spine,leaf" {
		t.Errorf("a group that moves is told to %q", got)
	}
	b.WithdrawGroup("shop/b", false)
	b.WithdrawGroup("shop/b", false)
	if all, _ := b.Groups("spine"); len(all) != 0 {
		t.Errorf("withdrawn, and there is %+v", all)
	}
	if got := strings.Join(news(b.Asks()), ","); got != "spine" {
		t.Errorf("told %q", got)
	}
	var nobody *Board
	nobody.ToldGroups()
	nobody.WithdrawGroup("shop/b", false)
	if all, told := nobody.Groups("leaf"); !told || all != nil || nobody.AskGroup(known).Version != "one" {
		t.Error("without switches somebody is waited for")
	}
}
