// SPDX-License-Identifier: Apache-2.0

package hostfacts

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

const (
	pciDevices = "sys/bus/pci/devices"
	// networkClass begins the class of every network controller.
	networkClass = "0x02"
	vfioDriver   = "vfio-pci"
	noMAC        = "00:00:00:00:00:00"
)

// card is a physical function that can have virtual ones.
type card struct {
	address, name string // name is of its interface; of itself where it has none
	link          v1alpha1.HostLink
	most          int64
	node          int64
}

// cards are the network cards that can have virtual functions.
func (r reader) cards() (out []card) {
	for _, address := range r.names(pciDevices, "") {
		folder := pciDevices + "/" + address
		most := r.number(folder + "/sriov_totalvfs")
		if most <= 0 || !strings.HasPrefix(r.text(folder+"/class"), networkClass) {
			continue
		}
		c := card{address: address, name: bounded(address, 16), link: v1alpha1.LinkUnknown, most: most, node: r.number(folder + "/numa_node")}
		if own := r.names(folder+"/net", ""); len(own) > 0 {
			c.name, c.link = bounded(own[0], 16), r.state(folder+"/net/"+own[0])
		}
		out = append(out, c)
	}
	return out
}

// state of an interface: a device that never tells is as good as up.
func (r reader) state(folder string) v1alpha1.HostLink {
	switch r.text(folder + "/operstate") {
	case "":
		return v1alpha1.LinkUnknown
	case "up", "unknown":
		return v1alpha1.LinkUp
	}
	return v1alpha1.LinkDown
}

// functions of a card, as it lists them.
func (r reader) functions(c card, given Given, known bool) (out []v1alpha1.HostFunction) {
	var told map[int]VirtualLink
	if r.Links != nil {
		told = r.Links(c.name)
	}
	for _, name := range r.names(pciDevices+"/"+c.address, "virtfn") {
		number, _ := strconv.Atoi(strings.TrimPrefix(name, "virtfn"))
		address := r.target(pciDevices + "/" + c.address + "/" + name)
		if address == "" {
			continue
		}
		out = append(out, r.function(c, bounded(address, 16), told[number], given, known))
	}
	return out
}

func (r reader) function(c card, address string, told VirtualLink, given Given, known bool) v1alpha1.HostFunction {
	folder := pciDevices + "/" + address
	f := v1alpha1.HostFunction{
		PCIAddress: address, Card: c.name, Driver: bounded(r.target(folder+"/driver"), 64), Link: c.link, MAC: told.MAC,
		NUMANode: int32(max(c.node, -1)), Resource: bounded(given.Resources[address], 127), Pod: given.Pods[address], // #nosec G115 -- of nodes
	}
	own := r.names(folder+"/net", "")
	if len(own) > 0 {
		f.MAC = cmp.Or(r.text(folder+"/net/"+own[0]+"/address"), f.MAC)
		if c.link != v1alpha1.LinkDown {
			f.Link = r.state(folder + "/net/" + own[0])
		}
	}
	if told.Down {
		f.Link = v1alpha1.LinkDown
	}
	if f.MAC == noMAC {
		f.MAC = "" // its driver takes one at random
	}
	f.MAC = bounded(f.MAC, 17)
	f.Use = use(f, r.held(folder, f.Driver, len(own) > 0), known)
	return f
}

// held says whether something has a function. vfio-pci enables a device while somebody has
// it open; a driver of the kernel always does, and then its interface is gone from this
// network namespace.
func (r reader) held(folder, driver string, here bool) bool {
	switch driver {
	case "":
		return false
	case vfioDriver:
		return r.number(folder+"/enable") > 0
	}
	return !here
}

func use(f v1alpha1.HostFunction, held, known bool) v1alpha1.HostUse {
	switch {
	case !known:
		return v1alpha1.UseUnknown
	case f.Pod != "":
		return v1alpha1.UsePod
	case held:
		return v1alpha1.UseOrphan
	}
	return v1alpha1.UseFree
}
