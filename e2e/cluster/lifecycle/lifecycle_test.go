// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

func manager(t *testing.T) *Manager {
	t.Helper()
	st, err := layout.OpenState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &Manager{State: st, Out: io.Discard}
}

func TestFailedStepNamesStepLogAndCause(t *testing.T) {
	m := manager(t)
	if err := os.MkdirAll(m.State.LogDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	log := m.State.Log("etcd")
	if err := os.WriteFile(log, []byte("first\n"+strings.Repeat("more\n", 10)+"bind: address in use\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("no answer")
	err := m.step("starting etcd", log, "the port is taken", func() error { return cause })
	for _, want := range []string{"starting etcd", "no answer", log, "bind: address in use", "the port is taken"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	if strings.Contains(fmt.Sprint(err), "first") {
		t.Errorf("the whole log was quoted: %v", err)
	}
	if !errors.Is(err, cause) {
		t.Error("the cause is lost")
	}
	outer := m.step("starting everything", "", "", func() error { return err })
	if !strings.Contains(outer.Error(), `"starting etcd"`) || strings.Contains(outer.Error(), "everything") {
		t.Errorf("the innermost step must be named: %v", outer)
	}
}

func TestPollGivesTheLastReason(t *testing.T) {
	n := 0
	err := poll(30*time.Millisecond, time.Millisecond, func() error { n++; return fmt.Errorf("try %d", n) })
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("try %d", n)) || n < 2 {
		t.Errorf("%d tries: %v", n, err)
	}
	if err := poll(0, time.Hour, func() error { return nil }); err != nil {
		t.Errorf("success at the first try needs no time: %v", err)
	}
}

// Everything that can be started must also be ended and shown.
func TestProcessesCoversEveryNode(t *testing.T) {
	all := " " + strings.Join(processes([]string{"a", "b"}), " ") + " "
	for _, want := range []string{"etcd", "apiserver", "controller-manager", "scheduler", "forwarder", "control-plane",
		"kubelet-a", "kubelet-b", "kube-proxy-b", "containerd-a", "node-b"} {
		if !strings.Contains(all, " "+want+" ") {
			t.Errorf("%s is missing in%s", want, all)
		}
	}
}

func TestPKIIsCompleteAndNodesAreNodes(t *testing.T) {
	m := manager(t)
	if err := os.MkdirAll(m.State.PKI(""), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := m.makePKI(netns.Plan([]string{"a", "b"}, false)); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"ca.crt", "sa.key", "sa.crt", "apiserver.crt", "admin.kubeconfig", "scheduler.kubeconfig", "kubelet-b.kubeconfig", "kube-proxy.kubeconfig"} {
		if _, err := os.Stat(m.State.PKI(f)); err != nil {
			t.Error(err)
		}
	}
	info, err := os.Stat(m.State.PKI("ca.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the authority's key is readable by others: %v, %v", info.Mode(), err)
	}
	s := subjects(netns.Plan([]string{"a"}, false))["kubelet-a"]
	if s.User != "system:node:node-a" || s.Groups[0] != "system:nodes" {
		t.Errorf("the node authorizer will not know %+v", s)
	}
}

func TestDownOnNothingDoesNothing(t *testing.T) {
	privileged.Need(t, "looks after namespaces, mounts and cgroups")
	items, err := manager(t).Down()
	if err != nil || len(items) != 0 {
		t.Errorf("%v, %v", items, err)
	}
}

func TestCommandsWithoutClusterSayHowToStartOne(t *testing.T) {
	m := manager(t)
	_, execErr := m.ExecNode("a", []string{"true"})
	_, statusErr := m.Status()
	for name, err := range map[string]error{"exec": execErr, "status": statusErr, "stop": m.StopAPIServer(), "start": m.StartAPIServer(), "load": m.LoadImages(nil), "check": m.Prove(), "kubelet": m.RestartKubelet("a")} {
		if !errors.Is(err, layout.ErrNoCluster) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProveManifestPinsOnePodToEachNode(t *testing.T) {
	y := proveManifest([]string{"a", "b"})
	if strings.Count(y, "kind: Pod") != 2 || !strings.Contains(y, "nodeName: node-a") || !strings.Contains(y, "nodeName: node-b") || strings.Contains(y, "%!") {
		t.Error(y)
	}
}

// A registry's port is no tag, and an archive without a name has nothing to pin.
func TestPinnedNamesAreThoseOfARegistry(t *testing.T) {
	got := pinnedNames("localhost/bobtail/operator:0.2.0=sha256:11 registry:5000/team/x:1=sha256:22 registry:5000/x=sha256:33 =sha256:44 plain:1=")
	want := map[string]string{"localhost/bobtail/operator:0.2.0": "localhost/bobtail/operator@sha256:11", "registry:5000/team/x:1": "registry:5000/team/x@sha256:22"}
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
