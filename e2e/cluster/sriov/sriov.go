// SPDX-License-Identifier: Apache-2.0

// Package sriov is a CNI plugin for virtual functions that are bound to vfio-pci, for the
// embedded cluster and for tests. It keeps to what sriov-cni documents of those: IPAM is
// run, MAC and VLAN are set on the physical function, and in the pod nothing is configured,
// so that the address is in the result alone. Upstream's plugin itself does not run there.
package sriov

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/vishvananda/netlink"
)

// Type is the plugin's name in CNI configurations, and its file's.
const Type = "bobtail-sriov"

// timeout of one call of the IPAM plugin.
const timeout = 100 * time.Second

const userspaceDriver = "vfio-pci"

// Config is a definition's, with the device that the meta plugin adds.
type Config struct {
	types.PluginConf
	DeviceID string `json:"deviceID"`
	MAC      string `json:"mac"`
	VLAN     int    `json:"vlan"`
}

// function is one virtual function of a card.
type function struct {
	card   string // interface of its physical function
	number int
}

// world is what the plugin touches; tests have another.
type world struct {
	devices string // folder of PCI devices
	mac     func(f function) (net.HardwareAddr, error)
	setMAC  func(f function, mac net.HardwareAddr) error
	setVLAN func(f function, vlan int) error
}

var machine = world{devices: "/sys/bus/pci/devices", mac: macOf, setMAC: setMAC, setVLAN: setVLAN}

// Main is the plugin's program.
func Main() {
	skel.PluginMainFuncs(skel.CNIFuncs{Add: machine.add, Del: machine.del}, version.PluginSupports("0.4.0", "1.0.0"),
		Type+": virtual functions on vfio-pci for pods of the embedded cluster")
}

// add gives the pod's function an address on the link and one of IP. The interface that it
// tells exists in no network namespace: a program drives the device.
func (w world) add(args *skel.CmdArgs) error {
	conf, f, err := w.read(args)
	if err != nil {
		return err
	}
	asked, err := conf.mac()
	if err != nil {
		return err
	}
	result := &current.Result{CNIVersion: conf.CNIVersion}
	if conf.IPAM.Type != "" {
		if result, err = allot(conf, args); err != nil {
			return err
		}
	}
	mac, err := w.configure(f, asked, conf.VLAN)
	if err != nil {
		return errors.Join(fmt.Errorf("function %s, number %d of %s: %w", conf.DeviceID, f.number, f.card, err), w.del(args))
	}
	result.Interfaces = []*current.Interface{{Name: args.IfName, Mac: mac.String(), Sandbox: args.Netns, PciID: conf.DeviceID}}
	for _, ip := range result.IPs {
		ip.Interface = current.Int(0)
	}
	return types.PrintResult(result, conf.CNIVersion)
}

// mac is the one that a definition or a pod asks for; nil: none.
func (c Config) mac() (net.HardwareAddr, error) {
	if c.MAC == "" {
		return nil, nil
	}
	mac, err := net.ParseMAC(c.MAC)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 {
		return nil, fmt.Errorf("mac %q must be a unicast address of Ethernet", c.MAC)
	}
	return mac, nil
}

func (w world) configure(f function, asked net.HardwareAddr, vlan int) (net.HardwareAddr, error) {
	mac, err := w.address(f, asked)
	if err != nil {
		return nil, err
	}
	if vlan != 0 {
		if err := w.setVLAN(f, vlan); err != nil {
			return nil, fmt.Errorf("set its VLAN: %w", err)
		}
	}
	return mac, nil
}

// address gives a function the MAC that is asked for. It says which one the function then has:
// its own where none is asked for, nil where the card has none for it.
func (w world) address(f function, asked net.HardwareAddr) (net.HardwareAddr, error) {
	if asked != nil {
		if err := w.setMAC(f, asked); err != nil {
			return nil, fmt.Errorf("set its MAC: %w", err)
		}
		return asked, nil
	}
	own, err := w.mac(f)
	if err != nil {
		return nil, fmt.Errorf("read its MAC: %w", err)
	}
	if bytes.Equal(own, make([]byte, len(own))) {
		return nil, nil
	}
	return own, nil
}

// del gives the address back. It must succeed when there is nothing, and when the function
// itself is gone.
func (w world) del(args *skel.CmdArgs) error {
	var conf Config
	if err := json.Unmarshal(args.StdinData, &conf); err != nil {
		return fmt.Errorf("configuration of %s: %w", Type, err)
	}
	if conf.VLAN != 0 {
		if f, err := w.find(conf.DeviceID); err == nil {
			if err := w.setVLAN(f, 0); err != nil {
				return fmt.Errorf("take the VLAN from %s: %w", conf.DeviceID, err)
			}
		}
	}
	if conf.IPAM.Type == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return invoke.DelegateDel(ctx, conf.IPAM.Type, args.StdinData, nil)
}

func allot(conf Config, args *skel.CmdArgs) (*current.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	given, err := invoke.DelegateAdd(ctx, conf.IPAM.Type, args.StdinData, nil)
	if err != nil {
		return nil, fmt.Errorf("IPAM %s: %w", conf.IPAM.Type, err)
	}
	return current.NewResultFromResult(given)
}

func (w world) read(args *skel.CmdArgs) (conf Config, f function, err error) {
	if err = json.Unmarshal(args.StdinData, &conf); err != nil {
		return conf, f, fmt.Errorf("configuration of %s: %w", Type, err)
	}
	if conf.DeviceID == "" {
		return conf, f, errors.New("deviceID is missing: the definition needs the annotation k8s.v1.cni.cncf.io/resourceName")
	}
	if conf.VLAN < 0 || conf.VLAN > 4094 {
		return conf, f, fmt.Errorf("vlan %d must be 0 to 4094", conf.VLAN)
	}
	if f, err = w.find(conf.DeviceID); err != nil {
		return conf, f, err
	}
	to, err := os.Readlink(filepath.Join(w.devices, conf.DeviceID, "driver"))
	if err != nil || filepath.Base(to) != userspaceDriver {
		return conf, f, fmt.Errorf("function %s is on driver %q and must be bound to %s", conf.DeviceID, filepath.Base(to), userspaceDriver)
	}
	return conf, f, nil
}

// find says which function of which card a PCI address is.
func (w world) find(id string) (function, error) {
	if id != filepath.Base(id) {
		return function{}, fmt.Errorf("deviceID %q must be a PCI address", id)
	}
	physical := filepath.Join(w.devices, id, "physfn")
	names, err := os.ReadDir(filepath.Join(physical, "net"))
	if err != nil || len(names) == 0 {
		return function{}, fmt.Errorf("function %s is not there, or its card has no interface", id)
	}
	entries, err := os.ReadDir(physical)
	if err != nil {
		return function{}, err
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), "virtfn")
		if !ok {
			continue
		}
		if to, err := os.Readlink(filepath.Join(physical, e.Name())); err != nil || filepath.Base(to) != id {
			continue
		}
		n, err := strconv.Atoi(number)
		return function{names[0].Name(), n}, err
	}
	return function{}, fmt.Errorf("function %s is none of its card's", id)
}

// macOf is what the card has for a function.
func macOf(f function) (net.HardwareAddr, error) {
	card, err := netlink.LinkByName(f.card)
	if err != nil {
		return nil, err
	}
	for _, vf := range card.Attrs().Vfs {
		if vf.ID == f.number {
			return vf.Mac, nil
		}
	}
	return nil, errors.New("its card does not list it")
}

func setMAC(f function, mac net.HardwareAddr) error {
	card, err := netlink.LinkByName(f.card)
	if err != nil {
		return err
	}
	return netlink.LinkSetVfHardwareAddr(card, f.number, mac)
}

func setVLAN(f function, vlan int) error {
	card, err := netlink.LinkByName(f.card)
	if err != nil {
		return err
	}
	return netlink.LinkSetVfVlan(card, f.number, vlan)
}
