// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet/agentlink/agenttest"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/report"
)

func program(args ...string) (code int, stdout, stderr string) {
	var out, problems bytes.Buffer
	code = Main(context.Background(), args, &out, &problems)
	return code, out.String(), problems.String()
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "definition.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func decoded(t *testing.T, text string) report.Document {
	t.Helper()
	var d report.Document
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return d
}

// L-27, L-31: a conclusive run, by flags alone; settling takes the second it takes.
func TestOneLoad(t *testing.T) {
	a := &agenttest.Agent{Mean: 100_000}
	code, out, problems := program("--target=127.0.0.1:6379", "--protocol=redis", "--rate=50000", "--width=200", "--agent="+a.Start(t))
	if code != ExitConclusive {
		t.Fatalf("exit %d\n%s%s", code, out, problems)
	}
	contains(t, out, "redis 127.0.0.1:6379, response latency, kernel stamps, 1 agent(s)", "PERCENTILE", "p99 ", "SERVICE", "offered 50000/s")
	configure := a.Requests()[0]
	if configure["protocol"] != "redis" || configure["arrivals"] != "poisson" {
		t.Errorf("configured with %v", configure)
	}
}

// L-31, L-21, L-32: what was measured but cannot be trusted says why, with exit status 3.
func TestInconclusiveSaysWhy(t *testing.T) {
	path := file(t, "measurement: {rounds: 1, settleSeconds: 0.01}\n")
	for want, c := range map[string]struct {
		width, says string // the width in µs; that of 10,000 exponential samples of mean 100 µs is some 50
		a           *agenttest.Agent
	}{
		"Load, agent 0": {"300", "of 50000.0 requests/s, off by 3", &agenttest.Agent{Mean: 100_000, Slower: 0.3}},
		"Errors: ":      {"300", "were not answered (at most 1 %)", &agenttest.Agent{Mean: 100_000, Lose: 0.05}},
		"Interval: ":    {"10", "wide (at most 10µs)", &agenttest.Agent{Mean: 100_000}},
	} {
		code, out, _ := program(path, "--target=h:1234", "--protocol=echo", "--rate=50000", "--width="+c.width, "--agent="+c.a.Start(t))
		if code != ExitInconclusive {
			t.Errorf("%s: exit %d", want, code)
		}
		contains(t, out, "inconclusive, because", want, c.says)
	}
}

// K-33: with a summary, as in a LatencyExperiment's Job, what is not conclusive is a
// measurement all the same: the Job did not fail.
func TestK33AFinishedMeasurementIsNoFailure(t *testing.T) {
	path, summary := file(t, "measurement: {rounds: 1, settleSeconds: 0.01}\n"), filepath.Join(t.TempDir(), "summary")
	a := &agenttest.Agent{Mean: 100_000, Lose: 0.05}
	code, _, _ := program(path, "--target=h:1234", "--protocol=echo", "--rate=50000", "--width=300", "--agent="+a.Start(t), "--summary="+summary)
	text, err := os.ReadFile(summary)
	if code != ExitConclusive || err != nil || !strings.Contains(string(text), "were not answered") {
		t.Errorf("exit %d, %v, %s", code, err, text)
	}
	code, _, _ = program(path, "--target=h:1234", "--protocol=echo", "--rate=50000", "--agent=127.0.0.1:1", "--summary="+summary)
	if code != ExitFailed {
		t.Errorf("nothing was measured: exit %d", code)
	}
}

// L-24, L-30: agents that draw the same requests are independent each, and not together.
func TestAgentsInStepAreNotIndependent(t *testing.T) {
	a, b := &agenttest.Agent{Mean: 100_000}, &agenttest.Agent{Mean: 100_000}
	path := file(t, "measurement: {rounds: 1, settleSeconds: 0.01}\n")
	code, out, _ := program(path, "--target=h:1234", "--protocol=echo", "--rate=50000", "--width=300", "--agent="+a.Start(t), "--agent="+b.Start(t))
	if code != ExitInconclusive {
		t.Errorf("exit %d", code)
	}
	contains(t, out, "because not conclusive in 1 rounds; Independence: rank autocorrelation")
}

// A sweep in every form, by two agents, one of them over TCP with a token.
func TestSweepInEveryForm(t *testing.T) {
	folder := t.TempDir()
	token := filepath.Join(folder, "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := file(t, `
targets: [{host: 127.0.0.1, port: 80, weight: 2}, {host: "::1", port: 80}]
protocol: http
load: {sweep: {fromRequestsPerSecond: 40000, toRequestsPerSecond: 80000, points: 3}}
measurement: {percentile: 99.9, widthMicroseconds: 900, latency: service, settleSeconds: 0.01}
seed: 7
`)
	near, far := &agenttest.Agent{Mean: 50_000}, &agenttest.Agent{Mean: 50_000, Token: "0123456789abcdef"}
	code, out, problems := program(path, "--output=json", "--csv="+folder+"/x.csv", "--plot="+folder+"/x.svg",
		"--agent="+near.Start(t), "--agent="+far.Start(t), "--agent-token-file="+token)
	if code != ExitConclusive {
		t.Fatalf("exit %d\n%s%s", code, out, problems)
	}
	d := decoded(t, out)
	if len(d.Points) != 3 || d.Points[1].Offered != 60_000 || len(d.Agents) != 2 || d.Latency != "Service" {
		t.Errorf("points %d, agents %v, latency %s", len(d.Points), d.Agents, d.Latency)
	}
	q, ok := d.Wanted(d.Points[0])
	if !ok || q.Percentile != 99.9 || q.Value == nil || *q.Value < 300 || *q.Value > 400 { // 50 µs · ln 1000 = 345 µs
		t.Errorf("p99.9: %+v", q)
	}
	raw, err := os.ReadFile(folder + "/x.csv")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(raw)).ReadAll()
	if err != nil || len(lines) != 1+3*8 {
		t.Errorf("%d lines of CSV, %v", len(lines), err)
	}
	wellFormed(t, folder+"/x.svg")
	first := far.Requests()[1]
	if targets, _ := first["targets"].([]any); len(targets) != 3 || targets[2] != "[::1]:80" {
		t.Errorf("targets %v: a weight of 2 is two connections in turn", first["targets"])
	}
	if first["seed"] != 8.0 || near.Requests()[0]["seed"] != 7.0 {
		t.Error("agents draw the same stream")
	}
}

// A load that changes is followed, not qualified.
func TestSineAndSteps(t *testing.T) {
	a := &agenttest.Agent{Mean: 50_000, Real: true}
	path := file(t, `
targets: [{host: h, port: 80}]
protocol: http
load: {sine: {meanRequestsPerSecond: 1000, amplitudeRequestsPerSecond: 500, periodSeconds: 1.6, seconds: 1.6, stepSeconds: 0.4}}
`)
	picture := t.TempDir() + "/x.png"
	code, out, problems := program(path, "--agent="+a.Start(t), "--plot="+picture)
	if code != ExitConclusive {
		t.Fatalf("exit %d\n%s%s", code, out, problems)
	}
	contains(t, out, "0.0s", "1.2s", "1354/s", "646/s", "no steady state")
	drawn(t, picture)
	path = file(t, "targets: [{host: h, port: 80}]\nprotocol: http\nload: {steps: [{requestsPerSecond: 500, seconds: 1}, {requestsPerSecond: 900, seconds: 1}]}\n")
	_, out, _ = program(path, "--agent="+(&agenttest.Agent{Mean: 50_000, Real: true}).Start(t), "--output=json")
	d := decoded(t, out)
	if len(d.Points) != 2 || d.Points[1].StartSeconds != 1 || d.Points[1].Achieved < 750 || !d.Changing {
		t.Errorf("%+v", d.Points)
	}
}

// Every wrong field is named, with what it may be, before anything is sent.
func TestBadInput(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		say  []string
	}{
		"nothing":        {nil, []string{"targets: none", "protocol:", "load: 0 patterns: must be exactly one"}},
		"flag":           {[]string{"--rat=1"}, []string{"-rat", "--help"}},
		"target":         {[]string{"--target=6379"}, []string{`target "6379"`, "HOST:PORT"}},
		"output":         {[]string{"--target=h:1", "--protocol=http", "--rate=1e4", "--output=xml", "--plot=x.gif"}, []string{"--output=xml", ".svg"}},
		"traces of http": {[]string{"--target=h:1", "--protocol=http", "--rate=1e4", "--trace-share=0.1"}, []string{"traces.share: 0.1", "r2p2", "traces.otlpEndpoint"}},
		"only measured":  {[]string{"--target=h:1", "--protocol=http", "--rate=1e4", "--local=2", "--latency-agents=2"}, []string{"--latency-agents=2: must be fewer than the agents, 2"}},
		"too slow":       {[]string{"--target=h:1", "--protocol=http", "--rate=1"}, []string{"measurement.limitSeconds: 15m0s", "10000 samples"}},
		"short phase": {[]string{file(t, "targets: [{host: h, port: 80}]\nprotocol: http\nload: {steps: [{requestsPerSecond: 500, seconds: 1}, {requestsPerSecond: 10, seconds: 9}]}\n"), "--local=2"},
			[]string{"load: phase 1: 10 requests/s for 9s are 45 samples for each agent"}},
		"for a switch": {[]string{"../../../../examples/slog/bimodal.yaml"},
			[]string{"switch: needed by this definition: must be run by a switch", "--protocol", "interarrival.kind: bimodal"}},
		"bimodal gaps":  {[]string{"--target=h:1", "--protocol=http", "--rate=1e4", "--interarrival=bimodal"}, []string{"interarrival.kind: bimodal", "interarrival.bimodal"}},
		"unknown field": {[]string{file(t, "packets: 100\n")}, []string{"packets", "docs/guides/lancet.md"}},
		"fields": {[]string{file(t, `
targets: [{host: h, port: 70000}]
protocol: http
load: {sweep: {fromRequestsPerSecond: 5, toRequestsPerSecond: 4, points: 1}, requestsPerSecond: 7}
interarrival: {kind: table}
measurement: {percentile: 100, latency: round-trip}
`)}, []string{"targets[0].port", "2 patterns", "load.sweep.points", "interarrival.gapsNanoseconds", "measurement.percentile", "measurement.latency"}},
	} {
		code, out, problems := program(c.args...)
		if code != ExitUsage || out != "" {
			t.Errorf("%s: exit %d, output %q", name, code, out)
		}
		contains(t, problems, c.say...)
	}
	code, _, problems := program("--target=127.0.0.1:1", "--protocol=http", "--rate=1e4", "--agent="+(&agenttest.Agent{}).Start(t))
	if code != ExitFailed {
		t.Errorf("a target that refuses: exit %d", code)
	}
	contains(t, problems, "TargetFailed", "connection refused")
	if code, _, problems = program("--help"); code != 0 || !strings.Contains(problems, "-agent-token-file") {
		t.Errorf("--help: exit %d", code)
	}
}
