// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/cilium/cilium/pkg/bpf"
	cmtypes "github.com/cilium/cilium/pkg/clustermesh/types"
	"github.com/cilium/cilium/pkg/loadbalancer"
	lbmaps "github.com/cilium/cilium/pkg/loadbalancer/maps"
	"github.com/cilium/cilium/pkg/mac"
	"github.com/cilium/cilium/pkg/maps/ipcache"
	"github.com/cilium/cilium/pkg/maps/lxcmap"
	"github.com/cilium/cilium/pkg/maps/policymap"
	"github.com/cilium/cilium/pkg/u8proto"
	"github.com/cilium/ebpf"
)

// endpointsMap says where endpoints of this node are.
const endpointsMap = "cilium_lxc"

// write puts one entry into a pinned map.
func (h *host) write(name string, key, value any) error {
	m, err := ebpf.LoadPinnedMap(filepath.Join(h.globals(), name), nil)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.Put(key, value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// fill writes what Cilium's agent would learn from the API server: who has which address, and where packets go.
func (h *host) fill() error {
	if err := h.identities(); err != nil {
		return err
	}
	for _, p := range h.Pods {
		if !p.here() {
			continue
		}
		if err := h.endpoint(p); err != nil {
			return fmt.Errorf("pod %d: %w", p.ID, err)
		}
	}
	for _, s := range h.Services {
		if err := h.nodePort(s); err != nil {
			return fmt.Errorf("node port %d: %w", s.NodePort, err)
		}
	}
	return nil
}

// identities says who an address belongs to.
func (h *host) identities() error {
	known := map[netip.Prefix]uint32{netip.MustParsePrefix("0.0.0.0/0"): identityWorld, netip.MustParsePrefix("::/0"): identityWorld}
	for _, group := range []struct {
		addresses []string
		identity  uint32
	}{{h.Own, identityHost}, {h.Nodes, identityRemoteNode}} {
		all, err := parseAll(group.addresses)
		if err != nil {
			return err
		}
		for _, a := range all {
			known[netip.PrefixFrom(a, a.BitLen())] = group.identity
		}
	}
	for _, p := range h.Pods {
		a, err := netip.ParseAddr(p.Address)
		if err != nil {
			return err
		}
		known[netip.PrefixFrom(a, a.BitLen())] = identityPods
	}
	for prefix, identity := range known {
		value := ipcache.NewValue(identity, netip.Addr{}, 0, 0)
		if err := h.write(ipcache.Name, ipcache.NewKey(prefix, 0), &value); err != nil {
			return err
		}
	}
	own, err := h.addresses()
	if err != nil {
		return err
	}
	for _, a := range own { // packets to the node itself go up
		if err := h.write(endpointsMap, bpf.NewEndpointKey(a, 0), &lxcmap.EndpointInfo{Flags: lxcmap.EndpointFlagHost}); err != nil {
			return err
		}
	}
	return nil
}

// endpoint says where a pod is.
func (h *host) endpoint(p pod) error {
	device, err := linkOf(p.Device)
	if err != nil {
		return err
	}
	addr, err := netip.ParseAddr(p.Address)
	if err != nil {
		return err
	}
	inside, err := mac.ParseMAC(p.MAC)
	if err != nil {
		return err
	}
	its, err := inside.Uint64()
	if err != nil {
		return err
	}
	ours, err := mac.MAC(device.HardwareAddr).Uint64()
	if err != nil {
		return err
	}
	info := &lxcmap.EndpointInfo{IfIndex: uint32(device.Index), LxcID: p.ID, MAC: its, NodeMAC: ours, SecID: identityPods}
	return h.write(endpointsMap, bpf.NewEndpointKey(addr, 0), info)
}

// admit is the policy of an endpoint that no policy selects: everybody, both ways. Programs that judge nothing have no such map.
func (h *host) admit(id uint16) error {
	for direction := range uint8(2) {
		key := &policymap.PolicyKey{Prefixlen: policymap.StaticPrefixBits, TrafficDirection: direction}
		if err := h.write(bpf.LocalMapName(policymap.MapName, id), key, &policymap.PolicyEntry{}); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// nodePort is a Service with one backend, at every address of the node.
func (h *host) nodePort(s service) error {
	own, err := h.addresses()
	if err != nil {
		return err
	}
	for i, a := range own {
		if err := h.serve(a, s, s.ID+uint16(i)); err != nil {
			return err
		}
	}
	return nil
}

// serve writes the backend, the way back, and last what makes both be found, as Cilium's load balancer does.
func (h *host) serve(frontend netip.Addr, s service, id uint16) error {
	backend, err := netip.ParseAddr(s.Backend)
	if err != nil {
		return err
	}
	if !frontend.Is4() || !backend.Is4() {
		return fmt.Errorf("%s to %s: only IPv4 is written here", frontend, backend)
	}
	flags := loadbalancer.NewSvcFlag(&loadbalancer.SvcFlagParam{SvcType: loadbalancer.SVCTypeNodePort, IsRoutable: true})
	master := &lbmaps.Service4Value{Count: 1, RevNat: id}
	master.SetFlags(flags.UInt16())
	slot := &lbmaps.Service4Value{BackendID: uint32(id), RevNat: id}
	slot.SetFlags(flags.UInt16())
	value, err := lbmaps.NewBackend4ValueV3(cmtypes.AddrClusterFrom(backend, 0), s.Port, u8proto.TCP, loadbalancer.BackendStateActive, 0)
	if err != nil {
		return err
	}
	key := func(slot uint16) lbmaps.ServiceKey {
		return lbmaps.NewService4Key(net.IP(frontend.AsSlice()), s.NodePort, u8proto.TCP, loadbalancer.ScopeExternal, slot).ToNetwork()
	}
	back := &lbmaps.RevNat4Value{Address: frontend.As4(), Port: s.NodePort}
	for _, e := range []struct {
		name       string
		key, value any
	}{
		{lbmaps.RevNat4MapName, lbmaps.NewRevNat4Key(loadbalancer.ServiceID(id)).ToNetwork(), back.ToNetwork()},
		{lbmaps.Backend4MapV3Name, lbmaps.NewBackend4KeyV3(loadbalancer.BackendID(id)), value.ToNetwork()},
		{lbmaps.Service4MapV2Name, key(1), slot.ToNetwork()},
		{lbmaps.Service4MapV2Name, key(0), master.ToNetwork()},
	} {
		if err := h.write(e.name, e.key, e.value); err != nil {
			return err
		}
	}
	return nil
}
