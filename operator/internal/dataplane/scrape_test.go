// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// sidecarThat answers every request with one status and text.
func sidecarThat(t *testing.T, patience time.Duration, h http.HandlerFunc) (*Client, Target) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := NewClient(func() (Credentials, error) {
		return Credentials{Certificate: s.TLS.Certificates[0], Roots: roots}, nil
	}, patience)
	t.Cleanup(c.CloseIdle)
	return c, Target{Address: s.Listener.Addr().String(), ServerName: "example.com"}
}

func text(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// A pod may answer anything; the operator sorts it by what can be done about it.
func TestReadErrorsAreTyped(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		kind    ReadKind
		field   string
	}{
		{"not JSON", text(200, "hello"), Garbled, ""},
		{"no histogram", text(200, `{"v":1,"ok":true}`), Garbled, ""},
		{"histogram that does not add up", text(200, `{"histogram":{"encoding":"ll7","total":5}}`), Garbled, ""},
		{"endless", text(200, strings.Repeat(" ", maxAnswer+1)), Garbled, ""},
		{"refusal", text(400, `{"v":1,"ok":false,"error":{"code":"InvalidRequest","field":"name","message":"no"}}`), Refused, "name"},
		{"refusal without text", text(503, ""), Refused, ""},
		{"redirect is not followed", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere/", http.StatusFound)
		}, Refused, ""},
		{"silence", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-release:
			}
			panic(http.ErrAbortHandler) // returning would be an empty answer, which may still overtake the client's patience
		}, Unreachable, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			patience := time.Minute
			if c.kind == Unreachable {
				patience = 300 * time.Millisecond
			}
			client, target := sidecarThat(t, patience, c.handler)
			_, err := client.Histogram(t.Context(), target, "latency", 30)
			var e *ReadError
			if !errors.As(err, &e) || e.Kind != c.kind || e.Target != target {
				t.Fatalf("%v, want kind %s", err, c.kind)
			}
			if c.field != "" && (e.Refusal == nil || e.Refusal.Field != c.field) {
				t.Errorf("refusal %+v", e.Refusal)
			}
		})
	}
}

func TestReadTrusts(t *testing.T) {
	client, target := sidecarThat(t, time.Minute, text(200, `{"role":"router","appliedHash":"x","lastError":null,"dataplane":null}`))
	st, err := client.State(t.Context(), target)
	if err != nil || st.Role != "router" || st.AppliedHash != "x" {
		t.Errorf("%+v %v", st, err)
	}
	other := target
	other.ServerName = SidecarServerName("echo", "demo")
	client.CloseIdle()
	var e *ReadError
	if _, err := client.State(t.Context(), other); !errors.As(err, &e) || e.Kind != Untrusted {
		t.Errorf("certificate of another service: %v", err)
	}
	broken := NewClient(func() (Credentials, error) { return Credentials{}, errors.New("no Secret") }, 0)
	if _, err := broken.State(t.Context(), target); !errors.As(err, &e) || e.Kind != Untrusted || !strings.Contains(err.Error(), "no Secret") {
		t.Errorf("no credentials: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Counters(ctx, target); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestTarget(t *testing.T) {
	if got := NewTarget("fd00::1", "echo", "demo"); got.Address != "[fd00::1]:9443" || got.ServerName != "echo.demo.sidecar.bobtail.dev" {
		t.Errorf("%+v", got)
	}
}

// An agent may answer anything, too.
func TestConnects(t *testing.T) {
	const empty = `{"encoding":"ll7","total":0,"inf":0,"sumNanoseconds":0,"buckets":[]}`
	for _, c := range []struct {
		name, body string
		kind       ReadKind
	}{
		{"whole", `{"window":{"histogram":` + empty + `},"record":{"started":"2026-01-02T03:04:05Z","all":{"latency":` + empty + `}}}`, ""},
		{"no window", `{"record":{"started":"2026-01-02T03:04:05Z","all":{"latency":` + empty + `}}}`, Garbled},
		{"no part", `{"window":{"parts":[null],"histogram":` + empty + `},"record":{"started":"2026-01-02T03:04:05Z","all":{"latency":` + empty + `}}}`, Garbled},
		{"no beginning", `{"window":{"histogram":` + empty + `}}`, Garbled},
		{"no record", `{"window":{"histogram":` + empty + `},"record":{"started":"2026-01-02T03:04:05Z"}}`, Garbled},
	} {
		var asked string
		client, target := sidecarThat(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
			asked = r.URL.String()
			_, _ = w.Write([]byte(c.body))
		})
		_, err := client.Connects(t.Context(), target, "demo", "web", 30, 10)
		var e *ReadError
		if c.kind == "" && err != nil || c.kind != "" && (!errors.As(err, &e) || e.Kind != c.kind) {
			t.Errorf("%s: %v, want %q", c.name, err, c.kind)
		}
		if asked != "/v1/connects?namespace=demo&parts=10&service=web&windowSeconds=30" {
			t.Errorf("asked %s", asked)
		}
	}
	if got := AgentTarget("fd00::1", 9442); got.Address != "[fd00::1]:9442" || got.ServerName != "agent.bobtail.dev" {
		t.Errorf("%+v", got)
	}
}

// A history is whole when each of its windows is; one that has not begun holds nothing.
func TestHistoriesThatLackSomething(t *testing.T) {
	begun, some := time.Unix(1, 0), HistoryWindow{Latency: &Histogram{}}
	for name, c := range map[string]struct {
		h     History
		whole bool
	}{
		"not begun":         {History{Windows: []HistoryWindow{{}}}, true},
		"all of it":         {History{Started: begun, All: some}, true},
		"two windows":       {History{Started: begun, All: some, Windows: []HistoryWindow{some, some}}, true},
		"without the whole": {History{Started: begun, Windows: []HistoryWindow{some}}, false},
		"first lacks":       {History{Started: begun, All: some, Windows: []HistoryWindow{{}, some}}, false},
		"second lacks":      {History{Started: begun, All: some, Windows: []HistoryWindow{some, {}}}, false},
	} {
		if err := c.h.check(); (err == nil) != c.whole {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An answer of the greatest length is read, and who waits for no time given waits two seconds.
func TestTheLongestAnswer(t *testing.T) {
	const answer = `{"role":"router"}`
	client, target := sidecarThat(t, time.Minute, text(200, answer+strings.Repeat(" ", maxAnswer-len(answer))))
	if st, err := client.State(t.Context(), target); err != nil || st.Role != "router" {
		t.Errorf("%+v, %v", st, err)
	}
	for given, want := range map[time.Duration]time.Duration{-1: 2 * time.Second, 0: 2 * time.Second, 1: 1} {
		if got := NewClient(nil, given).timeout; got != want {
			t.Errorf("%v: %v, want %v", given, got, want)
		}
	}
}
