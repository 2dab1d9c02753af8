//go:build cluster

// SPDX-License-Identifier: Apache-2.0

package mainjob

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

const portsNamespace = "bobtail-dpdk"

// Of /proc/PID/status: NET_ADMIN, NET_RAW, IPC_LOCK and BPF; the first two.
const (
	xdpCapabilities    = "0000008000007000"
	packetCapabilities = "0000000000003000"
)

// ownPorts applies examples/dpdk-pods.yaml: a router and a server on AF_XDP and a server on AF_PACKET, each on
// an interface of its pod that the kernel has no address on. A client on kernel sockets is answered, with
// nothing but the capabilities that the example names, and again after the router was killed.
func ownPorts(ctx context.Context, t *testing.T, s *suite) {
	b, err := os.ReadFile(filepath.Join(s.env.Root, "examples", "dpdk-pods.yaml"))
	check(t, err)
	manifest := strings.ReplaceAll(string(b), ":0.2.0", ":"+s.env.Version)
	namespace, rest, _ := strings.Cut(manifest, "---")
	check(t, s.env.Apply(ctx, namespace))
	defer func() {
		if _, err := s.env.Kubectl(ctx, "delete", "namespace", portsNamespace, "--wait=true"); err != nil {
			t.Error(err)
		}
	}()
	check(t, s.env.Apply(ctx, keySecret(t)))
	check(t, s.env.Apply(ctx, rest))
	sent := allAnswered(ctx, t, s, 0)
	for pod, want := range map[string]string{"router": xdpCapabilities, "server-xdp": xdpCapabilities, "server-packet": packetCapabilities} {
		if got := capabilities(ctx, t, s, pod); got != want {
			t.Errorf("pod %s has capabilities %s; want %s", pod, got, want)
		}
	}
	// The kernel keeps the XDP program of a killed process: the next one has to get by.
	check(t, syscall.Kill(podProcess(ctx, t, s, "router"), syscall.SIGKILL))
	_, err = s.env.Kubectl(ctx, "-n", portsNamespace, "delete", "job", "load", "--wait=true")
	check(t, err)
	check(t, restarted(ctx, s))
	check(t, s.env.Apply(ctx, rest))
	sent += allAnswered(ctx, t, s, 1)
	s.got.Set("rpcs_sent_own_ports", sent)
}

func keySecret(t *testing.T) string {
	t.Helper()
	key := make([]byte, 16)
	_, err := rand.Read(key)
	check(t, err)
	return fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: keys, namespace: %s}, stringData: {'1': %s}}", portsNamespace, hex.EncodeToString(key))
}

// allAnswered waits for the example's load and counts what it sent.
func allAnswered(ctx context.Context, t *testing.T, s *suite, kills int) int64 {
	t.Helper()
	r, err := s.env.FinishLoad(ctx, harness.Load{Namespace: portsNamespace, Name: "load", Duration: 7 * time.Second})
	check(t, err)
	s.steps.Say("     ports of their own, after %d kills: sent %d, completed %d, p99 %.0f us", kills, r.Sent, r.Completed, r.Percentile("99"))
	s.got.Set(fmt.Sprintf("rpcs_failed_own_ports_%d_kills", kills), r.Failed())
	if r.Failed() != 0 || r.Sent < 1000 {
		t.Errorf("after %d kills %d of %d requests failed; want 0 of at least 1000: %s", kills, r.Failed(), r.Sent, r.Failures())
	}
	return r.Sent
}

func podProcess(ctx context.Context, t *testing.T, s *suite, pod string) int {
	t.Helper()
	uid, err := s.env.Kubectl(ctx, "-n", portsNamespace, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
	check(t, err)
	for _, program := range []string{"bobtail-router", "bobtail-serve"} {
		if pids := harness.PodProcesses(strings.TrimSpace(uid), program); len(pids) == 1 {
			return pids[0]
		}
	}
	t.Fatalf("pod %s runs no program of ours", pod)
	return 0
}

func capabilities(ctx context.Context, t *testing.T, s *suite, pod string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", podProcess(ctx, t, s, pod)))
	check(t, err)
	_, rest, _ := strings.Cut(string(b), "CapEff:")
	return strings.Fields(rest)[0]
}

// restarted waits until the kubelet has started the router's container anew.
func restarted(ctx context.Context, s *suite) error {
	return harness.Until(ctx, time.Minute, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		out, err := s.env.Kubectl(ctx, "-n", portsNamespace, "get", "pod", "router", "-o",
			"jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}")
		return strings.TrimSpace(out) == "1 true", "restarts and readiness: " + out, err
	})
}
