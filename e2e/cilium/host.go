// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
)

// host is one node: the program runs in its network.
type host struct {
	BPFFS   string   `json:"bpffs"`   // a folder of its own on a bpffs
	Objects string   `json:"objects"` // of one variant
	Device  string   `json:"device"`  // the uplink
	Own     []string `json:"own"`     // addresses of the node
	Nodes   []string `json:"nodes"`   // addresses of other nodes
	// HostRouting delivers to pods past the host's stack and the host's end of their veths.
	HostRouting bool      `json:"hostRouting"`
	Pods        []pod     `json:"pods"`
	Services    []service `json:"services"`
}

// pod is an endpoint of this node, or of another one, where it has an address only.
type pod struct {
	ID      uint16 `json:"id"`
	Device  string `json:"device"` // the host's end; "": it is elsewhere
	Address string `json:"address"`
	MAC     string `json:"mac"`
}

func (p pod) here() bool { return p.Device != "" }

// service is a node port with one backend, at every address of the node.
type service struct {
	ID       uint16 `json:"id"`
	NodePort uint16 `json:"nodePort"`
	Backend  string `json:"backend"`
	Port     uint16 `json:"port"`
}

// The identities that the programs meet: Cilium's agent would get a pod's from its labels.
const (
	identityHost       = 1
	identityWorld      = 2
	identityRemoteNode = 6
	identityPods       = 10_000

	hostEndpoint = 1
)

func readHost(path string) (*host, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	h := &host{}
	if err := json.Unmarshal(raw, h); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if h.BPFFS == "" || h.Objects == "" || h.Device == "" || len(h.Own) == 0 {
		return nil, fmt.Errorf("%s: bpffs, objects, device and own are needed", path)
	}
	return h, nil
}

// globals is where Cilium pins maps, links where it pins a device's links.
func (h *host) globals() string { return filepath.Join(h.BPFFS, "tc/globals") }

func (h *host) links(device string) string {
	return filepath.Join(h.BPFFS, "cilium/devices", device, "links")
}

// families are those of the node's addresses.
func (h *host) addresses() (all []netip.Addr, err error) { return parseAll(h.Own) }

func parseAll(list []string) (all []netip.Addr, err error) {
	for _, s := range list {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// Devices that Cilium makes on every node.
const (
	ciliumHost  = "cilium_host"
	ciliumNet   = "cilium_net"
	ciliumVXLAN = "cilium_vxlan"
)

// ownDevices are made if they are not there. They speak no IPv6 by themselves: what the kernel would say to a network without
// hosts, Cilium's programs count as packets that lead nowhere.
func ownDevices() error {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: ciliumHost}, PeerName: ciliumNet}
	vxlan := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: ciliumVXLAN}, FlowBased: true, Port: 8472}
	for _, l := range []netlink.Link{veth, vxlan} {
		if err := netlink.LinkAdd(l); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("add %s: %w", l.Attrs().Name, err)
		}
	}
	for _, name := range []string{ciliumHost, ciliumNet, ciliumVXLAN} {
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0o644)
		}
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func linkOf(name string) (*netlink.LinkAttrs, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", name, err)
	}
	return l.Attrs(), nil
}

// macOf is a MAC as Cilium's structures have it: six bytes and two of padding.
func macOf(m net.HardwareAddr) (out [6]byte) {
	copy(out[:], m)
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
