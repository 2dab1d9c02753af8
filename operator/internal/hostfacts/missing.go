// SPDX-License-Identifier: Apache-2.0

package hostfacts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// kubelet says whether it was asked, and why it did not answer.
type kubelet struct {
	asked bool
	err   error
}

// bifurcated are drivers that serve the kernel and DPDK at once: nothing is bound to vfio-pci.
var bifurcated = []string{"mlx4_core", "mlx5_core", "mana"}

// missing is what services on devices lack here. Every entry has a line to add.
func missing(r reader, h *v1alpha1.NodeHost, cards []card, given Given, k kubelet) (out []v1alpha1.HostMissing) {
	add := func(subject, line, format string, args ...any) {
		out = append(out, v1alpha1.HostMissing{Subject: subject, Add: bounded(line, 256), Message: bounded(fmt.Sprintf(format, args...), 512)})
	}
	if h.AFXDP == v1alpha1.AFXDPNone {
		add("AFXDP", "CONFIG_XDP_SOCKETS=y, in the kernel's configuration", "this kernel has no AF_XDP: no service is on AFXDP here")
	}
	if k.err != nil {
		add("Kubelet", "nodes.podResources: the folder of the kubelet's pod-resources socket, in the chart's values",
			"the kubelet does not tell who has which function: %v", k.err)
	}
	functionsGone(r, given, cards, add)
	if len(cards) == 0 {
		return out // nothing that SRIOV could be made of
	}
	if h.IOMMU == v1alpha1.IOMMUOff {
		add("IOMMU", r.iommuLine(), "no IOMMU is in use, and vfio-pci gives no device to a program without")
	}
	if len(h.VirtualFunctions) == 0 {
		add("VirtualFunctions", fmt.Sprintf("echo %d >/sys/bus/pci/devices/%s/sriov_numvfs, at every start", min(cards[0].most, 4), cards[0].address),
			"%s can have %d virtual functions and has none", cards[0].name, cards[0].most)
	}
	if len(r.names("sys/bus/pci/drivers/"+vfioDriver, "")) == 0 {
		add("Module", "vfio-pci, in a file of /etc/modules-load.d", "the driver %s is not there", vfioDriver)
	}
	functionsMissing(h, add)
	if len(h.Hugepages) == 0 {
		add("Hugepages", "vm.nr_hugepages=64, in a file of /etc/sysctl.d, before the kubelet starts", "no hugepages are reserved: packet buffers lie in ordinary memory")
	}
	if k.asked && k.err == nil && h.ExclusiveCPUs == "" {
		add("CPUManager", "cpuManagerPolicy: static, in the kubelet's configuration, with reservedSystemCPUs",
			"the kubelet gives no container CPUs for itself: pods on SRIOV share theirs")
	}
	return out
}

// functionsGone is of devices that pods have and the machine has not any more: their card
// gave its functions up, or was taken away itself.
func functionsGone(r reader, given Given, cards []card, add func(subject, line, format string, args ...any)) {
	var gone []string
	for id := range given.Pods {
		if isPCI(id) && !r.exists(pciDevices+"/"+id) {
			gone = append(gone, id)
		}
	}
	if len(gone) == 0 {
		return
	}
	slices.Sort(gone)
	line := "the card, or its driver"
	if len(cards) > 0 {
		line = fmt.Sprintf("echo %d >/sys/bus/pci/devices/%s/sriov_numvfs, then bind them to %s", min(cards[0].most, int64(len(gone))), cards[0].address, vfioDriver)
	}
	add("FunctionsGone", line, "pods have %d devices that this machine has no more; the first is %s, of pod %s", len(gone), bounded(gone[0], 16), bounded(given.Pods[gone[0]], 317))
}

// isPCI says whether a device's ID is a PCI address, as those of device plugins for
// virtual functions are.
func isPCI(id string) bool {
	var domain, bus, device, function uint
	_, err := fmt.Sscanf(id, "%04x:%02x:%02x.%1x", &domain, &bus, &device, &function) // all of them, or an error
	return err == nil && len(id) == len("0000:00:00.0")
}

// functionsMissing is of virtual functions that nobody can use as they are. The first of
// each kind is named.
func functionsMissing(h *v1alpha1.NodeHost, add func(subject, line, format string, args ...any)) {
	var unbound, down []v1alpha1.HostFunction
	for _, f := range h.VirtualFunctions {
		if f.Driver != vfioDriver && !isBifurcated(f.Driver) {
			unbound = append(unbound, f)
		}
		if f.Link == v1alpha1.LinkDown {
			down = append(down, f)
		}
	}
	if n := len(unbound); n > 0 {
		f := unbound[0]
		add("Driver", "driverctl set-override "+f.PCIAddress+" "+vfioDriver, "%d of %d virtual functions are not bound to %s; %s has %s",
			n, len(h.VirtualFunctions), vfioDriver, f.PCIAddress, orNone(f.Driver))
	}
	if n := len(down); n > 0 {
		add("Link", "ip link set "+down[0].Card+" up", "the links of %d virtual functions are down; the first is %s of %s", n, down[0].PCIAddress, down[0].Card)
	}
}

// iommuLine is what the kernel's command line needs, by the maker of the processor.
func (r reader) iommuLine() string {
	const where = ", on the kernel's command line"
	switch cpus := r.text("proc/cpuinfo"); {
	case strings.Contains(cpus, "GenuineIntel"):
		return "intel_iommu=on iommu=pt" + where
	case strings.Contains(cpus, "AuthenticAMD"):
		return "amd_iommu=on iommu=pt" + where
	}
	return "iommu=pt" + where + ", and the IOMMU switched on in the firmware"
}

func isBifurcated(driver string) bool {
	for _, d := range bifurcated {
		if d == driver {
			return true
		}
	}
	return false
}

func orNone(driver string) string {
	if driver == "" {
		return "none"
	}
	return driver
}
