// SPDX-License-Identifier: Apache-2.0

package hostfacts

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// tree is a false machine: files by their paths, and links that begin with "->".
type tree map[string]string

func (m tree) plant(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range m {
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, link := strings.CutPrefix(text, "->"); link {
			err = os.Symlink(to, full)
		} else {
			err = os.WriteFile(full, []byte(text+"\n"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func (m tree) with(more tree) tree {
	out := tree{}
	for _, one := range []tree{m, more} {
		for k, v := range one {
			if out[k] = v; v == "" {
				delete(out, k)
			}
		}
	}
	return out
}

const (
	pf  = "sys/bus/pci/devices/0000:01:00.0/"
	vf0 = "sys/bus/pci/devices/0000:01:10.0/"
	vf2 = "sys/bus/pci/devices/0000:01:10.2/"
)

// bare has no card, no hugepages and one NUMA node.
var bare = tree{
	"sys/devices/system/node/node0/cpulist": "0-3", "sys/devices/system/cpu/isolated": "2-3",
	"sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages":   "0",
	"sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages": "0",
	"proc/net/protocols": "protocol  size\nXDP       960      0      -1   NI       0", "proc/cpuinfo": "vendor_id\t: GenuineIntel",
	"proc/net/route": "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\nens1\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\n",
}

// carded has all that SRIOV needs: a card on node 1 with two functions on vfio-pci.
var carded = bare.with(tree{
	pf + "class": "0x020000", pf + "sriov_totalvfs": "7", pf + "sriov_numvfs": "2", pf + "numa_node": "1", pf + "net/ens5/operstate": "up",
	pf + "virtfn0": "->../0000:01:10.0", pf + "virtfn1": "->../0000:01:10.2",
	vf0 + "driver": "->../../../bus/pci/drivers/vfio-pci", vf0 + "enable": "1", vf0 + "class": "0x020000",
	vf2 + "driver": "->../../../bus/pci/drivers/vfio-pci", vf2 + "enable": "0", vf2 + "class": "0x020000",
	"sys/bus/pci/drivers/vfio-pci/bind": "x", "sys/class/iommu/dmar0": "->../../devices/virtual/iommu/dmar0",
	"sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages":      "128",
	"sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages":    "90",
	"sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages":   "2",
	"sys/devices/system/node/node1/hugepages/hugepages-1048576kB/free_hugepages": "2",
})

func links(macs ...string) func(string) map[int]VirtualLink {
	return func(card string) map[int]VirtualLink {
		out := map[int]VirtualLink{}
		for i, mac := range macs {
			out[i] = VirtualLink{MAC: mac}
		}
		if card != "ens5" {
			return nil
		}
		return out
	}
}

func gives(g Given) func() (Given, error) { return func() (Given, error) { return g, nil } }

// A machine with everything: each fact is where it belongs, and nothing is missing.
func TestAMachineWithEverything(t *testing.T) {
	h := Read(Sources{
		Root: carded.plant(t), Links: links("02:00:00:00:00:01", "02:00:00:00:00:02"),
		XDP: func(device string) XDPFeatures { return XDPFeatures{Native: device == "ens1"} },
		Kubelet: gives(Given{
			Resources: map[string]string{"0000:01:10.0": "intel.com/vfs", "0000:01:10.2": "intel.com/vfs"},
			Pods:      map[string]string{"0000:01:10.0": "shop/server-1"}, CPUs: []int64{3, 1, 2, 6},
		}),
	})
	want := &v1alpha1.NodeHost{
		NUMANodes: 2, IsolatedCPUs: "2-3", ExclusiveCPUs: "1-3,6", IOMMU: v1alpha1.IOMMUOn, AFXDP: v1alpha1.AFXDPNative,
		Hugepages: []v1alpha1.HostHugepages{{PageMebibytes: 1024, NUMANode: 1, Pages: 2, Free: 2}, {PageMebibytes: 2, NUMANode: 1, Pages: 128, Free: 90}},
		VirtualFunctions: []v1alpha1.HostFunction{
			{PCIAddress: "0000:01:10.0", Card: "ens5", Resource: "intel.com/vfs", Driver: "vfio-pci", Link: v1alpha1.LinkUp, MAC: "02:00:00:00:00:01", NUMANode: 1,
				Use: v1alpha1.UsePod, Pod: "shop/server-1"},
			{PCIAddress: "0000:01:10.2", Card: "ens5", Resource: "intel.com/vfs", Driver: "vfio-pci", Link: v1alpha1.LinkUp, MAC: "02:00:00:00:00:02", NUMANode: 1, Use: v1alpha1.UseFree},
		},
	}
	h.Power = nil // TestPower's
	if !reflect.DeepEqual(h, want) {
		t.Errorf("got\n%+v\nwant\n%+v", h, want)
	}
}

// Who has a function: its pod, nobody, or something that is no pod of this node, by the
// driver of the kernel as by vfio-pci. Without the kubelet nobody says.
func TestWhoHasAFunction(t *testing.T) {
	kernel := tree{vf2 + "driver": "->../../../bus/pci/drivers/igbvf", vf2 + "net/ens5v1/operstate": "up", vf2 + "net/ens5v1/address": "02:00:00:00:00:22"}
	for name, c := range map[string]struct {
		files   tree
		kubelet func() (Given, error)
		want    [2]v1alpha1.HostUse
	}{
		"open without a pod":                       {nil, gives(Given{}), [2]v1alpha1.HostUse{v1alpha1.UseOrphan, v1alpha1.UseFree}},
		"of a pod":                                 {nil, gives(Given{Pods: map[string]string{"0000:01:10.0": "a/b"}}), [2]v1alpha1.HostUse{v1alpha1.UsePod, v1alpha1.UseFree}},
		"an interface that is here":                {kernel, gives(Given{}), [2]v1alpha1.HostUse{v1alpha1.UseOrphan, v1alpha1.UseFree}},
		"an interface that is gone":                {tree{vf2 + "driver": kernel[vf2+"driver"]}, gives(Given{}), [2]v1alpha1.HostUse{v1alpha1.UseOrphan, v1alpha1.UseOrphan}},
		"without driver":                           {tree{vf0 + "driver": ""}, gives(Given{}), [2]v1alpha1.HostUse{v1alpha1.UseFree, v1alpha1.UseFree}},
		"a kubelet that is not asked":              {nil, nil, [2]v1alpha1.HostUse{v1alpha1.UseUnknown, v1alpha1.UseUnknown}},
		"a kubelet that starts and does not speak": {nil, func() (Given, error) { return Given{}, errors.New("refused") }, [2]v1alpha1.HostUse{v1alpha1.UseUnknown, v1alpha1.UseUnknown}},
	} {
		h := Read(Sources{Root: carded.with(c.files).plant(t), Kubelet: c.kubelet})
		if got := [2]v1alpha1.HostUse{h.VirtualFunctions[0].Use, h.VirtualFunctions[1].Use}; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// One MAC of two functions is told of both, an empty one of none; a link is down when the
// card's is, its own is, or its administrator set it down.
func TestMACsAndLinks(t *testing.T) {
	h := Read(Sources{Root: carded.plant(t), Links: links("02:00:00:00:00:01", "02:00:00:00:00:01")})
	if f := h.VirtualFunctions; f[0].SameMACAs != f[1].PCIAddress || f[1].SameMACAs != f[0].PCIAddress {
		t.Errorf("one MAC twice: %+v", f)
	}
	h = Read(Sources{Root: carded.plant(t), Links: links("00:00:00:00:00:00", "00:00:00:00:00:00")})
	if f := h.VirtualFunctions; f[0].SameMACAs != "" || f[0].MAC != "" {
		t.Errorf("no MAC twice: %+v", f)
	}
	own := tree{vf2 + "driver": "->../../../bus/pci/drivers/igbvf", vf2 + "net/v/operstate": "down"}
	for name, c := range map[string]struct {
		files tree
		links func(string) map[int]VirtualLink
		want  v1alpha1.HostLink
	}{
		"up": {nil, nil, v1alpha1.LinkUp}, "the card's": {tree{pf + "net/ens5/operstate": "down"}, nil, v1alpha1.LinkDown},
		"its own": {own, nil, v1alpha1.LinkDown}, "a card without interface": {tree{pf + "net/ens5/operstate": ""}, nil, v1alpha1.LinkUnknown},
		"set down": {nil, func(string) map[int]VirtualLink { return map[int]VirtualLink{1: {Down: true}} }, v1alpha1.LinkDown},
	} {
		h := Read(Sources{Root: carded.with(c.files).plant(t), Links: c.links})
		if got := h.VirtualFunctions[1].Link; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What is missing is told with the line to add. A machine without a card for it lacks nothing.
func TestWhatIsMissing(t *testing.T) {
	static := gives(Given{CPUs: []int64{1}})
	for name, c := range map[string]struct {
		files   tree
		kubelet func() (Given, error)
		want    map[string]string // the line begins so, by subject
	}{
		"nothing, without a card":  {bare, nil, map[string]string{}},
		"the kubelet, without one": {bare, func() (Given, error) { return Given{}, errors.New("refused") }, map[string]string{"Kubelet": "nodes.podResources"}},
		"no AF_XDP":                {bare.with(tree{"proc/net/protocols": "protocol\nUDP "}), nil, map[string]string{"AFXDP": "CONFIG_XDP_SOCKETS=y"}},
		"nothing, with one":        {carded, static, map[string]string{}},
		"IOMMU of Intel":           {carded.with(tree{"sys/class/iommu/dmar0": ""}), static, map[string]string{"IOMMU": "intel_iommu=on"}},
		"IOMMU of AMD": {carded.with(tree{"sys/class/iommu/dmar0": "", "proc/cpuinfo": "vendor_id\t: AuthenticAMD"}), static,
			map[string]string{"IOMMU": "amd_iommu=on"}},
		"IOMMU of another": {carded.with(tree{"sys/class/iommu/dmar0": "", "proc/cpuinfo": "Features: fp"}), static, map[string]string{"IOMMU": "iommu=pt"}},
		"functions":        {carded.with(tree{pf + "virtfn0": "", pf + "virtfn1": ""}), static, map[string]string{"VirtualFunctions": "echo 4 >/sys/bus/pci/devices/0000:01:00.0/sriov_numvfs"}},
		"the module":       {carded.with(tree{"sys/bus/pci/drivers/vfio-pci/bind": ""}), static, map[string]string{"Module": "vfio-pci"}},
		"their driver": {carded.with(tree{vf2 + "driver": "->../drivers/igbvf", vf2 + "net/v/operstate": "up"}), static,
			map[string]string{"Driver": "driverctl set-override 0000:01:10.2 vfio-pci"}},
		"not of a driver for both": {carded.with(tree{vf2 + "driver": "->../drivers/mlx5_core", vf2 + "net/v/operstate": "up"}), static, map[string]string{}},
		"their link":               {carded.with(tree{pf + "net/ens5/operstate": "down"}), static, map[string]string{"Link": "ip link set ens5 up"}},
		"hugepages": {carded.with(tree{
			"sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages":    "0",
			"sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages": "0",
		}), static, map[string]string{"Hugepages": "vm.nr_hugepages=64"}},
		"functions that pods have": {carded, gives(Given{CPUs: []int64{1}, Pods: map[string]string{"0000:01:10.0": "a/b", "0000:01:10.6": "a/c", "0000:01:10.4": "a/d", "gpu-7": "a/e"}}),
			map[string]string{"FunctionsGone": "echo 2 >/sys/bus/pci/devices/0000:01:00.0/sriov_numvfs"}},
		"a whole card that a pod has": {bare, gives(Given{Pods: map[string]string{"0000:05:00.0": "a/b"}}), map[string]string{"FunctionsGone": "the card, or its driver"}},
		"CPUs":                        {carded, gives(Given{}), map[string]string{"CPUManager": "cpuManagerPolicy: static"}},
		"the kubelet":                 {carded, func() (Given, error) { return Given{}, errors.New("refused") }, map[string]string{"Kubelet": "nodes.podResources"}},
	} {
		h := Read(Sources{Root: c.files.plant(t), Kubelet: c.kubelet})
		got := map[string]bool{}
		for _, m := range h.Missing {
			if want, ok := c.want[m.Subject]; !ok || !strings.HasPrefix(m.Add, want) || m.Message == "" {
				t.Errorf("%s: %+v, want %v", name, m, c.want)
			}
			got[m.Subject] = true
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// No file may be one that a kernel would write: the fields keep their bounds.
func TestHostileFiles(t *testing.T) {
	long := strings.Repeat("9", 5000)
	h := Read(Sources{Root: carded.with(tree{
		"sys/devices/system/cpu/isolated": long, vf0 + "driver": "->../" + strings.Repeat("d", 200), vf0 + "net/v/address": long, pf + "numa_node": "x",
		"sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages": "many", "sys/devices/system/node/node1/hugepages/hugepages-99999999999999999999kB/nr_hugepages": "1",
	}).plant(t)})
	f := h.VirtualFunctions[0]
	if len(h.IsolatedCPUs) > 128 || len(f.Driver) > 64 || len(f.MAC) > 17 || f.NUMANode != -1 || len(h.Hugepages) != 1 {
		t.Errorf("%+v", h)
	}
	if h := Read(Sources{Root: t.TempDir()}); h.IOMMU != v1alpha1.IOMMUOff || h.AFXDP != v1alpha1.AFXDPNone || h.NUMANodes != 0 {
		t.Errorf("a machine without files: %+v", h)
	}
}
