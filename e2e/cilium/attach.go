// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/cilium/cilium/pkg/bpf"
	"github.com/cilium/cilium/pkg/bpf/analyze"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
)

// Names are those of the programs that the objects hold; Cilium's loader takes the same ones.
type (
	hostPrograms struct {
		ToHost    *ebpf.Program `ebpf:"cil_to_host"`
		FromHost  *ebpf.Program `ebpf:"cil_from_host"`
		Policy    *ebpf.Program `ebpf:"cil_host_policy"`
		PolicyMap *ebpf.Map     `ebpf:"cilium_call_policy"`
	}
	netPrograms struct {
		ToHost *ebpf.Program `ebpf:"cil_to_host"`
	}
	netdevPrograms struct {
		FromNetdev *ebpf.Program `ebpf:"cil_from_netdev"`
		ToNetdev   *ebpf.Program `ebpf:"cil_to_netdev"`
	}
	overlayPrograms struct {
		FromOverlay *ebpf.Program `ebpf:"cil_from_overlay"`
		ToOverlay   *ebpf.Program `ebpf:"cil_to_overlay"`
	}
	podPrograms struct {
		ToContainer     *ebpf.Program `ebpf:"cil_to_container"`
		FromContainer   *ebpf.Program `ebpf:"cil_from_container"`
		Policy          *ebpf.Program `ebpf:"cil_lxc_policy"`
		PolicyMap       *ebpf.Map     `ebpf:"cilium_call_policy"`
		EgressPolicy    *ebpf.Program `ebpf:"cil_lxc_policy_egress"`
		EgressPolicyMap *ebpf.Map     `ebpf:"cilium_egresscall_policy"`
	}
)

// attached is what an attach did.
type attached struct {
	Programs []string `json:"programs"` // object/program, each once a host
	Created  int      `json:"created"`  // links
	Updated  int      `json:"updated"`  // links whose program was exchanged
	names    map[string]bool
}

// attachment loads an object for one device and puts its entries there.
type attachment struct {
	object    string
	device    string
	constants any
	renames   map[string]string
	programs  any                               // a pointer to one of the structures above
	hooks     func() map[ebpf.AttachType]*entry // what to attach, once loaded
	wire      func() error                      // what has to be known before packets come
}

type entry struct {
	name    string
	program *ebpf.Program
}

func attach(h *host) (any, error) {
	if err := ownDevices(); err != nil {
		return nil, err
	}
	for _, dir := range []string{h.globals(), h.links(h.Device)} {
		if err := bpf.MkdirBPF(dir); err != nil {
			return nil, err
		}
	}
	all, err := h.attachments()
	if err != nil {
		return nil, err
	}
	done := &attached{names: map[string]bool{}}
	for i, a := range all {
		if err := h.put(a, done); err != nil {
			return nil, fmt.Errorf("%s on %s: %w", a.object, a.device, err)
		}
		if i == 0 { // the maps are there now, and no packet has met a program of a device
			if err := h.fill(); err != nil {
				return nil, err
			}
		}
	}
	done.Programs = sortedKeys(done.names)
	return done, nil
}

// put loads an object by Cilium's own library and attaches it; what is attached already gets the new program in its place.
func (h *host) put(a attachment, done *attached) error {
	device, err := linkOf(a.device)
	if err != nil {
		return err
	}
	spec, err := ebpf.LoadCollectionSpec(filepath.Join(h.Objects, a.object+".o"))
	if err != nil {
		return err
	}
	keep, err := analyze.Fields(a.programs)
	if err != nil {
		return err
	}
	loaded, commit, err := bpf.LoadCollection(slog.Default(), spec, &bpf.CollectionOptions{
		CollectionOptions: ebpf.CollectionOptions{Maps: ebpf.MapOptions{PinPath: h.globals()}},
		Constants:         a.constants,
		MapRenames:        []map[string]string{a.renames},
		Keep:              keep,
	})
	var refused *ebpf.VerifierError
	if errors.As(err, &refused) {
		return fmt.Errorf("%+v", refused)
	}
	if err != nil {
		return err
	}
	defer loaded.Close()
	for name := range loaded.Programs {
		done.names[a.object+"/"+name] = true
	}
	if err := loaded.Assign(a.programs); err != nil {
		return err
	}
	if a.wire != nil {
		if err := a.wire(); err != nil {
			return err
		}
	}
	for hook, e := range a.hooks() {
		if err := h.hook(device, hook, e, done); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return commit()
}

// hook attaches at the tail, where Cilium's loader does, or exchanges the program of the pinned link.
func (h *host) hook(device *netlink.LinkAttrs, at ebpf.AttachType, e *entry, done *attached) error {
	dir := h.links(device.Name)
	pin := filepath.Join(dir, e.name)
	err := bpf.UpdateLink(pin, e.program)
	if err == nil {
		done.Updated++
		return nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := bpf.MkdirBPF(dir); err != nil {
		return err
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: device.Index, Program: e.program, Attach: at, Anchor: link.Tail()})
	if err != nil {
		return err
	}
	defer l.Close()
	done.Created++
	return l.Pin(pin)
}

// detach takes links away first, then maps, as an agent that is removed does.
func detach(h *host) (any, error) {
	for _, dir := range []string{"cilium", "tc"} {
		if err := bpf.Remove(filepath.Join(h.BPFFS, dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	for _, name := range []string{ciliumHost, ciliumVXLAN} {
		if l, err := netlink.LinkByName(name); err == nil {
			if err := netlink.LinkDel(l); err != nil {
				return nil, fmt.Errorf("remove %s: %w", name, err)
			}
		}
	}
	return struct{}{}, nil
}
