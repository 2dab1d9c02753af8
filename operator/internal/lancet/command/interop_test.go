// SPDX-License-Identifier: Apache-2.0

package command

import (
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/spans/otlptest"
	"github.com/bobtail-dev/bobtail/hack/test/needs"
)

// The real agent, started by the program, over TCP against an echo. What a loaded
// machine makes of the arrivals is not asked: conclusive or not, nothing may fail.
func TestRealAgent(t *testing.T) {
	program := needs.CProgram(t, "bobtail-load")
	target := echo(t)
	path := file(t, "measurement: {samples: 200, rounds: 2, widthMicroseconds: 1e6, percentile: 90}\nrequests: {requestBytes: \"uni:8:64\"}\n")
	code, out, problems := withAgent(t, path, "--target="+target, "--rate=1000", program)
	if code != ExitConclusive && code != ExitInconclusive {
		t.Fatalf("exit %d\n%s%s", code, out, problems)
	}
	d := decoded(t, out)
	q, ok := d.Wanted(d.Points[0])
	// A busy machine may be in no steady state; then the second round has as many samples again (L-25).
	if !ok || q.Samples != 200 && q.Samples != 400 || q.Value == nil || *q.Value <= 0 || d.Timestamps[0] != "kernel" {
		t.Errorf("p90 %+v of %v stamps", q, d.Timestamps)
	}
	if n := len(d.Points[0].Failed); n > 0 {
		t.Errorf("requests failed: %v", d.Points[0].Failed)
	}
	path = file(t, "load: {steps: [{requestsPerSecond: 200, seconds: 1}, {requestsPerSecond: 1000, seconds: 1}]}\n")
	code, out, problems = withAgent(t, path, "--target="+target, "--quiet", program)
	if code != ExitConclusive {
		t.Fatalf("steps: exit %d\n%s%s", code, out, problems)
	}
	if d = decoded(t, out); len(d.Points) != 2 || d.Points[1].Achieved < 2*d.Points[0].Achieved {
		t.Errorf("steps: %+v", d.Points)
	}
	code, _, problems = withAgent(t, path, "--target=127.0.0.1:1", "--quiet", program)
	if code != ExitFailed {
		t.Errorf("a closed port: exit %d", code)
	}
	contains(t, problems, "configure", "TargetFailed")
}

// The load changes on time, whatever is still under way: answers take longer than
// the phases, and the service sees each load as long as was asked.
func TestRealAgentKeepsTime(t *testing.T) {
	needs.Time(t, "measures the machine")
	agent := needs.CProgram(t, "bobtail-load")
	const held = 1500 * time.Millisecond
	target, arrived := slowEcho(t, held)
	path := file(t, "load: {steps: [{requestsPerSecond: 200, seconds: 1}, {requestsPerSecond: 800, seconds: 0.5}, {requestsPerSecond: 200, seconds: 1}]}\n"+
		"requests: {requestBytes: \"fixed:64\"}\nconnections: {count: 1600, timeoutMicroseconds: 20000000}\n")
	code, out, problems := withAgent(t, path, "--target="+target, "--quiet", agent)
	if code != ExitConclusive {
		t.Fatalf("exit %d\n%s%s", code, out, problems)
	}
	var seen [3]int
	all := arrived()
	for _, at := range all {
		switch since := at.Sub(all[0]); {
		case since < time.Second:
			seen[0]++
		case since < 1500*time.Millisecond:
			seen[1]++
		case since < 2500*time.Millisecond:
			seen[2]++
		}
	}
	for i, want := range []int{200, 400, 200} { // late by 1.5 s each, the first would go on and on: 200, 100, 200
		if seen[i] < want*6/10 || seen[i] > want*15/10 {
			t.Errorf("the service saw %v requests in the phases, want some 200, 400, 200", seen)
			break
		}
	}
	d := decoded(t, out)
	for i, p := range d.Points {
		if q, ok := d.Wanted(p); !ok || q.Value == nil || *q.Value < 1.5e6 || p.Achieved < 0.6*p.Offered || p.Achieved > 1.5*p.Offered {
			t.Errorf("phase %d: %.0f of %.0f requests/s, p99 %+v", i, p.Achieved, p.Offered, q)
		}
	}
}

// L-1, L-2: one real agent measures, two make the load; the service saw all of it.
func TestRealAgentsOfTwoKinds(t *testing.T) {
	agent := needs.CProgram(t, "bobtail-load")
	path := file(t, "measurement: {samples: 200, rounds: 1, widthMicroseconds: 1e6, percentile: 90, samplingRate: 0.1}\nrequests: {requestBytes: \"fixed:64\"}\n")
	code, out, problems := program(path, "--target="+echo(t), "--rate=1000", "--protocol=echo", "--output=json", "--agent-program="+agent,
		"--local=3", "--latency-agents=1", "--polling=wait")
	if code != ExitConclusive && code != ExitInconclusive {
		t.Fatalf("exit %d\n%s%s", code, out, problems)
	}
	d := decoded(t, out)
	q, ok := d.Wanted(d.Points[0])
	if !ok || q.Samples != 200 || q.Value == nil || d.LatencyAgents != 1 || d.Timestamps[0] != "kernel" || d.Timestamps[1] != "software" {
		t.Errorf("p90 %+v of %v stamps, %d agents measure", q, d.Timestamps, d.LatencyAgents)
	}
	if polled, _, _ := strings.Cut(d.BusyPoll[0], ":"); polled != "on" && polled != "refused" || d.BusyPoll[1] != "off" || d.BusyPoll[2] != "off" {
		t.Errorf("the kernel polls for the measuring agent's sockets or refuses to, and for nobody else's: %q", d.BusyPoll)
	}
	if got := d.Points[0].Achieved; got < 300 { // 100 of the 1000 are the measuring agent's
		t.Errorf("%.0f requests/s: the others made no load", got)
	}
}

// the real agent measures the real server; a share of the samples has spans.
func TestRealAgentTraces(t *testing.T) {
	agent, server := needs.CProgram(t, "bobtail-load"), needs.CProgram(t, "bobtail-serve")
	free, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := free.LocalAddr().String()
	_, port, _ := net.SplitHostPort(target)
	_ = free.Close()
	serve := exec.Command(server, "--address=127.0.0.1", "--port="+port, "--workers=1", "--ctl=")
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
	}()
	receiver := otlptest.Start(t)
	path := file(t, "measurement: {samples: 200, rounds: 1, widthMicroseconds: 1e6, percentile: 90}\nconnections: {timeoutMicroseconds: 30000000}\n")
	code, out, problems := program(path, "--target="+target, "--rate=500", "--protocol=r2p2", "--output=json", "--agent-program="+agent,
		"--trace-share=0.5", "--otlp-endpoint="+receiver.URL)
	if code != ExitConclusive && code != ExitInconclusive {
		t.Fatalf("exit %d\n%s%s", code, out, problems)
	}
	got := receiver.Spans()["r2p2 request"]
	if len(got) < 50 || len(got) > 150 { // 100 expected, σ 7
		t.Errorf("%d spans of 200 samples, want some 100; %s", len(got), problems)
	}
	for _, s := range got {
		if s.EndTimeUnixNano < s.StartTimeUnixNano || time.Since(time.Unix(0, int64(s.StartTimeUnixNano))) > time.Hour {
			t.Fatalf("span from %d to %d", s.StartTimeUnixNano, s.EndTimeUnixNano)
		}
	}
}

func withAgent(t *testing.T, path, target, flag, agent string) (code int, out, problems string) {
	t.Helper()
	return program(path, target, flag, "--protocol=echo", "--output=json", "--agent-program="+agent)
}

// slowEcho says what it heard, later; arrived is when it heard each.
func slowEcho(t *testing.T, held time.Duration) (address string, arrived func() []time.Time) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var mutex sync.Mutex
	var all []time.Time
	serve := func(c net.Conn) {
		for buffer := make([]byte, 4096); ; {
			n, err := c.Read(buffer)
			if err != nil {
				return
			}
			mutex.Lock()
			all = append(all, time.Now())
			mutex.Unlock()
			time.Sleep(held)
			if _, err := c.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return listener.Addr().String(), func() []time.Time {
		mutex.Lock()
		defer mutex.Unlock()
		return all
	}
}

// echo is a server that says what it hears.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	return listener.Addr().String()
}
