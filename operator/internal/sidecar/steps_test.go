// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// A clock that steps back a second is behind what was counted and is waited for; no second is counted again.
func TestAClockThatStepsBack(t *testing.T) {
	p := &plane{incarnation: 1, slices: map[uint64]int{}}
	path := filepath.Join(t.TempDir(), "ctl.sock")
	dp, err := ctl.Listen(path, p)
	if err != nil {
		t.Fatal(err)
	}
	defer dp.Close()
	l := &link{path: path}
	defer l.close()
	a := newAccumulator(l)
	for s := range uint64(200) {
		p.slices[s] = 1
	}
	for _, c := range []struct{ second, want uint64 }{
		{0, 0}, {1, 0}, {60, 0}, {61, 1}, {61, 1}, {60, 1}, {62, 2}, {61, 2}, {64, 4}, {2, 4}, {3, 4}, {9, 10},
	} {
		p.set(func(p *plane) { p.second = c.second })
		a.step(t.Context())
		got := uint64(0)
		if h, _ := a.total(); h != nil {
			got = h.Total()
		}
		if got != c.want {
			t.Errorf("at second %d: %d, want %d", c.second, got, c.want)
		}
	}
}

// logging is an applier without a dataplane, and what it says.
func logging() (*applier, *bytes.Buffer) {
	var text bytes.Buffer
	return newApplier(&link{path: "/none"}, slog.New(slog.NewTextHandler(&text, nil))), &text
}

// A refusal is counted each time and said when it is another one. A good configuration ends what was wrong with the one
// before it; what is wrong with the ConfigMap is told before what the dataplane refused.
func TestRefusalsThatAreRemembered(t *testing.T) {
	a, text := logging()
	broken := func(field string) *dataplane.ApplyError {
		return &dataplane.ApplyError{Code: codeIncomplete, Field: field, Hash: "h"}
	}
	said := func() int { defer text.Reset(); return strings.Count(text.String(), "configuration refused") }
	for n, c := range []struct {
		field string
		said  int
	}{{"a", 1}, {"a", 0}, {"b", 1}, {"b", 0}, {"a", 1}} {
		a.set(desired{bad: broken(c.field)})
		if v := a.view(); said() != c.said || v.refusals[codeIncomplete] != uint64(n+1) || v.last.Field != c.field || v.wanted {
			t.Errorf("refusal %d: %+v", n, v)
		}
	}
	a.refused(&a.last, &dataplane.ApplyError{Code: "Dataplane", Field: "c", Hash: "one"})
	if v := a.view(); v.last.Field != "a" || v.refusals["Dataplane"] != 1 {
		t.Errorf("%+v", v)
	}
	for _, c := range []struct{ hash, field string }{{"one", "c"}, {"one", "c"}, {"two", ""}} {
		a.set(desired{text: []byte("{}"), hash: c.hash})
		v := a.view()
		if got := v.last; !v.wanted || (got != nil) != (c.field != "") || got != nil && got.Field != c.field {
			t.Errorf("%s: %+v", c.hash, v.last)
		}
	}
	if len(a.wake) != 1 {
		t.Errorf("woken %d times", len(a.wake))
	}
	a.set(desired{bad: broken("d")})
	if v := a.view(); !v.wanted || v.last.Field != "d" {
		t.Error("a broken ConfigMap took a good one back")
	}
}

// Another incarnation is another life of the dataplane, and so is another process; the first one is no restart.
func TestLivesOfADataplane(t *testing.T) {
	a, text := logging()
	if a.lost(); text.Len() != 0 {
		t.Error("what was never there is missed")
	}
	for n, c := range []struct {
		incarnation uint64
		pid         int
		reborn      bool
		restarts    uint64
	}{{1, 1, true, 0}, {1, 1, false, 0}, {2, 1, true, 1}, {2, 2, true, 2}, {2, 2, false, 2}} {
		a.applied = "h"
		got := a.found(dataplane.Hello{Role: "router", Incarnation: c.incarnation, PID: c.pid})
		if v := a.view(); got != c.reborn || v.restarts != c.restarts || (v.applied == "") != c.reborn || v.role != "router" {
			t.Errorf("greeting %d: reborn %v, %+v", n, got, v)
		}
	}
	text.Reset()
	for n, want := range []int{1, 0} {
		a.lost()
		if v := a.view(); strings.Count(text.String(), "does not answer") != want || v.applied != "" || v.incarnation != 0 || v.role != "router" {
			t.Errorf("lost %d: %s, %+v", n, text, v)
		}
		text.Reset()
	}
	if a.applied = "h"; !a.found(dataplane.Hello{Role: "router", Incarnation: 2, PID: 2}) || a.view().restarts != 3 {
		t.Error("one that was away is the same life")
	}
}

// What the dataplane runs is told from what is wanted: only the wanted one says whose it is, and ends an error about it.
func TestWhatTheDataplaneRuns(t *testing.T) {
	a, _ := logging()
	want := desired{text: []byte(`{"sources":[{"kind":"RpcService","name":"echo"}],"keyIds":[7]}`), hash: "one"}
	a.refused(&a.last, &dataplane.ApplyError{Code: "c", Hash: "one"})
	for _, hash := range []string{"", "other"} {
		a.acknowledged(want, hash)
		if v := a.view(); v.applied != hash || v.last == nil || v.sources != nil {
			t.Errorf("%q: %+v", hash, v)
		}
	}
	if a.acknowledged(desired{}, ""); a.view().last == nil {
		t.Error("nothing runs, and an error has ended")
	}
	a.acknowledged(desired{text: []byte("{"), hash: "one"}, "one")
	if v := a.view(); v.applied != "one" || v.last != nil || v.sources != nil {
		t.Errorf("a text that cannot be read: %+v", v)
	}
	a.acknowledged(want, "one")
	if v := a.view(); len(v.sources) != 1 || !slices.Equal(v.keyIDs, []int{7}) {
		t.Errorf("%+v", v)
	}
	a.refused(&a.last, &dataplane.ApplyError{Code: "c", Hash: "two"})
	if a.acknowledged(want, "one"); a.view().last == nil {
		t.Error("an error about another configuration has ended")
	}
}

// watching is a watcher of what an API server says, and what it hands on.
func watching(t *testing.T, h http.HandlerFunc) (*watcher, *[]desired) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(" secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &[]desired{}
	k := &kubeClient{cluster: Cluster{URL: s.URL + "/", TokenFile: token}, namespace: "demo", name: "echo", http: s.Client()}
	return &watcher{kube: k, log: slog.New(slog.DiscardHandler), out: func(d desired) { *out = append(*out, d) }, health: &health{now: time.Now}}, out
}

// A ConfigMap that is not there is told as that, and is followed from nothing; a watch from a version that is too old ends
// without an error, and any other refusal is one.
func TestRoundsOfAWatch(t *testing.T) {
	const one = `{"metadata":{"resourceVersion":"9"},"data":{}}`
	for what, c := range map[string]struct {
		get, watch   int
		body, query  string
		handed, fail bool
	}{
		"not there":    {http.StatusNotFound, http.StatusOK, "{}", "", true, false},
		"there":        {http.StatusOK, http.StatusOK, one, "9", true, false},
		"too old":      {http.StatusOK, http.StatusGone, one, "9", true, false},
		"forbidden":    {http.StatusForbidden, http.StatusOK, "{}", "none", false, true},
		"not followed": {http.StatusOK, http.StatusForbidden, one, "9", true, true},
		"garbled":      {http.StatusOK, http.StatusOK, "{", "none", false, true},
	} {
		query := "none"
		w, out := watching(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer secret" {
				t.Errorf("%s: the token is %q", what, r.Header.Get("Authorization"))
			}
			if r.URL.Query().Get("watch") == "" {
				w.WriteHeader(c.get)
				_, _ = w.Write([]byte(c.body))
				return
			}
			query = r.URL.Query().Get("resourceVersion")
			w.WriteHeader(c.watch)
		})
		err := w.round(t.Context())
		if (err != nil) != c.fail || (len(*out) == 1) != c.handed || query != c.query {
			t.Errorf("%s: %v, handed on %+v, followed from %q", what, err, *out, query)
		}
		if c.get == http.StatusNotFound && (*out)[0].bad.Code != codeMissing {
			t.Errorf("%s: %+v", what, (*out)[0].bad)
		}
	}
}

// An event hands on what it brings; what is no ConfigMap, and what the API server calls an error, ends the watch.
func TestEventsOfAWatch(t *testing.T) {
	for _, c := range []struct {
		kind, object, code, fails string
	}{
		{"ADDED", `{"data":{}}`, codeIncomplete, ""}, {"MODIFIED", `{"data":{"config.json":"{}","hash":"x"}}`, codeHashMismatch, ""}, {"DELETED", `{}`, codeMissing, ""},
		{"BOOKMARK", `{}`, "", ""}, {"SOMETHING", `{}`, "", ""}, {"ADDED", `[]`, "", "decode a watch event"}, {"ERROR", `{"code":410,"message":"old"}`, "", "410 Gone: old"},
	} {
		w, out := watching(t, http.NotFound)
		err := w.event(watchEvent{Type: c.kind, Object: json.RawMessage(c.object)})
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s %s: %v", c.kind, c.object, err)
		}
		if len(*out) > 1 || (len(*out) == 1) != (c.code != "") || c.code != "" && (*out)[0].bad.Code != c.code {
			t.Errorf("%s %s: handed on %+v", c.kind, c.object, *out)
		}
	}
}

// A refusal of the API server's is in its words where it has some, and as it came where it has none.
func TestRefusalsOfAnAPIServer(t *testing.T) {
	for body, want := range map[string]string{`{"message":"no"}`: "no", `{"message":""}`: `{"message":""}`, " plain\n": "plain", `{}`: "{}"} {
		err := readStatus(http.StatusForbidden, strings.NewReader(body))
		if err.Error() != "API server: 403 Forbidden: "+want || !hasStatus(err, http.StatusForbidden) || hasStatus(err, http.StatusGone) {
			t.Errorf("%s: %v", body, err)
		}
	}
	if hasStatus(errors.New("no"), 0) {
		t.Error("any error has a status")
	}
}
