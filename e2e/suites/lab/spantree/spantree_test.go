// SPDX-License-Identifier: Apache-2.0

package spantree

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/clients/go/spans"
)

// What the product's exporter sends arrives, and grows into one tree a request.
func TestReceive(t *testing.T) {
	s := httptest.NewServer(&Receiver{})
	defer s.Close()
	exporter, err := spans.NewExporter(t.Context(), s.URL, "shop")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for id := uint64(1); id <= 3; id++ {
		exporter.Request(id, now, now.Add(time.Millisecond), "")
		for _, role := range []string{ctl.RoleRouter, ctl.RoleServer} {
			one := ctl.Trace{ID: "000000000000000" + string(rune('0'+id)), Worker: "10.0.0.1:8000", Client: "10.0.0.2:7000", Request: 7, StartNanoseconds: 1, MiddleNanoseconds: 2, EndNanoseconds: 3, Routed: true}
			if err := exporter.Dataplane(role, one, 4, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	if err := exporter.Close(ctx); err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get(s.URL + "/spans")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var got []Span
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	trees, err := Grow(got)
	if err != nil || trees.Whole != 3 || trees.Orphans != 0 || trees.Names["r2p2 router"] != 3 || len(got) != 12 || trees.From["r2p2 handler"][0] != "shop" {
		t.Errorf("%+v of %d spans, %v", trees, len(got), err)
	}
	bad, err := http.Post(s.URL+"/v1/traces", "application/x-protobuf", strings.NewReader("no OTLP"))
	if err != nil || bad.StatusCode != http.StatusBadRequest {
		t.Errorf("%v, %v", bad, err)
	}
}

func TestGrowFindsWhatIsWrong(t *testing.T) {
	chain := func() []Span {
		return []Span{
			{Trace: "t", ID: "1", Name: "r2p2 request", Start: 1, End: 9}, {Trace: "t", ID: "2", Parent: "1", Name: "r2p2 router", Start: 2, End: 8},
			{Trace: "t", ID: "3", Parent: "2", Name: "r2p2 server", Start: 3, End: 7}, {Trace: "t", ID: "4", Parent: "3", Name: "r2p2 handler", Start: 4, End: 6},
		}
	}
	for name, c := range map[string]struct {
		change         func(s []Span)
		whole, orphans int
		wrong          string
	}{
		"whole":                  {func([]Span) {}, 1, 0, ""},
		"no router":              {func(s []Span) { s[2].Parent = "1" }, 0, 0, ""},
		"parent of another":      {func(s []Span) { s[2].Trace, s[3].Trace = "u", "u" }, 0, 1, ""},
		"parent never came":      {func(s []Span) { s[1].Parent = "7" }, 0, 1, ""},
		"ends before it begins":  {func(s []Span) { s[3].End = 3 }, 0, 0, "ends before it begins"},
		"two of one id":          {func(s []Span) { s[3].ID = "3" }, 0, 0, "not its own"},
		"parents in a circle":    {func(s []Span) { s[0].Parent = "3" }, 0, 0, "circle"},
		"the same in two traces": {func(s []Span) { s[0].Trace, s[1].Trace = "u", "u" }, 0, 1, ""},
	} {
		s := chain()
		c.change(s)
		got, err := Grow(s)
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (got.Whole != c.whole || got.Orphans != c.orphans) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
