// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

// Plane is the node's redirect state, as the agent uses it. Open gives the one
// made of kernel maps; tests of callers bring their own. Methods may be called
// from several goroutines.
type Plane interface {
	// SetVIP puts or replaces one entry of the VIP table. A *FieldError names
	// what is wrong with it, and then nothing has changed.
	SetVIP(VIP) error
	// DeleteVIP forgets an entry; live connections keep their translation.
	DeleteVIP(VIPKey) error
	// VIPs lists the table, as it was set by this or a former process.
	VIPs() ([]VIP, error)

	// UseIPv6 makes the maps and programs of IPv6 before the first address needs
	// them: the kernel takes seconds to verify the programs.
	UseIPv6() error

	// AllowEcho replaces the addresses a server of this node may echo (C-34):
	// VIPs whose servers run here, and the addresses probers use.
	AllowEcho([]netip.Addr) error

	// Tunnels replaces the ways of SYNs where the network checks sources, and whose
	// are opened here (C-80).
	Tunnels(Tunnels) error

	// Report tells of a server's load; it is forgotten after the VIP's ReportLife.
	Report(VIPKey, netip.Addr, Report) error
	// Watch replaces the servers of this node whose connections are counted where
	// AttachWatch was called; Connections counts them, each server that is watched.
	Watch([]netip.AddrPort) error
	Connections() (map[netip.AddrPort]uint32, error)

	// Exchange makes what a former process attached run this process' programs, all
	// of them or, with an error, none: call it before anything else is changed.
	Exchange() error
	// Attach puts a part on a device and pins it there. Attaching again
	// exchanges the program in place, without a gap; AttachBalancer tells the
	// mode it ended in.
	AttachClient(ifindex int, at Placement) error
	AttachServer(ifindex int, at Placement) error
	AttachWatch(ifindex int, at Placement) error
	AttachTunnel(ifindex int) error
	AttachBalancer(ifindex int, want XDPMode) (Attachment, error)
	// RestBalancer takes a balancer's generic XDP program off a device, for which the kernel copies packets;
	// AttachBalancer puts it back. tc balances meanwhile.
	RestBalancer(ifindex int) error
	// Detach removes one part; Attachments lists what is pinned.
	Detach(ifindex int, duty Duty) error
	Attachments() ([]Attachment, error)

	// Counters are the sums over CPUs since the state was made, by reason
	// (dataplane/bpf/crab_reasons.h); every reason is present.
	Counters() (map[string]uint64, error)
	// Count adds to a reason that no program counts.
	Count(reason string, by uint64) error
	// FellBack are the last connections of clients of this host that took the fall-back path, some of each CPU.
	FellBack() ([]FellBack, error)
	// Connects are how long clients of this host waited for connections since the
	// state was made, by what they dialled.
	Connects() (map[VIPKey]*ll7.Histogram, error)
	// Since is when the state was made; it outlives this process.
	Since() (time.Time, error)
	// Flows calls each with every redirected connection until it returns false.
	Flows(each func(Flow) bool) error
	// Expire removes what has outlived its life (C-72, C-73). Call it every
	// few seconds; nothing else frees state except the bounds of the maps.
	Expire(Lives) (Expired, error)

	// Close lets go of the state and leaves all of it pinned and at work.
	Close() error
}

// Options of Open.
type Options struct {
	// Root is a folder on a bpffs; it is made when missing. One folder belongs
	// to one network namespace.
	Root  string
	Wire  Wire
	Sizes Sizes // of new state; pinned state keeps its own
	// ReadOnly looks at state that is there: nothing is made, Wire and Sizes are
	// not looked at, and changes are the caller's own fault.
	ReadOnly bool
}

// FieldError names the field of a VIP or option that cannot be used, and why.
type FieldError struct {
	Field  string
	Reason string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// LayoutError says that the folder holds state of another version: the agent
// that wrote it, or Remove, must go first.
type LayoutError struct {
	Root        string
	Found, Want uint32
}

func (e *LayoutError) Error() string {
	return fmt.Sprintf("%s holds redirect state of layout %d; this program knows %d: "+
		"drain the node and remove the folder, which resets its redirected connections", e.Root, e.Found, e.Want)
}

// Defaults of Lives.
const (
	// DefaultIdle is RFC 5382's 2 h 4 min (REQ-5) and more: guests send their first keepalive after two hours, Linux up to
	// 14 min 34 s later (its timer wheel at HZ=300; 4 min 22 s at 1000), and eight more in the 11 min 15 s after it.
	DefaultIdle    = 150 * time.Minute
	DefaultEnded   = 60 * time.Second
	DefaultPending = 130 * time.Second
	DefaultEcho    = 65 * time.Second
	DefaultCrowded = 2 * time.Second
)
