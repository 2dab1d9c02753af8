// SPDX-License-Identifier: Apache-2.0

package hostfacts

import (
	"reflect"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func on(t *testing.T, files tree) reader {
	return reader{Sources: Sources{Root: files.plant(t)}}
}

// The default route goes to nowhere in particular and takes every address: each half alone is another route.
func TestUplink(t *testing.T) {
	const head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
	for name, c := range map[string]struct{ routes, want string }{
		"behind others": {head + "a\t00000000\t0\t1\t0\t0\t0\t00FFFFFF\nb\t0000000A\t0\t1\t0\t0\t0\t00000000\nc\t00000000\t0\t3\t0\t0\t0\t00000000", "c"},
		"cut short":     {head + "a\t00000000\t0\t1\t0\t0\t0", ""},
		"none":          {head + "a\t0000000A\t0\t1\t0\t0\t0\t00FFFFFF", ""},
	} {
		if got := on(t, tree{"proc/net/route": c.routes}).uplink(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Only whole mebibytes count, and only pages that there are; what is left out ends nothing.
func TestHugepageSizes(t *testing.T) {
	const folder = "sys/devices/system/node/node3/hugepages/hugepages-"
	files := tree{}
	for size, counts := range map[string][2]string{
		"1023kB": {"5", "5"}, "1024kB": {"1", "0"}, "16384kB": {"0", "0"}, "2048kB": {"4", "x"}, "32768kB": {"7", "6"},
		"4096kB": {"-1", "0"}, "512kB": {"9", "9"}, "8192kB": {"2", "1"}, "99999999999999999999kB": {"1", "1"}, "xkB": {"1", "1"},
	} {
		files[folder+size+"/nr_hugepages"], files[folder+size+"/free_hugepages"] = counts[0], counts[1]
	}
	want := []v1alpha1.HostHugepages{{PageMebibytes: 1, NUMANode: 3, Pages: 1, Free: 0}, {PageMebibytes: 32, NUMANode: 3, Pages: 7, Free: 6}, {PageMebibytes: 8, NUMANode: 3, Pages: 2, Free: 1}}
	if got := on(t, files).hugepages([]string{"node3"}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A card is of the network's class and can have functions; others stand between cards.
func TestCards(t *testing.T) {
	const bus = "sys/bus/pci/devices/"
	got := on(t, tree{
		bus + "0000:01:00.0/class": "0x010802", bus + "0000:01:00.0/sriov_totalvfs": "8",
		bus + "0000:02:00.0/class": "0x020000", bus + "0000:02:00.0/sriov_totalvfs": "0",
		bus + "0000:03:00.0/class": "0x020000",
		bus + "0000:04:00.0/class": "0x020000", bus + "0000:04:00.0/sriov_totalvfs": "1",
	}).cards()
	if len(got) != 1 || got[0].address != "0000:04:00.0" || got[0].most != 1 {
		t.Errorf("%+v", got)
	}
}

// A function that has no MAC says nothing of those behind it.
func TestSameMACsBehindOneWithout(t *testing.T) {
	all := []v1alpha1.HostFunction{{PCIAddress: "a"}, {PCIAddress: "b", MAC: "1"}, {PCIAddress: "c"}, {PCIAddress: "d", MAC: "1"}, {PCIAddress: "e", MAC: "2"}, {PCIAddress: "f", MAC: "1"}}
	markSameMACs(all)
	want := []string{"", "d", "", "b", "", "b"}
	for i, f := range all {
		if f.SameMACAs != want[i] {
			t.Errorf("%s: %q, want %q", f.PCIAddress, f.SameMACAs, want[i])
		}
	}
}

// A function whose link cannot be read ends nothing either.
func TestFunctionsBehindOneWithoutAddress(t *testing.T) {
	h := Read(Sources{Root: carded.with(tree{pf + "virtfn0": "no link"}).plant(t)})
	if f := h.VirtualFunctions; len(f) != 1 || f[0].PCIAddress != "0000:01:10.2" {
		t.Errorf("%+v", f)
	}
}

func TestNamesThatBeginWithAWord(t *testing.T) {
	r := on(t, tree{"d/node0": "x", "d/node12": "x", "d/nodes": "x", "d/other": "x"})
	for word, want := range map[string][]string{"node": {"node0", "node12"}, "": {"node0", "node12", "nodes", "other"}, "x": nil} {
		if got := r.names("d", word); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", word, got, want)
		}
	}
}

// What a device plugin calls a function is its PCI address, whole; what drives none is none.
func TestNamesOfDevices(t *testing.T) {
	for id, want := range map[string]bool{
		"0000:01:10.0": true, "0000:01:10": false, "0000:01:10.00": false, "10000:01:10.0": false, "GPU-1:01:10.0": false, "zz00:01:10.0": false, "": false,
	} {
		if isPCI(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
	if orNone("") != "none" || orNone("igbvf") != "igbvf" {
		t.Errorf("%q, %q", orNone(""), orNone("igbvf"))
	}
}
