// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// The sidecar in front of the real router: configured at start, again after
// the router was killed, and scraped.
func TestSidecarConfiguresTheCRouter(t *testing.T) {
	program, request, feedback := needs.CProgram(t, "bobtail-router"), freePort(t), freePort(t)
	socket := filepath.Join(t.TempDir(), "ctl.sock")
	router := func() (kill func()) {
		cmd := exec.Command(program, "--address=127.0.0.1", fmt.Sprintf("--request-port=%d", request),
			fmt.Sprintf("--feedback-port=%d", feedback), "--ctl="+socket)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	kill := router()
	r := startAt(t, socket)
	operator := r.ca.client(t, dataplane.OperatorCommonName)
	one, hash := content(t, 3)
	r.api.set(one)
	var before uint64
	eventually(t, "configured", func() bool {
		st, err := operator.State(t.Context(), r.read)
		if err != nil || st.AppliedHash != hash || st.LastError != nil || st.Role != "router" {
			return false
		}
		before = st.Incarnation
		return true
	})
	kill()
	// An incarnation is a tick of 2^26 ns: no kubelet restarts a container within one.
	time.Sleep(1 << 26)
	defer router()()
	eventually(t, "the new life is configured", func() bool {
		st, err := operator.State(t.Context(), r.read)
		return err == nil && st.AppliedHash == hash && st.Incarnation != 0 && st.Incarnation != before
	})
	eventually(t, "metrics", func() bool {
		text := r.scrape(t)
		return strings.Contains(text, "bobtail_router_discarded_total{") &&
			strings.Contains(text, `bobtail_latency_seconds_count{`+whose+`,source="Router"} 0`) &&
			strings.Contains(text, "bobtail_dataplane_restarts_total{"+whose+"} 1")
	})
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
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
