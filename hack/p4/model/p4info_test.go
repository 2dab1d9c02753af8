// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"strings"
	"testing"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// W-12: both shells have the same P4Info but for the name of the architecture, ids are of the source and unique.
func TestP4Info(t *testing.T) {
	var texts []string
	for _, shell := range []string{"v1model", "tna"} {
		p, err := model.Load("../../../dataplane/p4/router/"+shell+".p4", nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := p.P4InfoText()
		if err != nil {
			t.Fatal(err)
		}
		var info p4config.P4Info
		if err := prototext.Unmarshal([]byte(text), &info); err != nil {
			t.Fatal(err)
		}
		checkIDs(t, &info)
		info.PkgInfo = nil
		again, err := prototext.MarshalOptions{}.Marshal(&info)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, strings.Join(strings.Fields(string(again)), " "))
	}
	if texts[0] != texts[1] {
		t.Errorf("the shells differ:\n%s\n%s", texts[0], texts[1])
	}
}

func checkIDs(t *testing.T, info *p4config.P4Info) {
	seen := map[uint32]string{}
	check := func(prefix uint32, p *p4config.Preamble) {
		if seen[p.Id] != "" || p.Id>>24 != prefix {
			t.Errorf("id %#x of %s: taken by %q, or of another kind", p.Id, p.Name, seen[p.Id])
		}
		if p.Id&0xffffff > 0xf000 && p.Name != "NoAction" {
			t.Errorf("%s has no @id", p.Name)
		}
		seen[p.Id] = p.Name
	}
	for _, x := range info.Tables {
		check(2, x.Preamble)
	}
	for _, x := range info.Actions {
		check(1, x.Preamble)
	}
	for _, x := range info.Counters {
		check(0x12, x.Preamble)
	}
	if len(info.Tables) != 11 || len(info.Actions) != 15 || len(info.Counters) != 8 {
		t.Errorf("%d tables, %d actions, %d counters", len(info.Tables), len(info.Actions), len(info.Counters))
	}
}
