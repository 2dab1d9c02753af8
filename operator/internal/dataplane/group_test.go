// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"bytes"
	"strings"
	"testing"
)

func aGroup() *GroupConfig {
	return &GroupConfig{
		APIVersion: ConfigAPIVersion, Kind: KindGroup, Sources: []Source{{Kind: "ReplicationGroup", Namespace: "shop", Name: "orders", UID: "u", Generation: 3}},
		Group: Group{Name: "orders", Namespace: "shop", Cluster: strings.Repeat("1", 32), Number: 7, Storage: "Always", DeviceProfile: "Kernel",
			ElectionMilliseconds: 300, HeartbeatMilliseconds: 60, LogEntries: 16384, SnapshotEntries: 4096, MaxSnapshotBytes: 1 << 24, InFlightLimit: 1000},
		InitialMembers: []string{"b", "a"},
		Members: []GroupMember{
			{Name: "b", ID: 2, Address: "10.0.0.2", MemberPort: 8100, ClientPort: 8000}, {Name: "a", ID: 1, Address: "10.0.0.1", MemberPort: 8100, ClientPort: 8000},
		},
		KeyIDs: []int{2, 1},
	}
}

// What stands beside members is in the text where there is some, and only there; boxes in
// the order of their names.
func TestGroupDocumentBesideMembers(t *testing.T) {
	c := aGroup()
	text, _, err := RenderGroup(c)
	if err != nil || strings.Contains(string(text), "boxes") || strings.Contains(string(text), "aggregator") || strings.Contains(string(text), "protocol") {
		t.Errorf("%v: a Raft group's document: %s", err, text)
	}
	c.Group.Protocol, c.Group.Repliers, c.Group.ReplierBound = "HovercRaftPlusPlus", "Random", 9
	c.Boxes = []GroupBox{{Name: "b", Address: "10.0.1.2", ClientPort: 8000, FeedbackPort: 9000}, {Name: "a", Address: "10.0.1.1", ClientPort: 8000, FeedbackPort: 9000}}
	c.Aggregator = &GroupAggregator{Name: "g", Address: "10.0.2.1", Port: 8300}
	text, _, err = RenderGroup(c)
	if err != nil || c.Boxes[0].Name != "b" {
		t.Fatal(err)
	}
	back, err := ParseGroup(text)
	if err != nil || len(back.Boxes) != 2 || back.Boxes[0].Name != "a" || back.Aggregator.Port != 8300 || back.Group.ReplierBound != 9 {
		t.Errorf("%v %+v", err, back)
	}
	c.Boxes = make([]GroupBox, MaxGroupBoxes)
	if _, _, err := RenderGroup(c); err != nil {
		t.Errorf("as many boxes as there may be: %v", err)
	}
	c.Boxes = make([]GroupBox, MaxGroupBoxes+1)
	if _, _, err := RenderGroup(c); err == nil || !strings.Contains(err.Error(), "boxes") {
		t.Errorf("too many boxes: %v", err)
	}
}

// Equal documents give equal bytes; the order of keys says which one signs.
func TestGroupDocument(t *testing.T) {
	c := aGroup()
	text, hash, err := RenderGroup(c)
	if err != nil {
		t.Fatal(err)
	}
	if c.Members[0].Name != "b" || c.InitialMembers[0] != "b" {
		t.Error("the document that was rendered is another one now")
	}
	swapped := aGroup()
	swapped.Members[0], swapped.Members[1] = swapped.Members[1], swapped.Members[0]
	again, hash2, err := RenderGroup(swapped)
	if err != nil || !bytes.Equal(text, again) || hash != hash2 || hash != HashConfig(text) {
		t.Errorf("%v\n%s\n%s", err, text, again)
	}
	back, err := ParseGroup(text)
	if err != nil || back.Members[0].ID != 1 || back.InitialMembers[0] != "a" || back.KeyIDs[0] != 2 || back.Group.Number != 7 {
		t.Errorf("%v %+v", err, back)
	}
	head, err := ParseHead(text)
	if err != nil || len(head.Sources) != 1 || head.Sources[0].Generation != 3 || len(head.KeyIDs) != 2 {
		t.Errorf("%v %+v", err, head)
	}
	none := &GroupConfig{APIVersion: ConfigAPIVersion, Kind: KindGroup}
	if text, _, _ := RenderGroup(none); strings.Contains(string(text), "null") {
		t.Errorf("absent lists are not empty ones: %s", text)
	}
}

func TestGroupDocumentsThatAreNone(t *testing.T) {
	for _, text := range []string{"", "{", `{"kind": "RpcService"}`, `{"kind": "ReplicationGroup", "more": 1}`, `[]`} {
		if doc, err := ParseGroup([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, doc)
		}
	}
	c := aGroup()
	c.Members = make([]GroupMember, MaxGroupBook)
	if _, _, err := RenderGroup(c); err != nil {
		t.Errorf("a full book: %v", err)
	}
	c = aGroup()
	for i := range MaxGroupBook {
		c.Members = append(c.Members, GroupMember{Name: "x", ID: i + 10})
	}
	if _, _, err := RenderGroup(c); err == nil || !strings.Contains(err.Error(), "members: must have at most 16") {
		t.Errorf("a book of 18: %v", err)
	}
}

// G-7: a sidecar hands on four commands and nothing else.
func TestReadChange(t *testing.T) {
	for text, field := range map[string]string{
		`{"op":"add","id":4,"name":"n","address":"10.0.0.4","memberPort":8100,"clientPort":8000}`: "",
		`{"op":"promote","id":4}`: "", `{"op":"remove","id":65534}`: "", `{"op":"transfer","id":0}`: "", `{"op":"transfer"}`: "",
		`{"op":"leave","id":4}`: "op", `{"op":"apply","id":1}`: "op", `{"op":""}`: "op", `{"op":"group","id":1}`: "op",
		`{"op":"promote","id":0}`: "id", `{"op":"remove","id":65535}`: "id", `{"op":"remove","id":-1}`: "id",
		`{"op":"remove","id":1,"force":true}`: "*", `{`: "*", ``: "*", `{"op":"remove","id":1}{"op":"remove","id":2}`: "*", `{"op":"remove","id":1}]`: "*", `{"op":"remove","id":1,"name":"` + strings.Repeat("x", 5000) + `"}`: "*",
	} {
		_, refused := ReadChange(strings.NewReader(text))
		switch {
		case field == "" && refused != nil, field == "*" && (refused == nil || refused.Field != ""), field != "" && field != "*" && (refused == nil || refused.Field != field):
			t.Errorf("%.60s: %+v, want field %q", text, refused, field)
		}
	}
}

// A command is as long as it may be, or one byte longer.
func TestLengthOfAChange(t *testing.T) {
	const head, tail = `{"op":"remove","id":1`, `}`
	for _, c := range []struct {
		length int
		taken  bool
	}{{maxChange, true}, {maxChange + 1, false}} {
		text := head + strings.Repeat(" ", c.length-len(head)-len(tail)) + tail
		if _, refused := ReadChange(strings.NewReader(text)); (refused == nil) != c.taken {
			t.Errorf("%d bytes: %+v", c.length, refused)
		}
	}
}
