// SPDX-License-Identifier: Apache-2.0

// Package netstatus says at which address a pod is reached on its service's network.
// Where that is not the pod network, the address stands in one place only: the
// annotation that the attaching plugin (Multus) writes. It is outside text, so it is
// bounded and judged: it is believed if it tells of that network, on that interface,
// with exactly one address per family. Pure; operator and sidecar use it.
package netstatus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

const (
	// AnnotationStatus is where the attaching plugin tells what it gave a pod.
	AnnotationStatus = "k8s.v1.cni.cncf.io/network-status"
	// AnnotationNetworks is where a pod asks for networks.
	AnnotationNetworks = "k8s.v1.cni.cncf.io/networks"
	// Interface is the second interface of every pod that has one.
	Interface = "net1"
)

// Bounds of the annotation. All annotations of an object together are 256 KiB at most.
const (
	maxBytes     = 64 << 10
	maxEntries   = 32
	maxAddresses = 16
)

// Wanted is what a pod asked for.
type Wanted struct {
	// Network is the NetworkAttachmentDefinition, as namespace/name.
	Network string
	// Interface is its name in the pod.
	Interface string
}

// Given is what a pod got.
type Given struct {
	// V4 and V6 are its addresses; one of them may be missing.
	V4, V6 netip.Addr
	// PCI is the address of its device, MAC that of its interface and MTU the largest
	// packet of its network, where the plugin tells them.
	PCI string
	MAC net.HardwareAddr
	MTU int
}

// Address is the one that peers use: IPv4 where there is one.
func (g Given) Address() netip.Addr {
	if g.V4.IsValid() {
		return g.V4
	}
	return g.V6
}

// Refusal says why something is not believed, by a reason of the condition Addressed.
// The zero value refuses nothing.
type Refusal struct{ Reason, Message string }

// None says that nothing was refused.
func (r Refusal) None() bool { return r.Reason == "" }

func refuse(reason, format string, args ...any) Refusal {
	return Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// entry is what the annotation says of one network.
type entry struct {
	Name      string   `json:"name"`
	Interface string   `json:"interface"`
	IPs       []string `json:"ips"`
	MAC       string   `json:"mac"`
	MTU       int      `json:"mtu"`
	Device    struct {
		PCI struct {
			Address string `json:"pci-address"`
		} `json:"pci"`
	} `json:"device-info"`
}

// Judge reads the annotation's text and says what the pod got of what it wanted.
func Judge(text string, wanted Wanted) (Given, Refusal) {
	if strings.TrimSpace(text) == "" {
		return Given{}, refuse(v1alpha1.ReasonNetworkStatusMissing, "annotation %s: absent; Multus writes it when it attaches network %s", AnnotationStatus, wanted.Network)
	}
	entries, err := parse(text)
	if err != nil {
		return Given{}, refuse(v1alpha1.ReasonNetworkStatusMalformed, "annotation %s: %v", AnnotationStatus, err)
	}
	found, seen := -1, []string{}
	for i, e := range entries {
		if e.Name != wanted.Network || e.Interface != wanted.Interface {
			seen = append(seen, clip(e.Name)+" on "+clip(e.Interface))
			continue
		}
		if found >= 0 {
			return Given{}, refuse(v1alpha1.ReasonNetworkNotAttached, "annotation %s: entries %d and %d are both of network %s on %s",
				AnnotationStatus, found, i, wanted.Network, wanted.Interface)
		}
		found = i
	}
	if found < 0 {
		return Given{}, refuse(v1alpha1.ReasonNetworkNotAttached, "annotation %s: no entry of network %s on %s; it tells of %s",
			AnnotationStatus, wanted.Network, wanted.Interface, few(seen))
	}
	return judgeEntry(found, entries[found])
}

func parse(text string) ([]entry, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("must be no longer than %d bytes; got %d", maxBytes, len(text))
	}
	var entries []entry
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&entries); err != nil {
		return nil, fmt.Errorf("must be a JSON list of networks: %s", clip(err.Error()))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("must be one JSON list; something follows it at byte %d", d.InputOffset())
	}
	if len(entries) > maxEntries {
		return nil, fmt.Errorf("must list no more than %d networks; got %d", maxEntries, len(entries))
	}
	return entries, nil
}

// judgeEntry takes one address per family, and the device.
func judgeEntry(at int, e entry) (Given, Refusal) {
	var g Given
	if len(e.IPs) > maxAddresses {
		return g, refuse(v1alpha1.ReasonAddressAmbiguous, "annotation %s: [%d].ips: must list one address per family; got %d", AnnotationStatus, at, len(e.IPs))
	}
	for i, text := range e.IPs {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" || a.Is4In6() || !a.IsGlobalUnicast() {
			return Given{}, refuse(v1alpha1.ReasonNetworkStatusMalformed, "annotation %s: [%d].ips[%d]: must be a unicast IP address that other hosts reach; got %q",
				AnnotationStatus, at, i, clip(text))
		}
		family := &g.V6
		if a.Is4() {
			family = &g.V4
		}
		if family.IsValid() {
			return Given{}, refuse(v1alpha1.ReasonAddressAmbiguous, "annotation %s: [%d].ips: %s and %s are of one family; the network must give one",
				AnnotationStatus, at, *family, a)
		}
		*family = a
	}
	if !g.Address().IsValid() {
		return Given{}, refuse(v1alpha1.ReasonAddressMissing, "annotation %s: [%d].ips: no address; the NetworkAttachmentDefinition needs `ipam`", AnnotationStatus, at)
	}
	if g.PCI = e.Device.PCI.Address; g.PCI != "" && !isPCI(g.PCI) {
		return Given{}, refuse(v1alpha1.ReasonNetworkStatusMalformed, "annotation %s: [%d].device-info.pci.pci-address: must be like 0000:01:10.0; got %q",
			AnnotationStatus, at, clip(g.PCI))
	}
	return judgeLink(at, e, g)
}

// judgeLink takes what is told of the interface itself.
func judgeLink(at int, e entry, g Given) (Given, Refusal) {
	if e.MAC != "" {
		mac, err := net.ParseMAC(e.MAC)
		if err != nil {
			return Given{}, refuse(v1alpha1.ReasonNetworkStatusMalformed, "annotation %s: [%d].mac: must be like 02:00:00:00:00:01; got %q", AnnotationStatus, at, clip(e.MAC))
		}
		g.MAC = mac
	}
	if e.MTU < 0 {
		return Given{}, refuse(v1alpha1.ReasonNetworkStatusMalformed, "annotation %s: [%d].mtu: must be a number of bytes; got %d", AnnotationStatus, at, e.MTU)
	}
	g.MTU = e.MTU
	return g, Refusal{}
}

// isPCI says whether a text is domain:bus:device.function.
func isPCI(text string) bool {
	const form = "xxxx:xx:xx.f"
	if len(text) != len(form) {
		return false
	}
	for i := range len(form) {
		switch c := text[i]; form[i] {
		case 'x':
			if !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) {
				return false
			}
		case 'f':
			if c < '0' || c > '7' {
				return false
			}
		default:
			if c != form[i] {
				return false
			}
		}
	}
	return true
}

// clip keeps messages short whatever they quote.
func clip(text string) string {
	const longest = 80
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}

func few(seen []string) string {
	const most = 4
	switch {
	case len(seen) == 0:
		return "none"
	case len(seen) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(seen[:most], ", "), len(seen)-most)
	}
	return strings.Join(seen, ", ")
}
