// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// rig is a running sidecar between a fake API server and a dataplane.
type rig struct {
	api     *apiServer
	plane   *plane
	socket  string
	dp      *ctl.Listener
	ca      *authority
	tlsDir  string
	read    dataplane.Target
	metrics string
	stop    func() error
}

const service1 = "echo.demo.sidecar.bobtail.dev"

// start runs a sidecar in front of a dataplane made for tests.
func start(t *testing.T) *rig {
	t.Helper()
	before := &rig{plane: &plane{incarnation: 1}, socket: filepath.Join(t.TempDir(), "ctl.sock")}
	before.startPlane(t)
	r := startAt(t, before.socket)
	r.plane, r.dp = before.plane, before.dp
	t.Cleanup(func() { r.dp.Close() })
	return r
}

// startAt runs a sidecar in front of whatever listens at socket.
func startAt(t *testing.T, socket string) *rig {
	t.Helper()
	return startWith(t, socket, func(*Options) {})
}

func startWith(t *testing.T, socket string, change func(*Options)) *rig {
	t.Helper()
	r := &rig{ca: newAuthority(t), tlsDir: t.TempDir(), socket: socket}
	var cluster Cluster
	r.api, cluster = newAPIServer(t)
	r.ca.writeServing(t, r.tlsDir, service1)
	ready := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	o := Options{
		Socket: r.socket, Namespace: "demo", Name: "echo-dataplane", TLSDir: r.tlsDir, Cluster: cluster,
		Listen: "127.0.0.1:0", MetricsListen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
		Ready: func(read, metrics net.Addr) {
			r.read = dataplane.Target{Address: read.String(), ServerName: service1}
			r.metrics = "http://" + metrics.String()
			close(ready)
		},
	}
	change(&o)
	go func() { ended <- Run(ctx, o) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	r.stop = func() error { cancel(); return <-ended }
	t.Cleanup(cancel)
	return r
}

func (r *rig) startPlane(t *testing.T) {
	t.Helper()
	var err error
	if r.dp, err = ctl.Listen(r.socket, r.plane); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, depth int, keys ...int) (map[string]string, string) {
	t.Helper()
	c := &dataplane.Config{
		APIVersion: dataplane.ConfigAPIVersion,
		KeyIDs:     keys,
		Sources:    []dataplane.Source{{Kind: "RpcService", Namespace: "demo", Name: "echo", UID: "u", Generation: int64(depth)}},
		Service: dataplane.Service{
			Name: "echo", Namespace: "demo", Placement: "Software", Policy: "JBSQ", WorkerQueueDepth: depth, CentralQueueLimit: 65536,
			MaxQueueMilliseconds: 1000, Forwarding: "Encapsulated", DeviceProfile: "Kernel", LegacyPeers: "Deny",
			RequestTimeoutMilliseconds: 10000, WorkersPerReplica: 1,
		},
	}
	text, hash, err := dataplane.RenderConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"config.json": string(text), "hash": hash}, hash
}

// eventually fails the test when cond stays false for a minute.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if cond() {
			return
		}
	}
	t.Fatalf("not within a minute: %s", what)
}

func (r *rig) runs(hash string) func() bool {
	return func() bool { got, _ := r.plane.now(); return got == hash }
}

// DESIGN §1 rule 3, end to end: change → applied; restart of the dataplane →
// applied again; refusal → visible with its field while the old one serves.
func TestConfigurationReachesTheDataplane(t *testing.T) {
	r := start(t)
	operator := r.ca.client(t, dataplane.OperatorCommonName)
	if code := status(t, r.metrics+"/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("readyz without a configuration: %d", code)
	}
	one, hash1 := content(t, 3)
	r.api.set(one)
	eventually(t, "first configuration", r.runs(hash1))
	two, hash2 := content(t, 4)
	r.api.set(two)
	eventually(t, "changed configuration", r.runs(hash2))
	if code := status(t, r.metrics+"/readyz"); code != http.StatusOK {
		t.Errorf("readyz: %d", code)
	}

	r.plane.set(func(p *plane) {
		p.refuse = &ctl.Error{Code: "MissingKey", Field: "keyIds[0]", Message: "no file 1"}
	})
	r.api.set(one)
	eventually(t, "refusal in /v1/state", func() bool {
		st, err := operator.State(t.Context(), r.read)
		return err == nil && st.LastError != nil && st.LastError.Field == "keyIds[0]" && st.LastError.Hash == hash1 && st.AppliedHash == hash2
	})
	r.plane.set(func(p *plane) { p.refuse = nil })
	eventually(t, "retry after the cause is gone", r.runs(hash1))
	eventually(t, "error cleared", func() bool {
		st, err := operator.State(t.Context(), r.read)
		return err == nil && st.LastError == nil && st.AppliedHash == hash1 && st.Role == ctl.RoleRouter && st.Dataplane.Queue.Limit == 9
	})

	r.dp.Close()
	eventually(t, "dataplane down in /v1/state", func() bool {
		st, err := operator.State(t.Context(), r.read)
		return err == nil && st.Dataplane == nil && st.AppliedHash == "" && st.LastError != nil && st.LastError.Code == codeUnreachable
	})
	r.plane.set(func(p *plane) { p.hash = ""; p.incarnation++ })
	r.startPlane(t)
	eventually(t, "re-applied to the new incarnation", r.runs(hash1))
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if len(r.api.denied) > 0 {
		t.Errorf("asked for more than get and watch of its own ConfigMap: %v", r.api.denied)
	}
}

// A new incarnation gets its configuration again even when it kept the hash in
// its cache, because keys are read at apply.
func TestNewIncarnationIsConfiguredAgain(t *testing.T) {
	r := start(t)
	one, hash := content(t, 3)
	r.api.set(one)
	eventually(t, "configuration", r.runs(hash))
	_, before := r.plane.now()
	r.plane.set(func(p *plane) { p.incarnation++ })
	eventually(t, "another apply", func() bool { _, n := r.plane.now(); return n > before })
}

// Issue: operator, sidecars or API server down, RPCs keep flowing: an outage
// takes nothing away, and what changed meanwhile arrives afterwards.
func TestAPIServerOutage(t *testing.T) {
	r := start(t)
	one, hash1 := content(t, 3)
	r.api.set(one)
	eventually(t, "configuration", r.runs(hash1))
	r.api.outage(true)
	two, hash2 := content(t, 5)
	r.api.set(two)
	eventually(t, "failures counted", func() bool { return strings.Contains(r.scrape(t), "bobtail_config_watch_failures_total{"+whose+"} 1") })
	if hash, _ := r.plane.now(); hash != hash1 {
		t.Fatalf("the dataplane runs %q during the outage, want %q", hash, hash1)
	}
	r.api.outage(false)
	eventually(t, "the change made during the outage", r.runs(hash2))
}

// A ConfigMap that does not match its own hash, or is deleted, never reaches
// the dataplane.
func TestBrokenConfigMapKeepsTheLastGood(t *testing.T) {
	r := start(t)
	operator := r.ca.client(t, dataplane.OperatorCommonName)
	one, hash := content(t, 3)
	r.api.set(one)
	eventually(t, "configuration", r.runs(hash))
	for _, c := range []struct {
		name, code string
		data       map[string]string
	}{
		{"edited by hand", codeHashMismatch, map[string]string{"config.json": one["config.json"] + " ", "hash": hash}},
		{"no text", codeIncomplete, map[string]string{"hash": hash}},
		{"deleted", codeMissing, nil},
	} {
		r.api.set(c.data)
		eventually(t, c.name, func() bool {
			st, err := operator.State(t.Context(), r.read)
			return err == nil && st.LastError != nil && st.LastError.Code == c.code && st.AppliedHash == hash
		})
	}
	r.api.set(one)
	eventually(t, "error cleared", func() bool {
		st, err := operator.State(t.Context(), r.read)
		return err == nil && st.LastError == nil && st.AppliedHash == hash
	})
}

func TestOnlyTheOperatorMayRead(t *testing.T) {
	r := start(t)
	stranger := newAuthority(t)
	wrongName := r.read
	wrongName.ServerName = "other.demo.sidecar.bobtail.dev"
	for _, c := range []struct {
		name   string
		client *dataplane.Client
		target dataplane.Target
		want   dataplane.ReadKind
	}{
		{"operator", r.ca.client(t, dataplane.OperatorCommonName), r.read, ""},
		{"another sidecar's certificate", r.ca.client(t, service1), r.read, dataplane.Untrusted},
		{"another CA", stranger.client(t, dataplane.OperatorCommonName), r.read, dataplane.Untrusted},
		{"another service's sidecar", r.ca.client(t, dataplane.OperatorCommonName), wrongName, dataplane.Untrusted},
		{"nobody there", r.ca.client(t, dataplane.OperatorCommonName), dataplane.Target{Address: "127.0.0.1:1"}, dataplane.Unreachable},
	} {
		_, err := c.client.State(t.Context(), c.target)
		var e *dataplane.ReadError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &e) || e.Kind != c.want) {
			t.Errorf("%s: %v, want kind %q", c.name, err, c.want)
		}
	}
	resp, err := http.Get("https://" + r.read.Address + "/v1/state")
	if err == nil {
		resp.Body.Close()
		t.Error("no certificate at all was let in")
	}
}

// The operator rotates its CA without restarting pods.
func TestCertificatesAreReloaded(t *testing.T) {
	r := start(t)
	next := newAuthority(t)
	if _, err := next.client(t, dataplane.OperatorCommonName).State(t.Context(), r.read); err == nil {
		t.Fatal("the new CA is trusted before it is written")
	}
	write(t, filepath.Join(r.tlsDir, "tls.key"), []byte("half-written"))
	if _, err := r.ca.client(t, dataplane.OperatorCommonName).State(t.Context(), r.read); err != nil {
		t.Fatalf("half-written files must leave the last good ones in force: %v", err)
	}
	next.writeServing(t, r.tlsDir, service1)
	if _, err := next.client(t, dataplane.OperatorCommonName).State(t.Context(), r.read); err != nil {
		t.Errorf("new CA: %v", err)
	}
	if _, err := r.ca.client(t, dataplane.OperatorCommonName).State(t.Context(), r.read); err == nil {
		t.Error("the old CA is still trusted")
	}
}

func TestReads(t *testing.T) {
	r := start(t)
	operator := r.ca.client(t, dataplane.OperatorCommonName)
	r.plane.set(func(p *plane) { p.second, p.slices = 100, map[uint64]int{98: 4, 100: 1} })
	h, err := operator.Histogram(t.Context(), r.read, ctl.HistogramLatency, 30)
	if err != nil || h.Histogram.Total() != 5 || h.WindowSeconds != 30 || h.Source != ctl.SourceRouter {
		t.Errorf("histogram %+v %v", h, err)
	}
	if h.Parts != nil {
		t.Error("parts that nobody asked for")
	}
	c, err := operator.Counters(t.Context(), r.read)
	if err != nil || c.Counters[0].Value != 3 {
		t.Errorf("counters %+v %v", c, err)
	}
	for _, bad := range []struct {
		name   string
		window int
		field  string
	}{{"nope", 30, "name"}, {"latency", 0, "windowSeconds"}, {"latency", 601, "windowSeconds"}} {
		_, err := operator.Histogram(t.Context(), r.read, bad.name, bad.window)
		var e *dataplane.ReadError
		if !errors.As(err, &e) || e.Kind != dataplane.Refused || e.Status != 400 || e.Refusal == nil || e.Refusal.Field != bad.field {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// Every second that is over counts exactly once, whatever the polling times.
func TestAccumulatorCountsEachSecondOnce(t *testing.T) {
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
	want := uint64(0)
	for s := uint64(50); s < 300; s++ {
		p.set(func(p *plane) { p.second = s; p.slices[s] = int(s % 7) })
		if s > 50 && s <= 297 {
			want += s % 7 // the first look, at 52, starts after 50; the last, at 299, takes 297
		}
		if s == 52 || s > 52 && s%5 < 2 || s == 299 {
			a.step(t.Context())
		}
	}
	h, source := a.total()
	if h == nil || h.Total() != want || source != ctl.SourceRouter {
		t.Errorf("total %d, want %d", h.Total(), want)
	}
	p.set(func(p *plane) { p.second = 3; p.slices = map[uint64]int{} })
	a.step(t.Context())
	if again, _ := a.total(); again.Total() != want {
		t.Errorf("a clock that starts anew changed the sum to %d", again.Total())
	}
}

func (r *rig) scrape(t *testing.T) string {
	t.Helper()
	time.Sleep(time.Second / requestsEach) // within the port's pace
	resp, err := http.Get(r.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func status(t *testing.T, url string) int {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// Every metric of the sidecar's own stands in the page about them.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.FromSlash("../../../docs/reference/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	r := start(t)
	one, hash := content(t, 3)
	r.api.set(one)
	eventually(t, "configuration", r.runs(hash))
	r.plane.set(func(p *plane) { p.second, p.slices = 100, map[uint64]int{100: 3} })
	eventually(t, "histogram", func() bool { return strings.Contains(r.scrape(t), "bobtail_latency_seconds_count") })
	for line := range strings.Lines(r.scrape(t)) {
		name, isType := strings.CutPrefix(line, "# TYPE ")
		if !isType {
			continue
		}
		name, _, _ = strings.Cut(name, " ")
		if kept := strings.HasPrefix(name, "bobtail_router_"); !kept && !strings.Contains(string(page), name) {
			t.Errorf("docs/reference/metrics.md does not name %s", name)
		}
	}
}

// The record for the error budgets, read as the operator reads it; it outlives
// the dataplane.
func TestHistoryIsRead(t *testing.T) {
	r := start(t)
	one, hash := content(t, 3)
	r.api.set(one)
	eventually(t, "configuration", r.runs(hash))
	operator := r.ca.client(t, dataplane.OperatorCommonName)
	r.plane.set(func(p *plane) { p.second = 100 })
	eventually(t, "the record begins", func() bool {
		h, err := operator.History(t.Context(), r.read)
		return err == nil && !h.Started.IsZero()
	})
	// Anybody may ask beside the metrics: what the plugin needs, and no more.
	for path, want := range map[string]int{"state": http.StatusOK, "counters": http.StatusOK, "histogram?windowSeconds=10": http.StatusOK, "history": http.StatusNotFound} {
		if code := status(t, r.metrics+"/v1/"+path); code != want {
			t.Errorf("%s beside the metrics: status %d, want %d", path, code, want)
		}
	}
	r.plane.set(func(p *plane) { p.second, p.slices = 110, map[uint64]int{105: 30, 107: 12} })
	eventually(t, "the record grows", func() bool {
		h, err := operator.History(t.Context(), r.read)
		return err == nil && h.All.Latency.Total() == 42 && len(h.Windows) == 2 && h.Windows[0].Latency.Total() == 42
	})
}

// The text must be what Prometheus' own parser takes, R-128's figures included.
func TestMetrics(t *testing.T) {
	r := start(t)
	one, hash := content(t, 3)
	r.api.set(one)
	eventually(t, "configuration", r.runs(hash))
	eventually(t, "applied generation", func() bool { return strings.Contains(r.scrape(t), "bobtail_config_applied_generation") })
	r.plane.set(func(p *plane) { p.second, p.slices = 100, map[uint64]int{100: 3} })
	eventually(t, "histogram", func() bool { return strings.Contains(r.scrape(t), "bobtail_latency_seconds_count") })
	text := r.scrape(t)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for name, want := range map[string]float64{
		"bobtail_dataplane_up": 1, "bobtail_config_applied_generation": 3, "bobtail_worker_outstanding": 2, "bobtail_worker_credits": 3,
		"bobtail_worker_feedback_age_seconds": 0.004, "bobtail_router_pairs": 7, "bobtail_router_oldest_held_seconds": 1.5,
	} {
		f := families[name]
		if f == nil || f.GetMetric()[0].GetGauge().GetValue() != want {
			t.Errorf("%s = %v, want %v", name, f, want)
		}
	}
	drops := families["bobtail_router_dropped_total"]
	if drops == nil || drops.GetMetric()[0].GetCounter().GetValue() != 3 || label(drops.GetMetric()[0], "reason") != `queue"full` {
		t.Errorf("drops by reason: %v", drops)
	}
	if h := families["bobtail_latency_seconds"]; h == nil || h.GetMetric()[0].GetHistogram() == nil {
		t.Errorf("no latency histogram in\n%s", text)
	}
	// Class 5 has a histogram, class 4 none yet.
	classes := families["bobtail_router_class_latency_seconds"]
	if m := classes.GetMetric(); len(m) != 1 || label(m[0], "class") != "5" || m[0].GetHistogram().GetSampleCount() != 1 {
		t.Errorf("latency by class: %v", classes)
	}
	if code := status(t, r.metrics+"/healthz"); code != http.StatusOK {
		t.Errorf("healthz: %d", code)
	}
}

func TestParseFlags(t *testing.T) {
	o, err := ParseFlags([]string{"--configmap=demo/echo-dataplane", "--ctl=/x"}, io.Discard)
	if err != nil || o.Namespace != "demo" || o.Name != "echo-dataplane" || o.Socket != "/x" || o.Listen != ":9443" {
		t.Errorf("%+v %v", o, err)
	}
	for _, args := range [][]string{{}, {"--configmap=echo"}, {"--configmap=a/b/c"}, {"--configmap=a/b", "extra"}, {"--nope"}} {
		if _, err := ParseFlags(args, io.Discard); !errors.Is(err, ErrUsage) {
			t.Errorf("%v: %v, want a usage error", args, err)
		}
	}
	for _, args := range [][]string{{"--help"}, {"--version"}} {
		if _, err := ParseFlags(args, io.Discard); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if code := Main(t.Context(), []string{"--nope"}, io.Discard, io.Discard); code != 2 {
		t.Errorf("exit code %d for a wrong option, want 2", code)
	}
}
