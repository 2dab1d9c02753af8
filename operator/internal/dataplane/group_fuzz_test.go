// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
)

// FuzzReadChange: what a sidecar hands on to a member is one JSON object, one of
// the four commands, with an id of the wire's; and it is read the same again.
func FuzzReadChange(f *testing.F) {
	for _, text := range []string{
		`{"op":"add","id":4,"name":"n","address":"10.0.0.4","memberPort":8100,"clientPort":8000}`,
		`{"op":"promote","id":4}`, `{"op":"remove","id":65534}`, `{"op":"transfer"}`, `{"v":1,"op":"transfer","id":0}`,
		`{"op":"remove","id":1}{"op":"remove","id":2}`, `{"op":"remove","id":1} x`, `{"op":"leave"}`, `[]`, `{"OP":"remove","ID":3}`, "{\"op\":\"add\",\"id\":1,\"name\":\"\xff\"}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, refused := ReadChange(bytes.NewReader(text))
		if refused != nil {
			if refused.Code == "" || refused.Message == "" {
				t.Fatalf("refused without a word: %+v", refused)
			}
			return
		}
		if len(text) > maxChange || !json.Valid(text) {
			t.Fatalf("taken, and no JSON value of at most %d bytes", maxChange)
		}
		if !slices.Contains([]string{"add", "promote", "remove", "transfer"}, c.Op) || c.ID < 0 || c.ID > MaxMemberNumber || c.ID == 0 && c.Op != "transfer" {
			t.Fatalf("taken: %+v", c)
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if twice, refused := ReadChange(bytes.NewReader(again)); len(again) <= maxChange && (refused != nil || twice != c) {
			t.Fatalf("%+v, and read again %+v %+v", c, twice, refused)
		}
	})
}
