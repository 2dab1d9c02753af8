// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

// The control protocol against the real C router: what the operator renders is
// what the dataplane takes, and what it refuses it names as this side does.

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/hack/test/needs"
)

// cRouter starts bobtail-router and returns its control socket.
func cRouter(t *testing.T) string {
	t.Helper()
	program := needs.CProgram(t, "bobtail-router")
	socket := filepath.Join(t.TempDir(), "ctl.sock")
	cmd := exec.Command(program, "--address=127.0.0.1", fmt.Sprintf("--request-port=%d", freePort(t)),
		fmt.Sprintf("--feedback-port=%d", freePort(t)), "--ctl="+socket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return socket
}

func freePort(t *testing.T) int {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).Port
}

func dialC(t *testing.T, socket string) *Socket {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		s, err := DialSocket(t.Context(), socket)
		if err == nil {
			t.Cleanup(func() { s.Close() })
			return s
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func TestCRouterTakesWhatTheOperatorRenders(t *testing.T) {
	s := dialC(t, cRouter(t))
	h, err := s.Hello(t.Context())
	if err != nil || h.Role != ctl.RoleRouter || h.Incarnation == 0 {
		t.Fatalf("%+v %v", h, err)
	}
	for _, members := range []int{0, 3, 1024} {
		text, hash, err := RenderConfig(document(members))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []bool{false, true} {
			if unchanged, err := s.Apply(t.Context(), text, hash); err != nil || unchanged != want {
				t.Fatalf("%d members: unchanged %v, %v", members, unchanged, err)
			}
		}
		st, err := s.State(t.Context())
		if err != nil || st.Hash != hash || len(st.Members) != members || st.Queue == nil {
			t.Fatalf("%d members: state %v", members, err)
		}
	}
	hist, err := s.Histogram(t.Context(), ctl.HistogramLatency, 30)
	if err != nil || hist.Histogram.Total() != 0 || hist.Source != ctl.SourceRouter {
		t.Errorf("histogram %+v %v", hist, err)
	}
	c, err := s.Counters(t.Context())
	if err != nil || len(c.Counters) < 10 {
		t.Errorf("counters %+v %v", c, err)
	}
}

// What operator and sidecar read besides: the histogram of each class, which has
// no window, and how busy a router that hedges sees its workers.
func TestCRouterTellsClassesAndHedging(t *testing.T) {
	s := dialC(t, cRouter(t))
	doc := document(3)
	doc.Service.Hedging = &Hedging{Mode: "Probe", BusyPercent: 50, BudgetPercent: 100, PercentilePer100000: 95000, ProbePerMillion: 1000}
	text, hash, err := RenderConfig(doc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), text, hash); err != nil {
		t.Fatal(err)
	}
	st, err := s.State(t.Context())
	if err != nil || st.Hedging == nil || st.Hedging.Mode != "Probe" || st.Hedging.BusyMillionths != 0 {
		t.Errorf("hedging %+v %v", st, err)
	}
	for _, name := range []string{"class0", "class7", "marked"} {
		if h, err := s.Histogram(t.Context(), name, 1); err != nil || h.Name != name || h.Histogram == nil || h.Histogram.Total() != 0 {
			t.Errorf("%s: %+v %v", name, h, err)
		}
	}
	var refused *CtlError
	if _, err := s.Histogram(t.Context(), "class8", 1); !errors.As(err, &refused) || refused.Code != ctl.CodeUnknownHistogram {
		t.Errorf("class8: %v", err)
	}
}

// Both parsers name the same field at fault, and the last good one stays.
func TestCRouterNamesTheSameField(t *testing.T) {
	s := dialC(t, cRouter(t))
	text, hash, _ := RenderConfig(document(2))
	if _, err := s.Apply(t.Context(), text, hash); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{`"workerQueueDepth":3`, `"workerQueueDepth":0`},
		{`"workerQueueDepth":3`, `"workerQueueDepth":"3"`},
		{`"workerQueueDepth":3`, `"workerQueueDepth":3.5`},
		{`"workerQueueDepth":3,`, ``},
		{`"workerQueueDepth":3`, `"workerQueueDepth":3,"workerQueueDepth":3`},
		{`"workerQueueDepth":3`, `"workerQueueDepht":3`},
		{`"policy":"JBSQ"`, `"policy":"Fair"`},
		{`"packets":0`, `"packets":-1`},
		{`"address":"10.0.0.2"`, `"address":"10.0.0.1"`},
		{`"address":"10.0.0.2"`, `"address":"nowhere"`},
		{`"firstPort":8000`, `"firstPort":70000`},
		{`"keyIds":[]`, `"keyIds":[0]`},
		{`"routers":[]`, `"routers":{}`},
		{`bobtail.dev/v1"`, `bobtail.dev/v2"`},
	} {
		bad := []byte(strings.Replace(string(text), c[0], c[1], 1))
		_, err := ParseConfig(bad)
		var here *FieldError
		if !errors.As(err, &here) {
			t.Fatalf("%s → %s is accepted here", c[0], c[1])
		}
		_, err = s.Apply(t.Context(), bad, HashConfig(bad))
		var there *CtlError
		if !errors.As(err, &there) || there.Field != here.Field || there.Code != here.Code {
			t.Errorf("%s → %s: C says %v, Go says %v", c[0], c[1], err, here)
		}
		if st, err := s.State(t.Context()); err != nil || st.Hash != hash {
			t.Fatalf("after a refusal: %v %v", st, err)
		}
	}
}
