// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ctl

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

const document = `{"apiVersion":"dataplane.bobtail.dev/v1","sources":[],` +
	`"service":{"name":"echo","namespace":"demo","placement":"Software","policy":"JBSQ","workerQueueDepth":3,"centralQueueLimit":65536,` +
	`"maxQueueMilliseconds":1000,"forwarding":"Encapsulated","deviceProfile":"Kernel","legacyPeers":"Deny","requestTimeoutMilliseconds":10000,` +
	`"workersPerReplica":2,"holdBack":{"packets":0,"microseconds":0}},"members":[],` +
	`"routers":[{"address":"127.0.0.1","requestPort":18000,"feedbackPort":19000,"name":"r"}],"keyIds":[1]}`

type fixture struct {
	server  *r2p2.Server
	options Options
	conn    net.Conn
}

func start(t *testing.T, dir string) *fixture {
	t.Helper()
	echo := func(_ context.Context, r *r2p2.ServerRequest) ([]byte, error) { return r.Payload, nil }
	s, err := r2p2.NewServer(r2p2.ServerConfig{Address: netip.MustParseAddr("127.0.0.1"), Workers: 2, Handler: r2p2.HandlerFunc(echo)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	f := &fixture{server: s, options: Options{
		Socket: filepath.Join(t.TempDir(), "ctl.sock"), KeyDir: dir, Cache: filepath.Join(dir, "cache.json"),
		Version: "1.2", Log: slog.New(slog.DiscardHandler),
	}}
	l, err := Serve(s, f.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if f.conn, err = net.Dial("unixpacket", f.options.Socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.conn.Close() })
	return f
}

// ask sends a text and decodes the answer into out.
func (f *fixture) ask(t *testing.T, text string, out any) {
	t.Helper()
	if _, err := f.conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	f.read(t, out)
}

func (f *fixture) read(t *testing.T, out any) {
	t.Helper()
	buf := make([]byte, 1<<18)
	n, err := f.conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(buf[:n], out); err != nil {
		t.Fatalf("%s: %v", buf[:n], err)
	}
}

func apply(text string) string {
	return `{"v":1,"op":"apply","hash":"` + config.Hash([]byte(text)) + `","config":` + text + `}`
}

// A Go server is configured, read and drained exactly as a C one is.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	f := start(t, dir)
	var hello Hello
	f.ask(t, `{"v":1,"op":"hello"}`, &hello)
	if !hello.OK || hello.Role != RoleServer || hello.Version != "1.2" || hello.Incarnation != uint64(f.server.Incarnation()) {
		t.Errorf("%+v", hello)
	}
	var refused Reply
	f.ask(t, apply(document), &refused)
	if refused.OK || refused.Error == nil || refused.Error.Field != "keyIds[0]" || refused.Error.Code != CodeInvalidConfig {
		t.Errorf("without the key file: %+v", refused.Error)
	}
	if err := os.WriteFile(filepath.Join(dir, "1"), []byte(strings.Repeat("ab", 16)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, unchanged := range []bool{false, true} {
		var applied Applied
		f.ask(t, apply(document), &applied)
		if !applied.OK || applied.Unchanged != unchanged || applied.Hash != config.Hash([]byte(document)) {
			t.Errorf("%+v, want unchanged %v", applied, unchanged)
		}
	}
	var st State
	f.ask(t, `{"v":1,"op":"state"}`, &st)
	if st.Hash != config.Hash([]byte(document)) || len(st.Workers) != 2 || st.Backlog == nil || *st.Backlog != 0 || st.Draining ||
		len(st.Routers) != 1 || st.Routers[0].Address != "127.0.0.1:18000" || st.Routers[0].HeardMillisecondsAgo != -1 {
		t.Errorf("%+v", st)
	}
	bad := strings.Replace(document, `"workerQueueDepth":3`, `"workerQueueDepth":99`, 1)
	f.ask(t, apply(bad), &refused)
	if refused.OK || refused.Error.Field != "service.workerQueueDepth" {
		t.Errorf("%+v", refused)
	}
	f.ask(t, `{"v":1,"op":"state"}`, &st)
	if st.Hash != config.Hash([]byte(document)) {
		t.Error("a refused configuration replaced the good one")
	}
	f.ask(t, `{"v":1,"op":"leave"}`, &refused)
	if !f.server.Leaving() {
		t.Error("leave did not reach the server")
	}
}

// A restarted container serves with no control plane.
func TestCacheSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "1"), []byte(strings.Repeat("ab", 16)), 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, dir)
	var applied Applied
	f.ask(t, apply(document), &applied)
	again := start(t, dir)
	var st State
	again.ask(t, `{"v":1,"op":"state"}`, &st)
	if st.Hash != config.Hash([]byte(document)) || len(again.server.Routers(0)) != 1 {
		t.Errorf("after a restart: %+v", st)
	}
	if err := os.WriteFile(filepath.Join(dir, "cache.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := start(t, dir)
	broken.ask(t, `{"v":1,"op":"state"}`, &st)
	if st.Hash != "" {
		t.Errorf("a broken cache gave %q", st.Hash)
	}
}

func TestHistogramsAndCounters(t *testing.T) {
	f := start(t, t.TempDir())
	c, err := r2p2.Dial(t.Context(), r2p2.ClientConfig{Targets: []string{f.server.Addrs()[0].String()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 10 {
		if _, err := c.Call(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{HistogramLatency, HistogramService} {
		h := Histogram{Histogram: &ll7.Histogram{}}
		// The reply is on its way a moment before the server has timed it.
		for end := time.Now().Add(time.Minute); h.Histogram.Total() < 10 && time.Now().Before(end); {
			h = Histogram{}
			f.ask(t, `{"v":1,"op":"histogram","name":"`+name+`","windowSeconds":30}`, &h)
		}
		if !h.OK || h.Source != SourceServer || h.Histogram.Total() != 10 || h.Second == 0 || h.CoveredSeconds < 1 {
			t.Errorf("%s: %+v", name, h)
		}
		if name == HistogramLatency && h.Requests != 10 {
			t.Errorf("%d requests arrived, want 10", h.Requests)
		}
	}
	var refused Reply
	f.ask(t, `{"v":1,"op":"histogram","name":"hold","windowSeconds":30}`, &refused)
	if refused.OK || refused.Error.Code != CodeUnknownHistogram {
		t.Errorf("%+v", refused)
	}
	var counters Counters
	f.ask(t, `{"v":1,"op":"counters"}`, &counters)
	found, labelled := false, false
	for _, s := range counters.Counters {
		found = found || s.Name == "server_replies_total" && s.Value == 10
		for label, value := range s.Labels {
			labelled = true
			if label == "" || value == "" {
				t.Errorf("%s has label %q with value %q", s.Name, label, value)
			}
		}
	}
	if !found || !labelled {
		t.Errorf("%+v", counters)
	}
}
