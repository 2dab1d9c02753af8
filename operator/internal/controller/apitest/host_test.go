// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/host"
)

// What a node has stands in its NodeDataplane beside what an agent of CRAB writes there,
// and follows the machine; neither takes the other's away.
func TestWhatANodeHasBesideCRAB(t *testing.T) {
	t.Parallel()
	needs.APIServer(t)
	const name = "node-that-tells"
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const card = "sys/bus/pci/devices/0000:01:00.0/"
	write("sys/devices/system/cpu/isolated", "2-3")
	write(card+"class", "0x020000")
	write(card+"sriov_totalvfs", "7")
	write("sys/bus/pci/devices/0000:01:10.0/numa_node", "0")
	if err := os.Symlink("../0000:01:10.0", filepath.Join(root, card, "virtfn0")); err != nil {
		t.Fatal(err)
	}
	if err := direct.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- host.Run(ctx, config, host.Options{Node: name, Root: root, Every: time.Second}) }()
	got := &v1alpha1.NodeDataplane{}
	wait := func(what string, is func() bool) {
		t.Helper()
		eventually(t, what, func() (bool, string) {
			if err := direct.Get(context.Background(), client.ObjectKey{Name: name}, got); err != nil {
				return false, err.Error()
			}
			return is(), fmt.Sprintf("%+v %+v", got.Status, got.Status.Host)
		})
	}
	wait("the node tells of its function, its CPUs and what it lacks", func() bool {
		h := got.Status.Host
		return h != nil && h.IsolatedCPUs == "2-3" && len(h.VirtualFunctions) == 1 && h.VirtualFunctions[0].Use == v1alpha1.UseUnknown && len(h.Missing) >= 3
	})
	crab := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "bobtail.dev/v1alpha1", "kind": "NodeDataplane", "metadata": map[string]any{"name": name},
		"status": map[string]any{"agentVersion": "1.0", "ownedVIPs": int64(3)}}}
	if err := direct.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(crab), client.FieldOwner("bobtail-agent"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	write("sys/devices/system/cpu/isolated", "")
	wait("the node tells that no CPU is isolated any more, and CRAB's part stays", func() bool {
		return got.Status.Host != nil && got.Status.Host.IsolatedCPUs == "" && got.Status.OwnedVIPs == 3 && got.Status.AgentVersion == "1.0" && got.RunsCRAB()
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
