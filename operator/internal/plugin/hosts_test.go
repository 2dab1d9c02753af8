// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// What nodes tell of themselves is printed, and what is missing or wrong there with what
// to do. A node of which only CRAB tells is left out.
func TestCheckTellsWhatNodesHave(t *testing.T) {
	s, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	host := &v1alpha1.NodeHost{
		IOMMU: v1alpha1.IOMMUOff, AFXDP: v1alpha1.AFXDPNative, IsolatedCPUs: "2-3",
		Hugepages: []v1alpha1.HostHugepages{{PageMebibytes: 2, NUMANode: 1, Pages: 64, Free: 30}},
		VirtualFunctions: []v1alpha1.HostFunction{
			{PCIAddress: "0000:01:10.0", Driver: "vfio-pci", Resource: "intel.com/vfs", SameMACAs: "0000:01:10.2", Use: v1alpha1.UsePod},
			{PCIAddress: "0000:01:10.2", Driver: "vfio-pci", Resource: "intel.com/vfs", SameMACAs: "0000:01:10.0", Use: v1alpha1.UseOrphan},
			{PCIAddress: "0000:01:10.4"},
		},
		Missing: []v1alpha1.HostMissing{{Subject: "IOMMU", Message: "no IOMMU is in use", Add: "intel_iommu=on iommu=pt"}},
	}
	c := &cluster{Client: fake.NewClientBuilder().WithScheme(s).WithObjects(
		&v1alpha1.NodeDataplane{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
		&v1alpha1.NodeDataplane{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: v1alpha1.NodeDataplaneStatus{Host: host}},
	).Build()}
	want := []verdict{
		{"node a", fine, "AF_XDP Native, IOMMU Off, 2 virtual functions of intel.com/vfs on vfio-pci, 1 virtual functions without driver, " +
			"30 of 64 hugepages of 2 MiB free on node 1, CPUs 2-3 isolated", ""},
		{"node a", warning, "IOMMU: no IOMMU is in use", "add intel_iommu=on iommu=pt"},
		{"node a", warning, "virtual functions with one MAC: 0000:01:10.0, 0000:01:10.2", "ip link set CARD vf N mac MAC, another for each"},
		{"node a", warning, "virtual functions in use without a pod: 0000:01:10.2", "look who has them; no pod gets them: " + hostsGuide},
	}
	got := c.hosts(t.Context())
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	}
}

// Before anything is installed a node itself says the same, without a cluster.
func TestCheckOfThisHost(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc/net"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "proc/net/protocols"), []byte("UDP \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := thisHost(root)
	if len(got) != 2 || !strings.Contains(got[0].Says, "AF_XDP None, IOMMU Off, no virtual functions, no hugepages") || !strings.Contains(got[1].Next, "CONFIG_XDP_SOCKETS") {
		t.Errorf("%+v", got)
	}
}
