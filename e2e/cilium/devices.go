// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/cilium/pkg/bpf"
	"github.com/cilium/cilium/pkg/datapath/config"
	"github.com/cilium/cilium/pkg/maps/policymap"
	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
)

const (
	ephemeralMin = 32768
	randomly     = 1 // LBDefaultAlg
)

// node is the part of the constants that all programs of a host share.
func (h *host) node() (config.Node, error) {
	node := *config.NewNode()
	outer, err := linkOf(ciliumHost)
	if err != nil {
		return node, err
	}
	inner, err := linkOf(ciliumNet)
	if err != nil {
		return node, err
	}
	uplink, err := linkOf(h.Device)
	if err != nil {
		return node, err
	}
	node.CiliumHostIfIndex, node.CiliumHostMAC.Addr = uint32(outer.Index), macOf(outer.HardwareAddr)
	node.CiliumNetIfIndex, node.CiliumNetMAC.Addr = uint32(inner.Index), macOf(inner.HardwareAddr)
	node.DirectRoutingDevIfIndex = uint32(uplink.Index)
	node.EnableBPFHostRouting = h.HostRouting
	node.EnableIdentityMark = true
	node.EnableConntrackAccounting = true
	node.SupportsFIBLookupSkipNeigh = true
	node.SupportsFIBLookupSrc = true
	node.EnableNodeportSourceLookup = true
	node.NodeportPortMin, node.NodeportPortMax = 30000, 32767
	node.LBDefaultAlg = randomly
	return node, nil
}

// atHost are the constants of bpf_host for one device.
func atHost(node config.Node, device *netlink.LinkAttrs) *config.BPFHost {
	c := config.NewBPFHost(node)
	c.InterfaceIfIndex, c.InterfaceMAC.Addr = uint32(device.Index), macOf(device.HardwareAddr)
	c.DeviceMTU = uint16(device.MTU)
	c.SecurityLabel, c.HostEPID = identityHost, hostEndpoint
	c.AllowICMPFragNeeded, c.EnableICMPRule = true, true
	c.EphemeralMin = ephemeralMin
	c.EnableIPv4Fragments, c.EnableIPv6Fragments = true, true
	return c
}

// attachments are all of a host, in the order in which Cilium's agent makes them.
func (h *host) attachments() ([]attachment, error) {
	node, err := h.node()
	if err != nil {
		return nil, err
	}
	var all []attachment
	for _, make := range []func(config.Node) (attachment, error){h.onCiliumHost, h.onCiliumNet, h.onOverlay} {
		a, err := make(node)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	for _, p := range h.Pods {
		if !p.here() {
			continue
		}
		a, err := h.onPod(node, p)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	uplink, err := h.onUplink(node)
	return append(all, uplink), err
}

// ofEndpoint gives an endpoint's maps names of their own.
func ofEndpoint(calls string, id uint16) map[string]string {
	return map[string]string{"cilium_calls": bpf.LocalMapName(calls, id), "cilium_policy": bpf.LocalMapName(policymap.MapName, id)}
}

// ofDevice gives a device of the node calls of its own. Its policy is the node's, as Cilium has it: a map for each
// device would be empty, and a host firewall with an empty one refuses everybody.
func ofDevice(index int) map[string]string {
	names := ofEndpoint("cilium_calls_netdev_", hostEndpoint)
	names["cilium_calls"] = bpf.LocalMapName("cilium_calls_netdev_", uint16(index))
	return names
}

func (h *host) onCiliumHost(node config.Node) (attachment, error) {
	device, err := linkOf(ciliumHost)
	if err != nil {
		return attachment{}, err
	}
	p := &hostPrograms{}
	return attachment{object: "bpf_host", device: ciliumHost, constants: atHost(node, device), programs: p,
		renames: ofEndpoint("cilium_calls_hostns_", hostEndpoint),
		wire: func() error {
			return errors.Join(h.admit(hostEndpoint), p.PolicyMap.Update(uint32(hostEndpoint), p.Policy, ebpf.UpdateAny))
		},
		hooks: func() map[ebpf.AttachType]*entry {
			return map[ebpf.AttachType]*entry{ebpf.AttachTCXIngress: {"cil_to_host", p.ToHost}, ebpf.AttachTCXEgress: {"cil_from_host", p.FromHost}}
		}}, nil
}

func (h *host) onCiliumNet(node config.Node) (attachment, error) {
	device, err := linkOf(ciliumNet)
	if err != nil {
		return attachment{}, err
	}
	p := &netPrograms{}
	return attachment{object: "bpf_host", device: ciliumNet, constants: atHost(node, device), programs: p,
		renames: ofDevice(device.Index),
		hooks: func() map[ebpf.AttachType]*entry {
			return map[ebpf.AttachType]*entry{ebpf.AttachTCXIngress: {"cil_to_host", p.ToHost}}
		}}, nil
}

func (h *host) onUplink(node config.Node) (attachment, error) {
	device, err := linkOf(h.Device)
	if err != nil {
		return attachment{}, err
	}
	p := &netdevPrograms{}
	return attachment{object: "bpf_host", device: h.Device, constants: atHost(node, device), programs: p,
		renames: ofDevice(device.Index),
		hooks: func() map[ebpf.AttachType]*entry {
			return map[ebpf.AttachType]*entry{ebpf.AttachTCXIngress: {"cil_from_netdev", p.FromNetdev}, ebpf.AttachTCXEgress: {"cil_to_netdev", p.ToNetdev}}
		}}, nil
}

func (h *host) onOverlay(node config.Node) (attachment, error) {
	device, err := linkOf(ciliumVXLAN)
	if err != nil {
		return attachment{}, err
	}
	c := config.NewBPFOverlay(node)
	c.InterfaceIfIndex, c.InterfaceMAC.Addr = uint32(device.Index), macOf(device.HardwareAddr)
	c.DeviceMTU, c.EphemeralMin = uint16(device.MTU), ephemeralMin
	c.EnableIPv4Fragments, c.EnableIPv6Fragments = true, true
	p := &overlayPrograms{}
	return attachment{object: "bpf_overlay", device: ciliumVXLAN, constants: c, programs: p,
		renames: map[string]string{"cilium_calls": "cilium_calls_overlay_2"},
		hooks: func() map[ebpf.AttachType]*entry {
			return map[ebpf.AttachType]*entry{ebpf.AttachTCXIngress: {"cil_from_overlay", p.FromOverlay}, ebpf.AttachTCXEgress: {"cil_to_overlay", p.ToOverlay}}
		}}, nil
}

func (h *host) onPod(node config.Node, of pod) (attachment, error) {
	device, err := linkOf(of.Device)
	if err != nil {
		return attachment{}, err
	}
	addr, err := netip.ParseAddr(of.Address)
	if err != nil {
		return attachment{}, fmt.Errorf("pod %d: %w", of.ID, err)
	}
	c := config.NewBPFLXC(node)
	c.InterfaceIfIndex, c.InterfaceMAC.Addr = uint32(device.Index), macOf(device.HardwareAddr)
	c.DeviceMTU, c.EphemeralMin = uint16(device.MTU), ephemeralMin
	c.EndpointID, c.SecurityLabel, c.HostEPID = of.ID, identityPods, hostEndpoint
	if addr.Is4() {
		c.EndpointIPv4.Addr = addr.As4()
	} else {
		c.EndpointIPv6.Addr = addr.As16()
	}
	c.AllowICMPFragNeeded, c.EnableICMPRule = true, true
	c.EnableIPv4Fragments, c.EnableIPv6Fragments = true, true
	p := &podPrograms{}
	return attachment{object: "bpf_lxc", device: of.Device, constants: c, programs: p,
		renames: ofEndpoint("cilium_calls_", of.ID),
		wire: func() error {
			return errors.Join(h.admit(of.ID), p.PolicyMap.Update(uint32(of.ID), p.Policy, ebpf.UpdateAny),
				p.EgressPolicyMap.Update(uint32(of.ID), p.EgressPolicy, ebpf.UpdateAny))
		},
		hooks: func() map[ebpf.AttachType]*entry {
			return map[ebpf.AttachType]*entry{ebpf.AttachTCXIngress: {"cil_from_container", p.FromContainer}, ebpf.AttachTCXEgress: {"cil_to_container", p.ToContainer}}
		}}, nil
}
