// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// The sidecar in front of the real router: configured at start, again after
// the router was killed, and scraped.
func TestSidecarConfiguresTheCRouter(t *testing.T) {
	program := cProgram(t, "bobtail-router")
	api, cluster := newAPIServer(t)
	ca, tlsDir := newAuthority(t), t.TempDir()
	ca.writeServing(t, tlsDir, service1)
	socket := filepath.Join(t.TempDir(), "ctl.sock")
	request, feedback := freePort(t), freePort(t)
	router := func() *exec.Cmd {
		cmd := exec.Command(program, "--address=127.0.0.1", fmt.Sprintf("--request-port=%d", request),
			fmt.Sprintf("--feedback-port=%d", feedback), "--ctl="+socket)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	first := router()
	one, hash := content(t, 3)
	api.set(one)
	ready := make(chan [2]net.Addr, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			Socket: socket, Namespace: "demo", Name: "echo-dataplane", TLSDir: tlsDir, Cluster: cluster, Listen: "127.0.0.1:0",
			MetricsListen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
			Ready: func(read, metrics net.Addr) { ready <- [2]net.Addr{read, metrics} },
		})
	}()
	addrs := <-ready
	r := &rig{metrics: "http://" + addrs[1].String(), read: dataplane.Target{Address: addrs[0].String(), ServerName: service1}}
	operator := ca.client(t, dataplane.OperatorCommonName)
	runs := func(hash string) func() bool {
		return func() bool {
			st, err := operator.State(t.Context(), r.read)
			return err == nil && st.AppliedHash == hash && st.LastError == nil && st.Role == "router"
		}
	}
	eventually(t, "configured", runs(hash))
	before, err := operator.State(t.Context(), r.read)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	second := router()
	defer func() {
		_ = second.Process.Kill()
		_ = second.Wait()
	}()
	eventually(t, "the new life is configured", func() bool {
		st, err := operator.State(t.Context(), r.read)
		return err == nil && st.AppliedHash == hash && st.Incarnation != 0 && st.Incarnation != before.Incarnation
	})
	eventually(t, "metrics", func() bool {
		text := r.scrape(t)
		return strings.Contains(text, "bobtail_router_discarded_total{") && strings.Contains(text, `bobtail_latency_seconds_count{source="Router"} 0`) &&
			strings.Contains(text, "bobtail_dataplane_restarts_total 1")
	})
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("stop: %v", err)
	}
}

// cProgram finds a program in $BOBTAIL_BUILD, else in build/dataplane.
func cProgram(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("BOBTAIL_BUILD")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "build", "dataplane")
	}
	path := filepath.Join(dir, "apps", name, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not built (run `make build`, or point BOBTAIL_BUILD to a dataplane build): %v", name, err)
	}
	return path
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
