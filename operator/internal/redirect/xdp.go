// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

const xdpHook hook = "xdp"

// xdpTry is one way to run the balancer in XDP.
type xdpTry struct {
	mode    XDPMode
	program string
	flags   link.XDPAttachFlags
}

var (
	native  = xdpTry{XDPNative, "crab_lb_native", link.XDPDriverMode}
	generic = xdpTry{XDPGeneric, "crab_lb_generic", link.XDPGenericMode}
)

func xdpModeOf(program string) XDPMode {
	if program == native.program {
		return XDPNative
	}
	return XDPGeneric
}

// AttachBalancer makes a device balance VIPs: in tc always, which serves what XDP
// cannot and this node's own clients, and in XDP as far as the device allows.
func (n *Node) AttachBalancer(ifindex int, want XDPMode) (Attachment, error) {
	if err := n.attach(ifindex, DutyBalancer, Uplink); err != nil {
		return Attachment{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	a := Attachment{Device: deviceName(ifindex), Index: ifindex, Duty: DutyBalancer, XDP: XDPNone}
	tries, reason := triesFor(want, driverOf(a.Device))
	a.XDPReason = reason
	keep := map[string]bool{}
	for _, try := range tries {
		err := n.attachXDP(ifindex, try)
		if err == nil {
			a.XDP = try.mode
			keep[try.program] = true
			break
		}
		a.XDPReason = fmt.Sprintf("%s XDP: %v", try.mode, err)
	}
	err := n.detach(ifindex, func(p pinned) bool { return p.part.hook == xdpHook && !keep[p.part.program] })
	return a, err
}

// RestBalancer takes generic XDP off a device while this node balances nothing: tc, which needs no copies of packets, has all there is.
// The program stays loaded, so that AttachBalancer puts it back at once.
func (n *Node) RestBalancer(ifindex int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.detach(ifindex, func(p pinned) bool { return p.part == part{xdpHook, generic.program} })
}

// triesFor orders what is worth trying, and says why native is not among it.
func triesFor(want XDPMode, driver string) ([]xdpTry, string) {
	switch want {
	case XDPNative:
		return []xdpTry{native, generic}, ""
	case XDPGeneric:
		return []xdpTry{generic}, "generic mode was asked for"
	case XDPNone:
		return nil, "no XDP was asked for"
	}
	if driver == "veth" {
		return []xdpTry{generic}, "veth: XDP_TX needs a program on the peer device, and nobody here would see that one go; ask for Native if it stays"
	}
	return []xdpTry{native, generic}, ""
}

func driverOf(device string) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, device)
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(info.Driver[:])
}

func (n *Node) attachXDP(ifindex int, try xdpTry) error {
	prog, err := n.program(try.program)
	if err != nil {
		return err
	}
	if err := n.enterSix(try.program); err != nil {
		return err
	}
	path := filepath.Join(n.root, linkFolder, pinName(ifindex, DutyBalancer, Uplink, part{xdpHook, try.program}))
	if done, err := update(path, prog); err != nil || done && try.mode != XDPNative {
		return err
	} else if done {
		return sends(deviceName(ifindex), ifindex)
	}
	// Our own program of the other mode is in the way; nothing is lost meanwhile: tc balances too.
	if err := n.detach(ifindex, func(p pinned) bool { return p.part.hook == xdpHook }); err != nil {
		return err
	}
	l, err := tried(ifindex, try)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Update(prog); err != nil {
		return err
	}
	return errors.Join(l.Pin(path), n.keepProgram(try.program))
}

// tried is a link in a mode that works, with a program that passes everything on: no SYN is lost to one that does not.
func tried(ifindex int, try xdpTry) (link.Link, error) {
	pass, err := verdict(xdpPass)
	if err != nil {
		return nil, err
	}
	defer pass.Close()
	l, err := link.AttachXDP(link.XDPOptions{Program: pass, Interface: ifindex, Flags: try.flags})
	switch {
	case errors.Is(err, unix.EBUSY):
		return nil, errors.New("another XDP program holds the device")
	case err != nil:
		return nil, err
	}
	if try.mode == XDPNative {
		if err := sends(deviceName(ifindex), ifindex); err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}
