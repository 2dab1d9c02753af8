// SPDX-License-Identifier: Apache-2.0

// Package desired makes a redirect plane hold what somebody wants it to hold, and
// nothing else: a file of bobtail-redirect, or the plan of a cluster.
package desired

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// State is all a plane should hold.
type State struct {
	Devices   []Device
	VIPs      []redirect.VIP
	AllowEcho []netip.Addr
	Tunnels   redirect.Tunnels
	// Watch are servers of this node whose connections are counted; in order.
	Watch []netip.AddrPort
	// IPv6 has the programs for it made at once, although no address here may be
	// of IPv6 yet: who takes over a VIP must not wait for them.
	IPv6 bool
}

// Device says which parts run on a device.
type Device struct {
	Name      string
	Index     int
	Address   string // of Ethernet: the client's part on an uplink is attached anew when it changes, as it is told there
	Placement redirect.Placement
	Duties    []redirect.Duty
	XDP       redirect.XDPMode // of a balancer; Auto when empty
}

// Applier applies states to one plane. What did not change since the last time is
// not touched, except by the first one: an agent that starts exchanges all
// programs and writes all entries.
type Applier struct {
	plane    redirect.Plane
	vips     map[redirect.VIPKey]redirect.VIP // as they were set
	present  map[redirect.VIPKey]bool         // what the plane holds; nil: not looked yet
	echo     []netip.Addr
	echoSet  bool
	watch    []netip.AddrPort
	watchSet bool
	tunnels  *redirect.Tunnels
	attached map[part]attachment
	// exchanged: what a former process attached runs our programs.
	exchanged bool
}

type part struct {
	index int
	duty  redirect.Duty
}

type attachment struct {
	at      redirect.Placement
	xdp     redirect.XDPMode // asked for
	address string
	got     redirect.Attachment
	rests   bool // got.XDP is generic, and taken off while nothing is balanced
}

// holds tells whether what is attached is what is wanted of a device for a duty.
func (a attachment) holds(d Device, duty redirect.Duty) bool {
	return a.at == d.Placement && a.xdp == d.XDP && (a.address == d.Address || duty != redirect.DutyClient || d.Placement != redirect.Uplink)
}

// New makes an Applier; the plane's state may be of a former process.
func New(p redirect.Plane) *Applier {
	return &Applier{plane: p, vips: map[redirect.VIPKey]redirect.VIP{}, attached: map[part]attachment{}}
}

// Result tells what Apply did not achieve; everything else is in place.
type Result struct {
	VIPs    map[redirect.VIPKey]error
	Devices map[string]error // by name
	Other   error
	Lost    map[int]bool // devices, by index, whose programs were not on them any more; they are again where Devices has no error
	former  bool         // programs of a former version are at work
}

// Works tells whether what was wanted of a device is at work there, be it by a former version.
func (r Result) Works(device string) bool { return r.former || r.Devices[device] == nil }

// Err is everything that went wrong.
func (r Result) Err() error {
	var all []error
	for key, err := range r.VIPs {
		all = append(all, fmt.Errorf("VIP %s: %w", netip.AddrPortFrom(key.Addr, key.Port), err))
	}
	for name, err := range r.Devices {
		all = append(all, fmt.Errorf("device %s: %w", name, err))
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(append(all, r.Other)...)
}

// Apply makes the plane hold a state as far as it can: one entry that is at fault
// keeps its former content and hinders no other.
func (a *Applier) Apply(s State) Result {
	r := Result{VIPs: map[redirect.VIPKey]error{}, Devices: map[string]error{}, Lost: map[int]bool{}}
	wanted := map[redirect.VIPKey]bool{}
	refused := a.exchange()
	if refused == nil && s.IPv6 {
		r.Other = a.plane.UseIPv6()
	}
	// The way to a server is there before the first SYN that is sent to it.
	r.Other = errors.Join(r.Other, a.setTunnels(s.Tunnels))
	for _, v := range s.VIPs {
		wanted[v.VIPKey] = true
		if err := a.setVIP(v); err != nil {
			r.VIPs[v.VIPKey] = err
		}
	}
	if !a.echoSet || !slices.Equal(a.echo, s.AllowEcho) {
		if err := a.plane.AllowEcho(s.AllowEcho); err != nil {
			r.Other = errors.Join(r.Other, err)
		} else {
			a.echo, a.echoSet = slices.Clone(s.AllowEcho), true
		}
	}
	if !a.watchSet || !slices.Equal(a.watch, s.Watch) {
		if err := a.plane.Watch(s.Watch); err != nil {
			r.Other = errors.Join(r.Other, err)
		} else {
			a.watch, a.watchSet = slices.Clone(s.Watch), true
		}
	}
	if refused == nil {
		refused = a.attach(s.Devices, r)
		a.rest(s, r.Devices)
	} else {
		r.former = true
		r.noDevice(s, refused)
	}
	r.Other = errors.Join(r.Other, refused, a.deleteVIPs(wanted))
	return r
}

// exchange is the first of all: the programs of one version are at work, and then those of the other. While it fails
// the former ones stay as they are attached; their maps, which are laid out in the same way, follow the state.
func (a *Applier) exchange() error {
	if a.exchanged {
		return nil
	}
	if err := a.plane.Exchange(); err != nil {
		return err
	}
	a.exchanged = true
	return nil
}

// noDevice was attached to, for one reason.
func (r Result) noDevice(s State, err error) {
	for _, d := range s.Devices {
		r.Devices[d.Name] = err
	}
}

func (a *Applier) setVIP(v redirect.VIP) error {
	if old, set := a.vips[v.VIPKey]; set && reflect.DeepEqual(old, v) {
		return nil
	}
	delete(a.vips, v.VIPKey)
	if err := a.plane.SetVIP(v); err != nil {
		return err
	}
	v.Backends, v.Prefixes = slices.Clone(v.Backends), slices.Clone(v.Prefixes)
	a.vips[v.VIPKey] = v
	return nil
}

func (a *Applier) setTunnels(t redirect.Tunnels) error {
	if a.tunnels != nil && a.tunnels.Equal(t) {
		return nil
	}
	if err := a.plane.Tunnels(t); err != nil {
		return err
	}
	t.Ways, t.Peers, t.Own, t.Servers = maps.Clone(t.Ways), slices.Clone(t.Peers), slices.Clone(t.Own), slices.Clone(t.Servers)
	a.tunnels = &t
	return nil
}

func (a *Applier) deleteVIPs(wanted map[redirect.VIPKey]bool) error {
	if a.present == nil {
		have, err := a.plane.VIPs()
		if err != nil {
			return err
		}
		a.present = map[redirect.VIPKey]bool{}
		for _, v := range have {
			a.present[v.VIPKey] = true
		}
	}
	for key := range wanted {
		a.present[key] = true
	}
	for key := range a.present {
		if wanted[key] {
			continue
		}
		if err := a.plane.DeleteVIP(key); err != nil {
			return fmt.Errorf("remove VIP %s: %w", netip.AddrPortFrom(key.Addr, key.Port), err)
		}
		delete(a.present, key)
		delete(a.vips, key)
	}
	return nil
}

// attach puts the wanted parts in place and takes away all others.
func (a *Applier) attach(devices []Device, r Result) error {
	have, err := a.plane.Attachments()
	if err != nil {
		return err
	}
	for _, h := range have {
		if h.Lost {
			r.Lost[h.Index] = true
			delete(a.attached, part{h.Index, h.Duty})
		}
	}
	wanted := map[part]bool{}
	for _, d := range devices {
		for _, duty := range d.Duties {
			wanted[part{d.Index, duty}] = true
			if err := a.attachOne(d, duty); err != nil {
				r.Devices[d.Name] = errors.Join(r.Devices[d.Name], err)
			}
		}
	}
	for _, h := range have {
		if !wanted[part{h.Index, h.Duty}] {
			delete(a.attached, part{h.Index, h.Duty})
			if err := a.plane.Detach(h.Index, h.Duty); err != nil {
				return fmt.Errorf("detach %s from device %d: %w", h.Duty, h.Index, err)
			}
		}
	}
	return nil
}

func (a *Applier) attachOne(d Device, duty redirect.Duty) error {
	if d.XDP == "" {
		d.XDP = redirect.XDPAuto
	}
	key := part{d.Index, duty}
	if old, there := a.attached[key]; there && old.holds(d, duty) {
		return nil
	}
	var got redirect.Attachment
	var err error
	switch duty {
	case redirect.DutyClient:
		err = a.plane.AttachClient(d.Index, d.Placement)
	case redirect.DutyServer:
		err = a.plane.AttachServer(d.Index, d.Placement)
	case redirect.DutyWatch:
		err = a.plane.AttachWatch(d.Index, d.Placement)
	case redirect.DutyTunnel:
		err = a.plane.AttachTunnel(d.Index)
	case redirect.DutyBalancer:
		got, err = a.plane.AttachBalancer(d.Index, d.XDP)
	default:
		return &redirect.FieldError{Field: "duties", Reason: fmt.Sprintf("%q is none of client, server, balancer, watch, tunnel", duty)}
	}
	if err == nil {
		a.attached[key] = attachment{at: d.Placement, xdp: d.XDP, address: d.Address, got: got}
	}
	return err
}

// rest takes generic XDP off where nothing is balanced, and puts it back before anybody is told that something is. Native XDP stays: to
// attach it may stop a device for a while.
func (a *Applier) rest(s State, failed map[string]error) {
	idle := len(redirect.Balanced(s.VIPs)) == 0
	for _, d := range s.Devices {
		key := part{d.Index, redirect.DutyBalancer}
		b, on := a.attached[key]
		if !on || b.got.XDP != redirect.XDPGeneric || b.rests == idle {
			continue
		}
		if err := a.turn(d.Index, &b, idle); err != nil {
			failed[d.Name] = errors.Join(failed[d.Name], err)
			continue
		}
		a.attached[key] = b
	}
}

func (a *Applier) turn(index int, b *attachment, idle bool) error {
	if idle {
		b.rests = true
		return a.plane.RestBalancer(index)
	}
	got, err := a.plane.AttachBalancer(index, redirect.XDPGeneric)
	if got.XDP != redirect.XDPGeneric { // somebody else's program is there now
		b.got = got
	}
	b.rests = false
	return err
}

// Balancer tells how SYNs are balanced on a device, or would be; false when they are not.
func (a *Applier) Balancer(index int) (redirect.Attachment, bool) {
	b, there := a.attached[part{index, redirect.DutyBalancer}]
	return b.got, there
}
