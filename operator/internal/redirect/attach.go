// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// hook is one tcx chain of a device.
type hook string

const (
	ingress hook = "ingress"
	egress  hook = "egress"
)

var hookType = map[hook]ebpf.AttachType{ingress: ebpf.AttachTCXIngress, egress: ebpf.AttachTCXEgress}

type part struct {
	hook    hook
	program string
}

// parts of each duty. On a pod's veth the server programs are turned round, and
// the client program there is for answers of servers on the same node, which
// never cross the uplink.
var parts = map[Duty]map[Placement][]part{
	DutyClient: {
		Uplink:   {{egress, "crab_client_out"}, {ingress, "crab_client_in"}},
		Pod:      {{ingress, "crab_client_in_near"}},
		PodAlone: {{ingress, "crab_client_out_pod"}, {egress, "crab_client_in"}},
	},
	DutyServer: {
		Uplink: {{ingress, "crab_server_in"}, {egress, "crab_server_out"}},
		Pod:    {{egress, "crab_server_in"}, {ingress, "crab_server_out_pod"}},
	},
	DutyWatch: {
		Uplink: {{ingress, "crab_watch_in"}, {egress, "crab_watch_out"}},
		Pod:    {{egress, "crab_watch_in"}, {ingress, "crab_watch_out"}},
	},
	DutyTunnel: {
		Uplink: {{ingress, "crab_tunnel_in"}},
	},
	DutyBalancer: {
		Uplink: {{ingress, "crab_balance_in"}, {egress, "crab_balance_out"}},
	},
}

// order of our own programs on one hook: what came by a tunnel is let out before
// anybody looks at it, connections are counted before anybody sends their packets elsewhere, a SYN gets its placeholder before it is balanced,
// and an echo is written before the answer is read.
var order = map[string]int{
	"crab_tunnel_in": -2,
	"crab_watch_in":  -1, "crab_watch_out": -1,
	"crab_client_out": 0, "crab_balance_in": 0, "crab_balance_out": 1,
	"crab_server_in": 2, "crab_server_out": 2, "crab_server_out_pod": 2, "crab_client_in": 3,
	"crab_client_in_near": 3, "crab_client_out_pod": 4,
}

// pinName tells all there is to know of a link: "<index>:<duty>:<placement>:<hook>:<program>".
func pinName(index int, d Duty, at Placement, p part) string {
	return fmt.Sprintf("%d:%s:%d:%s:%s", index, d, at, p.hook, p.program)
}

type pinned struct {
	path  string
	index int
	duty  Duty
	at    Placement
	part  part
}

func parsePin(path string) (pinned, bool) {
	f := strings.Split(filepath.Base(path), ":")
	if len(f) != 5 {
		return pinned{}, false
	}
	index, err1 := strconv.Atoi(f[0])
	at, err2 := strconv.Atoi(f[2])
	return pinned{path, index, Duty(f[1]), Placement(at), part{hook(f[3]), f[4]}}, err1 == nil && err2 == nil
}

// pins lists the pinned links.
func (n *Node) pins() ([]pinned, error) {
	entries, err := os.ReadDir(filepath.Join(n.root, linkFolder))
	if err != nil {
		return nil, err
	}
	var all []pinned
	for _, e := range entries {
		if p, ok := parsePin(filepath.Join(n.root, linkFolder, e.Name())); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// AttachClient makes a device carry connections of this node's clients.
func (n *Node) AttachClient(ifindex int, at Placement) error {
	return n.attach(ifindex, DutyClient, at)
}

// AttachServer makes a device carry connections to this node's servers.
func (n *Node) AttachServer(ifindex int, at Placement) error {
	return n.attach(ifindex, DutyServer, at)
}

// AttachWatch makes a device count the connections of this node's servers.
func (n *Node) AttachWatch(ifindex int, at Placement) error {
	return n.attach(ifindex, DutyWatch, at)
}

func (n *Node) attach(ifindex int, d Duty, at Placement) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(parts[d][at]) == 0 {
		return &FieldError{"placement", fmt.Sprintf("a %s cannot be attached as %s", d, at)}
	}
	if err := n.detach(ifindex, func(p pinned) bool { return p.duty == d && p.at != at }); err != nil {
		return err
	}
	for _, p := range parts[d][at] {
		if err := n.attachTCX(ifindex, d, at, p); err != nil {
			return fmt.Errorf("attach %s to %s of device %d: %w", p.program, p.hook, ifindex, err)
		}
	}
	if d == DutyClient && at == Uplink {
		return n.useUplink(ifindex)
	}
	return nil
}

// attachTCX exchanges the program of a pinned link that still holds its device,
// and makes the link otherwise.
func (n *Node) attachTCX(ifindex int, d Duty, at Placement, p part) error {
	prog, err := n.program(p.program)
	if err != nil {
		return err
	}
	if err := n.enterSix(p.program); err != nil {
		return err
	}
	path := filepath.Join(n.root, linkFolder, pinName(ifindex, d, at, p))
	if done, err := update(path, prog); done || err != nil {
		return err
	}
	anchor, release, err := n.anchor(ifindex, p)
	if err != nil {
		return err
	}
	defer release()
	l, err := link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: prog, Attach: hookType[p.hook], Anchor: anchor})
	if err != nil {
		return err
	}
	defer l.Close()
	return errors.Join(l.Pin(path), n.keepProgram(p.program))
}

// update puts prog into the link at path; false when there is none that holds.
func update(path string, prog *ebpf.Program) (bool, error) {
	l, err := link.LoadPinnedLink(path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer l.Close()
	if holds(l) {
		if err := l.Update(prog); err != nil {
			return false, fmt.Errorf("exchange the program: %w", err)
		}
		return true, nil
	}
	return false, os.Remove(path)
}

// holds tells whether the link still has its device.
func holds(l link.Link) bool {
	info, err := l.Info()
	if err != nil {
		return false
	}
	if tcx := info.TCX(); tcx != nil {
		return tcx.Ifindex != 0
	}
	xdp := info.XDP()
	return xdp != nil && xdp.Ifindex != 0
}

// anchor keeps our own order, and else puts us in front: behind another owner's
// program that ends the chain with TC_ACT_OK ours would never run.
func (n *Node) anchor(ifindex int, p part) (at link.Anchor, release func(), err error) {
	pins, err := n.pins()
	if err != nil {
		return nil, nil, err
	}
	sort.Slice(pins, func(i, j int) bool { return order[pins[i].part.program] > order[pins[j].part.program] })
	for _, q := range pins { // after the last of those that come before
		if q.index != ifindex || q.part.hook != p.hook || order[q.part.program] > order[p.program] {
			continue
		}
		l, err := link.LoadPinnedLink(q.path, nil)
		if err != nil {
			return nil, nil, err
		}
		if holds(l) {
			return link.AfterLink(l), func() { l.Close() }, nil
		}
		l.Close()
	}
	return link.Head(), func() {}, nil
}

// Detach removes one part from a device.
func (n *Node) Detach(ifindex int, d Duty) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.detach(ifindex, func(p pinned) bool { return p.duty == d })
}

func (n *Node) detach(ifindex int, which func(pinned) bool) error {
	pins, err := n.pins()
	if err != nil {
		return err
	}
	for _, p := range pins {
		if p.index == ifindex && which(p) {
			if p.duty == DutyClient && p.at == Uplink {
				if err := n.leaveUplink(ifindex); err != nil {
					return err
				}
			}
			if err := freeDevice(p); err != nil {
				return err
			}
			if err := os.Remove(p.path); err != nil {
				return err
			}
		}
	}
	return nil
}

// freeDevice takes an XDP program off at once: the kernel lets go of an unpinned link some time later, and until then
// the device is held.
func freeDevice(p pinned) error {
	if p.part.hook != xdpHook {
		return nil
	}
	l, err := link.LoadPinnedLink(p.path, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	if !holds(l) {
		return nil
	}
	return l.Detach()
}

// Attachments tells of every part that is pinned.
func (n *Node) Attachments() ([]Attachment, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pins, err := n.pins()
	if err != nil {
		return nil, err
	}
	type key struct {
		index int
		duty  Duty
	}
	found := map[key]*Attachment{}
	var keys []key
	for _, p := range pins {
		l, err := link.LoadPinnedLink(p.path, nil)
		if errors.Is(err, fs.ErrNotExist) {
			continue // taken away meanwhile: who only looks is another process than who attaches
		}
		if err != nil {
			return nil, err
		}
		k := key{p.index, p.duty}
		if found[k] == nil {
			found[k] = &Attachment{Device: deviceName(p.index), Index: p.index, Duty: p.duty, Placement: p.at}
			if p.duty == DutyBalancer {
				found[k].XDP = XDPNone
			}
			keys = append(keys, k)
		}
		if p.part.hook == xdpHook {
			found[k].XDP = xdpModeOf(p.part.program)
		}
		found[k].Lost = found[k].Lost || !holds(l)
		l.Close()
	}
	sort.Slice(keys, func(i, j int) bool {
		return keys[i].index < keys[j].index || keys[i].index == keys[j].index && keys[i].duty < keys[j].duty
	})
	all := make([]Attachment, 0, len(keys))
	for _, k := range keys {
		all = append(all, *found[k])
	}
	return all, nil
}

func deviceName(index int) string {
	d, err := net.InterfaceByIndex(index)
	if err != nil {
		return ""
	}
	return d.Name
}
