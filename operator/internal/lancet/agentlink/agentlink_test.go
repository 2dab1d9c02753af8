// SPDX-License-Identifier: Apache-2.0

package agentlink_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/agentlink"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/agentlink/agenttest"
)

const secret = "0123456789abcdef"

// says fails unless the error names everything a user needs.
func says(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not say %q", err, part)
		}
	}
}

func dial(t *testing.T, a *agenttest.Agent, token string) (*agentlink.Link, error) {
	t.Helper()
	l, err := agentlink.Dial(context.Background(), a.Start(t), []byte(token))
	if err == nil {
		t.Cleanup(func() { _ = l.Close() })
	}
	return l, err
}

var redis = agentlink.Configuration{Protocol: "redis", Targets: []string{"127.0.0.1:6379"}}

// L-11, L-56: what an agent measured arrives as the statistics take it.
func TestMeasure(t *testing.T) {
	for _, latency := range []lancet.Latency{lancet.Response, lancet.Service} {
		a := &agenttest.Agent{Token: secret, Mean: 100_000, Lose: 0.1, Unstamped: 200}
		l, err := dial(t, a, secret)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		if err := l.Configure(ctx, redis, latency); err != nil {
			t.Fatal(err)
		}
		if err := l.Load(ctx, 1000); err != nil {
			t.Fatal(err)
		}
		m, err := l.Measure(ctx, 2000, 0.5, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Samples) != 2000 || m.Streams != 2 || len(m.Gaps) != 2000 || m.Failed["timeout"] == 0 || len(m.Warnings) != 1 {
			t.Fatalf("%d samples, %d streams, %d gaps, failed %v, warnings %v", len(m.Samples), m.Streams, len(m.Gaps), m.Failed, m.Warnings)
		}
		lost := 0
		for _, s := range m.Samples {
			apart := s.Latency - s.Other
			if latency == lancet.Service {
				apart = -apart
			}
			if s.Failed {
				lost++
			} else if apart != 25*time.Microsecond {
				t.Fatalf("response − service time is %v, want 20 µs of lateness and 5 µs outside the stamps", apart)
			}
		}
		if lost < 150 || lost > 250 {
			t.Errorf("%d of 2000 samples failed, want about 200", lost)
		}
		if err := l.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
}

// L-54: stamps that are missing are doubted where there ought to be some; where the
// agent has none but its own clock, all samples are without.
func TestSoftwareStampsLackNothing(t *testing.T) {
	for _, c := range []struct {
		stamps              string
		unstamped, warnings int
	}{{"kernel", 100, 1}, {"hardware", 100, 1}, {"software", 100, 0}, {"kernel", 6, 1}, {"kernel", 5, 0}} {
		l, err := dial(t, &agenttest.Agent{Mean: 1000, Stamps: c.stamps, Unstamped: c.unstamped}, "")
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		if err := errors.Join(l.Configure(ctx, redis, lancet.Response), l.Load(ctx, 10_000)); err != nil {
			t.Fatal(err)
		}
		m, err := l.Measure(ctx, 100, 1, time.Minute)
		if err != nil || len(m.Warnings) != c.warnings {
			t.Errorf("%+v: warnings %q, %v", c, m.Warnings, err)
		}
	}
}

// Nobody there: the dialling ends when the time is over, and says where it dialled.
func TestDialWithinEnds(t *testing.T) {
	began := time.Now()
	_, err := agentlink.DialWithin(context.Background(), "unix:/nonexistent/agent.sock", nil, 100*time.Millisecond)
	says(t, err, "/nonexistent/agent.sock")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("after %v", took)
	}
}

// A load that changes changes on time, in one window; every phase has what was due
// in it, and a coordinator that waits for the next says that it lives.
func TestFollow(t *testing.T) {
	a := &agenttest.Agent{Mean: 100_000, Lose: 0.1, Real: true, Lease: 1}
	l, err := dial(t, a, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := l.Configure(ctx, redis, lancet.Response); err != nil {
		t.Fatal(err)
	}
	phases := []lancet.Phase{{Load: 1000, Duration: 600 * time.Millisecond}, {Load: 4000, Duration: 300 * time.Millisecond}, {Load: 1000, Duration: 600 * time.Millisecond}}
	got, err := l.Follow(ctx, phases, 0.5)
	if err != nil || len(got) != len(phases) {
		t.Fatalf("%d phases, %v", len(got), err)
	}
	for i, m := range got {
		per := float64(m.Sent) / m.Elapsed.Seconds()
		failed, samples := float64(m.Failed["timeout"])/float64(m.Sent), float64(len(m.Samples))/float64(m.Sent)
		if per < 0.7*phases[i].Load || per > 1.3*phases[i].Load || failed < 0.03 || failed > 0.2 || samples < 0.35 || samples > 0.65 {
			t.Errorf("phase %d: %.0f requests/s of %.0f, failed %.3f, sampled %.3f; %d sent in %v", i, per, phases[i].Load, failed, samples, m.Sent, m.Elapsed)
		}
		if m.Streams != 2 || m.Slots != 16 || len(m.Warnings) != 0 {
			t.Errorf("phase %d: %d streams, %d slots, warnings %v", i, m.Streams, m.Slots, m.Warnings)
		}
	}
	count := map[any]int{}
	for _, q := range a.Requests() {
		count[q["op"]]++
	}
	if count["measure"] != 1 || count["load"] != 3 || count["alive"] < 3 {
		t.Errorf("asked %v", count)
	}
}

// L-1, L-22: of an agent that makes the load it is known when its requests left,
// over the whole window, and nothing else.
func TestThroughputAgent(t *testing.T) {
	l, err := dial(t, &agenttest.Agent{Mean: 1000, Lose: 0.1}, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	c := redis
	c.Role = agentlink.RoleThroughput
	if err := l.Configure(ctx, c, lancet.Response); err != nil {
		t.Fatal(err)
	}
	if err := l.Load(ctx, 10_000); err != nil {
		t.Fatal(err)
	}
	m, err := l.Measure(ctx, 300, 0.5, 2*time.Second)
	if err != nil || len(m.Samples) != 0 || len(m.Gaps) != 300 || m.Sent < 15_000 || m.Failed["timeout"] == 0 || len(m.Warnings) != 0 {
		t.Errorf("%d samples, %d gaps, %d sent, failed %v, %v, %v", len(m.Samples), len(m.Gaps), m.Sent, m.Failed, m.Warnings, err)
	}
}

// A coordinator that waits says now and then that it lives.
func TestSignsOfLife(t *testing.T) {
	a := &agenttest.Agent{Lease: 1}
	if _, err := dial(t, a, ""); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(time.Minute)
	for len(a.Requests()) < 3 && time.Now().Before(end) {
		time.Sleep(50 * time.Millisecond)
	}
	if got := a.Requests(); len(got) < 3 || got[0]["op"] != "alive" {
		t.Errorf("asked %v", got)
	}
}

// L-21: a window that the load does not fill ends by its limit.
func TestMeasureEndsAtItsLimit(t *testing.T) {
	l, err := dial(t, &agenttest.Agent{Mean: 1000}, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := l.Configure(ctx, redis, lancet.Response); err != nil {
		t.Fatal(err)
	}
	if err := l.Load(ctx, 100); err != nil {
		t.Fatal(err)
	}
	m, err := l.Measure(ctx, 10_000, 0.5, 2*time.Second)
	if err != nil || m.Elapsed > 30*time.Second || len(m.Samples) > 2000 {
		t.Errorf("%d samples in %v, %v", len(m.Samples), m.Elapsed, err)
	}
}

// Both sides prove the secret, and neither sends it.
func TestAuthentication(t *testing.T) {
	_, err := dial(t, &agenttest.Agent{Token: secret}, "another secret of theirs")
	says(t, err, "proof", "Unauthorized")
	_, err = dial(t, &agenttest.Agent{Token: secret}, "")
	says(t, err, "--agent-token-file")
	_, err = dial(t, &agenttest.Agent{Token: secret, Proof: "x"}, secret)
	says(t, err, "does not know the token")
	_, err = dial(t, &agenttest.Agent{Token: secret, Open: true}, secret)
	says(t, err, "asks for no token", "another program")
	a := &agenttest.Agent{Token: secret}
	if _, err := dial(t, a, secret); err != nil {
		t.Fatal(err)
	}
	for _, q := range a.Requests() {
		for key, value := range q {
			if text, ok := value.(string); ok && strings.Contains(text, secret) {
				t.Errorf("the secret travels in %s", key)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	_, err := agentlink.Dial(context.Background(), "unix:/nonexistent/agent.sock", nil)
	says(t, err, "/nonexistent/agent.sock", "bobtail-load --agent=")
	_, err = dial(t, &agenttest.Agent{Contract: 9}, "")
	says(t, err, "contract 9")
	l, err := dial(t, &agenttest.Agent{Mean: 1000, Announce: 2_000_000}, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	err = l.Configure(ctx, agentlink.Configuration{Protocol: "http", Targets: []string{"127.0.0.1:1"}}, lancet.Response)
	says(t, err, "targets: connection refused", "TargetFailed")
	if err := l.Configure(ctx, redis, lancet.Response); err != nil {
		t.Fatal(err)
	}
	if err := l.Load(ctx, 1000); err != nil {
		t.Fatal(err)
	}
	_, err = l.Measure(ctx, 100, 1, time.Second)
	says(t, err, "samples:", "announced")
}

// An interrupted coordinator does not wait for an agent that stores its keys.
func TestInterrupted(t *testing.T) {
	l, err := dial(t, &agenttest.Agent{Hang: true}, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Configure(ctx, redis, lancet.Response) }()
	time.Sleep(20 * time.Millisecond)
	interrupt()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("still waiting for the agent")
	}
}

func TestStartSaysWhyAnAgentDoesNotRun(t *testing.T) {
	_, err := agentlink.Start(context.Background(), "/nonexistent/bobtail-load")
	says(t, err, "/nonexistent/bobtail-load", "--agent-program")
	_, err = agentlink.Start(context.Background(), "/bin/false")
	says(t, err, "ended at once")
}

// An agent that does not end when it is told to does not hold the program up: it
// is killed, and whoever started it learns why it was of no use.
func TestStartEndsAnAgentThatIgnoresSIGTERM(t *testing.T) {
	program := filepath.Join(t.TempDir(), "agent")
	// Listens to nothing, says nothing, and ignores the signal, as its children do.
	script := "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.1; done\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	failure := make(chan error, 1)
	go func() {
		_, err := agentlink.Start(ctx, program)
		failure <- err
	}()
	time.Sleep(300 * time.Millisecond) // the shell has set its trap; if not, the test proves less, not wrong
	interrupt()
	select {
	case err := <-failure:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("still waiting for an agent that ignores SIGTERM")
	}
}
