// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/clients/go/spans"
	"github.com/bobtail-dev/bobtail/clients/go/spans/otlptest"
	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// background runs a C program until the test ends.
func background(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(needs.CProgram(t, name), args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// configured is the ConfigMap of a service of one router and one server.
func configured(t *testing.T, request, feedback, server int) map[string]string {
	t.Helper()
	text, hash, err := dataplane.RenderConfig(&dataplane.Config{
		APIVersion: dataplane.ConfigAPIVersion,
		Service: dataplane.Service{
			Name: "echo", Namespace: "demo", Placement: "Software", Policy: "JBSQ", WorkerQueueDepth: 2, CentralQueueLimit: 65536,
			MaxQueueMilliseconds: 60_000, Forwarding: "Encapsulated", DeviceProfile: "Kernel", LegacyPeers: "Deny",
			RequestTimeoutMilliseconds: 10000, WorkersPerReplica: 1,
		},
		Members: []dataplane.Member{{Address: "127.0.0.1", FirstPort: server, Workers: 1, Name: "server"}},
		Routers: []dataplane.Router{{Address: "127.0.0.1", RequestPort: request, FeedbackPort: feedback, Name: "router"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"config.json": string(text), "hash": hash}
}

// R-59 through real programs: a Go client, the C router, the C server, and the
// sidecars of both. Each tells what it saw; the receiver decodes one tree for each
// traced request.
func TestSpansOfRealPrograms(t *testing.T) {
	request, feedback, server, dir := freePort(t), freePort(t), freePort(t), t.TempDir()
	background(t, "bobtail-router", "--address=127.0.0.1", fmt.Sprintf("--request-port=%d", request), fmt.Sprintf("--feedback-port=%d", feedback),
		"--ctl="+filepath.Join(dir, "router"))
	background(t, "bobtail-serve", "--address=127.0.0.1", fmt.Sprintf("--port=%d", server), "--workers=1", "--service-time=fixed:3ms",
		"--ctl="+filepath.Join(dir, "server"))
	receiver := otlptest.Start(t)
	var sidecars []*rig
	for _, name := range []string{"router", "server"} {
		r := startWith(t, filepath.Join(dir, name), func(o *Options) { o.OTLPEndpoint = receiver.URL })
		r.api.set(configured(t, request, feedback, server))
		sidecars = append(sidecars, r)
	}
	eventually(t, "the worker has joined", func() bool {
		return strings.Contains(sidecars[0].scrape(t), fmt.Sprintf(`bobtail_worker_eligible{`+whose+`,worker="127.0.0.1:%d"} 1`, server))
	})
	const requests = 5
	requestThrough(t, receiver, request, requests)
	for _, r := range sidecars {
		eventually(t, "the traces are counted", func() bool {
			return strings.Contains(r.scrape(t), fmt.Sprintf("bobtail_traces_sent_total{"+whose+"} %d", requests))
		})
		if err := r.stop(); err != nil { // and sends what is left
			t.Error(err)
		}
	}
	if names, _ := receiver.Services(); !strings.Contains(strings.Join(names, " "), "echo") {
		t.Errorf("services %v", names)
	}
	trees(t, receiver, requests)
}

// requestThrough sends as many traced requests as untraced ones.
func requestThrough(t *testing.T, receiver *otlptest.Receiver, router, requests int) {
	t.Helper()
	exporter, err := spans.NewExporter(t.Context(), receiver.URL, "shop")
	if err != nil {
		t.Fatal(err)
	}
	client, err := r2p2.Dial(t.Context(), r2p2.ClientConfig{Targets: []string{fmt.Sprintf("127.0.0.1:%d", router)}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	traced := &spans.Caller{Client: client, Exporter: exporter, Share: 1}
	for range requests {
		if _, err := client.Call(t.Context(), []byte("untraced")); err != nil {
			t.Fatal(err)
		}
		if _, err := traced.Do(t.Context(), &r2p2.Request{Payload: bytes.Repeat([]byte("x"), 4000)}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, done := context.WithTimeout(context.Background(), 30*time.Second)
	defer done()
	if err := exporter.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

func trees(t *testing.T, r *otlptest.Receiver, want int) {
	t.Helper()
	byID, all := map[string]*tracepb.Span{}, r.Spans()
	for _, list := range all {
		for _, s := range list {
			byID[string(s.SpanId)] = s
		}
	}
	for _, name := range []string{"r2p2 request", "r2p2 router", "r2p2 server", "r2p2 handler"} {
		if len(all[name]) != want {
			t.Errorf("%d spans %q, want %d", len(all[name]), name, want)
		}
	}
	for _, handler := range all["r2p2 handler"] {
		path := []string{handler.Name}
		for at := handler; len(at.ParentSpanId) > 0; path = append(path, at.Name) {
			parent := byID[string(at.ParentSpanId)]
			if parent == nil || !bytes.Equal(parent.TraceId, at.TraceId) {
				t.Fatalf("%s has no parent in its trace", at.Name)
			}
			at = parent
		}
		if got := strings.Join(path, " < "); got != "r2p2 handler < r2p2 server < r2p2 router < r2p2 request" {
			t.Errorf("path %s", got)
		}
		if took := handler.EndTimeUnixNano - handler.StartTimeUnixNano; took < 3e6 {
			t.Errorf("the handler took %d ns, and spends 3 ms", took)
		}
	}
}

// Without the flag nothing is asked for, and nothing sent.
func TestSpansAreOffByDefault(t *testing.T) {
	socket, port := filepath.Join(t.TempDir(), "ctl.sock"), freePort(t)
	background(t, "bobtail-serve", "--address=127.0.0.1", fmt.Sprintf("--port=%d", port), "--workers=1", "--ctl="+socket)
	r := startAt(t, socket)
	eventually(t, "the server answers", func() bool { return strings.Contains(r.scrape(t), "bobtail_dataplane_up{"+whose+"} 1") })
	if strings.Contains(r.scrape(t), "bobtail_traces") {
		t.Error("a sidecar without --otlp-endpoint counts traces")
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

func TestOTLPEndpointFlag(t *testing.T) {
	o, err := ParseFlags([]string{"--configmap=a/b", "--otlp-endpoint=http://collector:4318"}, nil)
	if err != nil || o.OTLPEndpoint != "http://collector:4318" {
		t.Errorf("%q, %v", o.OTLPEndpoint, err)
	}
}

// Traces that cannot be read are counted, named once, and hold up no others.
func TestTracesThatCannotBeRead(t *testing.T) {
	receiver := otlptest.Start(t)
	exporter, err := spans.NewExporter(t.Context(), receiver.URL, "s")
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	tracing := &tracer{exporter: exporter, log: slog.New(slog.NewTextHandler(&said, nil)), role: ctl.RoleRouter}
	good, bad := ctl.Trace{ID: "00000000000000aa", EndNanoseconds: 5}, ctl.Trace{ID: "none"}
	tracing.take(&ctl.Traces{Traces: []ctl.Trace{bad, good, bad, good, bad}, Next: 7, Lost: 2, NowNanoseconds: 9}, time.Now())
	tracing.take(&ctl.Traces{Traces: []ctl.Trace{good}, Next: 8, Lost: 1, NowNanoseconds: 9}, time.Now())
	if tracing.after != 8 || tracing.sent.Load() != 3 || tracing.bad.Load() != 3 || tracing.lost.Load() != 3 {
		t.Errorf("after %d, sent %d, bad %d, lost %d", tracing.after, tracing.sent.Load(), tracing.bad.Load(), tracing.lost.Load())
	}
	if n := strings.Count(said.String(), "cannot be read"); n != 1 {
		t.Errorf("named %d times:\n%s", n, &said)
	}
	if err := exporter.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
