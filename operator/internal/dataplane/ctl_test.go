// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
)

// memory is a dataplane that remembers what it was told.
type memory struct {
	mu     sync.Mutex
	hash   string
	refuse error
	left   bool
}

func (m *memory) refuseWith(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = err
}

func (m *memory) Hello() ctl.Hello {
	return ctl.Hello{Role: ctl.RoleRouter, Version: "0.2.0", Incarnation: 7, PID: 1}
}

func (m *memory) Apply(_ *config.Document, _ []byte, hash string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		return false, m.refuse
	}
	same := m.hash == hash
	m.hash = hash
	return same, nil
}

func (m *memory) State() ctl.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := ctl.State{Hash: m.hash, Draining: m.left, Queue: &ctl.QueueState{Limit: 5}}
	for i := range 1024 {
		s.Members = append(s.Members, ctl.WorkerState{Address: "10.0.0.1", Port: i, Joined: true})
	}
	if m.hash == "" {
		s.Members = s.Members[:1]
	}
	return s
}

func (m *memory) Counters() ctl.Counters {
	return ctl.Counters{Counters: []ctl.Sample{{Name: "router_dropped_total", Labels: map[string]string{"reason": "queue_full"}, Value: 3}}}
}

func (m *memory) Histogram(name string, window int, _ uint64) (ctl.Histogram, error) {
	if name != ctl.HistogramLatency {
		return ctl.Histogram{}, &ctl.Error{Code: ctl.CodeUnknownHistogram, Field: "name", Message: "must be latency"}
	}
	h := &Histogram{}
	h.Record(5000)
	return ctl.Histogram{Name: name, Source: ctl.SourceRouter, WindowSeconds: window, CoveredSeconds: 1, Histogram: h, Requests: 1}, nil
}

func (m *memory) Leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = true
}

func serve(t *testing.T, d ctl.Dataplane) (*Socket, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ctl.sock")
	l, err := ctl.Listen(path, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s, err := DialSocket(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, path
}

func document(members int) *Config {
	c := &Config{
		APIVersion: ConfigAPIVersion,
		Service: Service{
			Name: "echo", Namespace: "demo", Placement: "Software", Policy: "JBSQ", WorkerQueueDepth: 3,
			CentralQueueLimit: 65536, MaxQueueMilliseconds: 1000, Forwarding: "Encapsulated", DeviceProfile: "Kernel",
			LegacyPeers: "Deny", RequestTimeoutMilliseconds: 10000, WorkersPerReplica: 1,
		},
	}
	for i := range members {
		c.Members = append(c.Members, Member{
			Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), FirstPort: 8000, Workers: 1,
			Name: fmt.Sprintf("echo-server-with-a-rather-long-name-%04d", i),
		})
	}
	return c
}

// DESIGN §1 rule 3: the whole configuration travels in one message, by sealed
// memfd when it is too long for a packet.
func TestApplyInlineAndByMemfd(t *testing.T) {
	for _, members := range []int{0, 3, 1024} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			s, _ := serve(t, &memory{})
			text, hash, err := RenderConfig(document(members))
			if err != nil {
				t.Fatal(err)
			}
			if members == 1024 && len(text) <= ctl.MaxInline {
				t.Fatalf("%d bytes do not need a memfd", len(text))
			}
			for _, want := range []bool{false, true} {
				if unchanged, err := s.Apply(t.Context(), text, hash); err != nil || unchanged != want {
					t.Fatalf("apply: unchanged %v, %v; want %v", unchanged, err, want)
				}
			}
			st, err := s.State(t.Context())
			if err != nil || st.Hash != hash || len(st.Members) != 1024 {
				t.Fatalf("state after apply: %v %v", st, err)
			}
		})
	}
}

// A refusal names the field, and neither it nor nonsense costs the connection.
func TestRefusalsKeepTheConnection(t *testing.T) {
	d := &memory{}
	s, _ := serve(t, d)
	text, hash, _ := RenderConfig(document(1))
	bad := []byte(strings.Replace(string(text), `"workerQueueDepth":3`, `"workerQueueDepth":0`, 1))
	steps := []struct {
		name        string
		do          func() error
		code, field string
	}{
		{"bound", func() error { _, err := s.Apply(t.Context(), bad, HashConfig(bad)); return err }, ctl.CodeInvalidConfig, "service.workerQueueDepth"},
		{"hash", func() error { _, err := s.Apply(t.Context(), text, "00"); return err }, ctl.CodeHashMismatch, "hash"},
		{"not json", func() error { _, err := s.Apply(t.Context(), []byte("{"), "00"); return err }, ctl.CodeInvalidConfig, ""},
		{"dataplane", func() error {
			d.refuseWith(&config.FieldError{Code: "MissingKey", Field: "keyIds[0]", Message: "no such file"})
			defer d.refuseWith(nil)
			_, err := s.Apply(t.Context(), text, hash)
			return err
		}, "MissingKey", "keyIds[0]"},
		{"histogram", func() error { _, err := s.Histogram(t.Context(), "nope", 5); return err }, ctl.CodeUnknownHistogram, "name"},
		{"window", func() error { _, err := s.Histogram(t.Context(), "latency", 601); return err }, ctl.CodeInvalidRequest, "windowSeconds"},
		{"operation", func() error { _, err := call[State](t.Context(), s, ctl.Request{V: 1, Op: "reboot"}); return err }, ctl.CodeUnknownOperation, "op"},
		{"version", func() error { _, err := call[State](t.Context(), s, ctl.Request{V: 2, Op: "state"}); return err }, ctl.CodeUnsupportedVersion, "v"},
		{"garbage", func() error { _, err := exchange[State](t.Context(), s, []byte("\x00hello"), nil); return err }, ctl.CodeInvalidRequest, ""},
		{"oversize", func() error { _, err := exchange[State](t.Context(), s, make([]byte, 100_000), nil); return err }, ctl.CodeInvalidRequest, ""},
		{"no memfd", func() error {
			_, err := exchange[State](t.Context(), s, []byte(`{"v":1,"op":"apply","hash":"x","memfd":true,"size":5}`), nil)
			return err
		}, ctl.CodeInvalidRequest, "memfd"},
	}
	for _, step := range steps {
		var e *CtlError
		if err := step.do(); !errors.As(err, &e) || e.Code != step.code || e.Field != step.field || e.Message == "" {
			t.Errorf("%s: %v, want %s at %q", step.name, err, step.code, step.field)
		}
		if st, err := s.State(t.Context()); err != nil || st.Hash != "" {
			t.Fatalf("%s: the connection or the state did not survive: %v %v", step.name, st, err)
		}
	}
}

func TestReadsAndLeave(t *testing.T) {
	s, _ := serve(t, &memory{})
	h, err := s.Hello(t.Context())
	if err != nil || h.Role != ctl.RoleRouter || h.Incarnation != 7 {
		t.Errorf("hello %+v %v", h, err)
	}
	c, err := s.Counters(t.Context())
	if err != nil || len(c.Counters) != 1 || c.Counters[0].Labels["reason"] != "queue_full" || c.Counters[0].Value != 3 {
		t.Errorf("counters %+v %v", c, err)
	}
	hist, err := s.Histogram(t.Context(), ctl.HistogramLatency, 30)
	if err != nil || hist.Histogram.Total() != 1 || hist.WindowSeconds != 30 {
		t.Errorf("histogram %+v %v", hist, err)
	}
	if err := s.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	if st, err := s.State(t.Context()); err != nil || !st.Draining {
		t.Errorf("state after leave %+v %v", st, err)
	}
}

func TestListenReplacesOnlyADeadSocket(t *testing.T) {
	_, path := serve(t, &memory{})
	if _, err := ctl.Listen(path, &memory{}); err == nil {
		t.Fatal("two dataplanes on one socket")
	}
	dead := filepath.Join(t.TempDir(), "dead.sock")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: dead, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	again, err := ctl.Listen(dead, &memory{})
	if err != nil {
		t.Fatalf("a stale socket must be replaced: %v", err)
	}
	again.Close()
}

// A dataplane that hangs must not hang its caller.
func TestCallEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctl.sock")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := DialSocket(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := s.State(ctx); err == nil || time.Since(start) > time.Minute {
		t.Errorf("error %v after %v", err, time.Since(start))
	}
}

func TestSealedMemfdCannotChange(t *testing.T) {
	f, err := sealedMemfd([]byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("T"), 0); err == nil {
		t.Error("a sealed memfd took a write")
	}
	if err := f.Truncate(0); err == nil {
		t.Error("a sealed memfd was truncated")
	}
}

// An answer that cannot be read is told from one of another version, and both from a
// refusal.
func TestDecodeReplyRefusesOtherVersions(t *testing.T) {
	for text, want := range map[string]string{
		`{"v":2,"ok":true}`: "answers in version 2, this program speaks 1", `{"v":2,"ok":true,"hash":5}`: "answers in version 2",
		`{"v":1,"ok":false}`: "refused without an error", `no`: "decode the answer", `{}`: "answers in version 0",
		`{"v":1,"ok":true,"hash":5}`: "decode the answer", `{"v":1,"ok":false,"error":{"message":"m"},"hash":5}`: "m",
	} {
		if _, err := decodeReply[State]([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if out, err := json.Marshal(ctl.Applied{Hash: "x"}); err != nil || !strings.Contains(string(out), `"unchanged":false`) {
		t.Errorf("%s %v", out, err)
	}
}

// A member is asked in the words of its protocol, and what it says comes back.
func TestGroupOfAMember(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctl.sock")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan string, 2)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 4096)
		for _, answer := range []string{`{"v":1,"ok":true,"name":"a","term":4}`, `{"v":1,"ok":true,"index":9}`} {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			asked <- string(buf[:n])
			_, _ = c.Write([]byte(answer))
		}
	}()
	s, err := DialSocket(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if g, err := s.Group(t.Context()); err != nil || g.Name != "a" || g.Term != 4 {
		t.Errorf("%+v, %v", g, err)
	}
	if got := <-asked; got != `{"v":1,"op":"group"}` {
		t.Errorf("asked %s", got)
	}
	if done, err := s.Change(t.Context(), GroupChange{Op: OpRemove, ID: 3}); err != nil || done.Index != 9 {
		t.Errorf("%+v, %v", done, err)
	}
	if got := <-asked; got != `{"v":1,"op":"remove","id":3}` {
		t.Errorf("asked %s", got)
	}
}
