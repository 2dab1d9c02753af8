// SPDX-License-Identifier: Apache-2.0

// Package redirect is the node's side of CRAB: it loads the eBPF programs of
// dataplane/bpf, keeps their maps and links pinned below one folder of a bpffs,
// and is the only Go code that knows what lies in them.
//
// A Plane outlives the process that made it. Open finds the pinned state again
// and changes the programs in place, so neither kill -9 nor an upgrade of the
// agent touches a live connection. Both families are served, each with maps of
// its own; those of IPv6 are made when its first address comes (C-9).
package redirect

import (
	"net/netip"
	"time"
)

// Policy is how the balancer chooses a server for a SYN (C-60…C-63).
type Policy uint8

// The values are those of enum crab_policy.
const (
	RoundRobin       Policy = 0 // one shared counter; weights are honoured
	RoundRobinPerCPU Policy = 1 // one counter a CPU: like several balancers (C-61)
	Random           Policy = 2
	Hash             Policy = 3 // of the 4-tuple
	PowerOfTwo       Policy = 4 // the less loaded of two random servers, by reports
	Least            Policy = 5 // the least loaded by reports; of 64 random ones in larger pools
)

// State is what probes know of a server (C-51).
type State uint8

// The values are those of enum crab_backend_state.
const (
	Down     State = 0
	UpPlain  State = 1 // answers without echo: reached on the hash path, where the balancer relays (C-42, C-43)
	UpCRAB   State = 2
	Draining State = 3 // no new connection; the hash path keeps delivering to it
)

// Role is what this node does for a VIP; roles are added up.
type Role uint8

const (
	// RoleClient marks SYNs of this node's clients and accepts redirects for them.
	RoleClient Role = 1 << 0
	// RoleBalance lets this node choose servers; the node that announces the VIP has it.
	RoleBalance Role = 1 << 1
	// RoleStackFallback leaves to the kernel whatever is no CRAB SYN: NodePort,
	// where kube-proxy serves the others.
	RoleStackFallback Role = 1 << 2
	// RoleTrustedTier accepts SYNs that another balancer has redirected already (C-28).
	RoleTrustedTier Role = 1 << 3
	// RoleTunnel sends SYNs by Tunnels and relays what no redirect is for, since the
	// network lets nothing through with a client's address, or with the VIP's from a server (C-80).
	RoleTunnel Role = 1 << 4
	// RoleKeepClient relays nothing, so that servers see their clients' addresses (C-42): a SYN that a relay alone
	// could serve is dropped.
	RoleKeepClient Role = 1 << 5
)

// VIPKey is what a client dials. TCP is understood; ports are never translated (C-6).
type VIPKey struct {
	Addr netip.Addr `json:"addr"`
	Port uint16     `json:"port"`
}

// Backend is one server of a pool; it listens on the VIP's port.
type Backend struct {
	Addr   netip.Addr `json:"addr"`
	Weight uint16     `json:"weight,omitempty"` // 0 counts as 1
	State  State      `json:"state"`
}

// VIP is a whole entry of the table. Setting it replaces the former one in one
// step: each SYN meets the old pool or the new one (C-63).
type VIP struct {
	VIPKey
	Roles    Role      `json:"roles"`
	Policy   Policy    `json:"policy"`
	Backends []Backend `json:"backends,omitempty"` // for RoleBalance; ≤ 4096
	// Prefixes are the only sources redirects of this VIP are accepted from
	// (C-91, C-95); for RoleClient. Empty: none is accepted.
	Prefixes []netip.Prefix `json:"prefixes,omitempty"`
	// ReportLife is how long a backend report counts, three report intervals
	// (C-62); 0 means 3 s.
	ReportLife time.Duration `json:"reportLife,omitempty"`
}

// Report is what a server told of its load.
type Report struct {
	OpenConnections uint32
}

// Wire says how the option is written (C-1, C-7).
type Wire struct {
	Kind uint8  // 42, or 253/254 for the experimental form; 0 means 42
	ExID uint16 // with 253 and 254
}

// Sizes bound the state of a node; 0 takes the default in brackets.
type Sizes struct {
	Flows   uint32 // translations of client connections [262144]
	Pending uint32 // SYNs waiting for an answer [65536]
	Echoes  uint32 // SYNs of servers waiting for the client's ACK [65536]
	SYNs    uint32 // SYNs the balancer remembers for retransmission [65536]
	DSR     uint32 // connections of non-CRAB clients on a server host [65536]
	Relays  uint32 // connections to servers without agent that the balancer relays [65536]
}

// Placement is where a device stands between this node and the wire.
type Placement uint8

const (
	// Uplink carries what leaves the node: client programs translate on it
	// outside of conntrack, which therefore sees client and VIP only (C-82).
	Uplink Placement = iota
	// Pod is the host's end of a pod's veth, on a node whose uplink has the same
	// duty: it is for connections that stay on the node.
	Pod
	// PodAlone is that end on a node without conntrack in the path: client
	// programs translate there, and the host routes by DIP.
	PodAlone
)

// XDPMode is how the balancer runs on a device.
type XDPMode string

const (
	XDPNative  XDPMode = "Native"
	XDPGeneric XDPMode = "Generic"
	// XDPNone: only the tc program balances; slower, same rules.
	XDPNone XDPMode = "None"
	// XDPAuto tries native, then generic, then none; veth gets generic, because
	// XDP_TX on it needs a program on the peer, which nobody here would see go.
	XDPAuto XDPMode = "Auto"
)

// Duty is one of the parts that are attached to a device.
type Duty string

const (
	DutyClient   Duty = "client"
	DutyServer   Duty = "server"
	DutyBalancer Duty = "balancer"
	// DutyWatch counts the connections of servers, for policies by load (C-62).
	DutyWatch Duty = "watch"
	// DutyTunnel opens tunnels of other hosts (C-80).
	DutyTunnel Duty = "tunnel"
)

// Attachment tells of a part that is in place.
type Attachment struct {
	Device    string
	Index     int
	Duty      Duty
	Placement Placement
	XDP       XDPMode // of DutyBalancer
	// XDPReason says why the mode is not native; empty when it is.
	XDPReason string
	// Lost: the link is pinned but its device is gone, or a program was
	// detached by someone else; attach again.
	Lost bool
}

// FlowEnded says which ends of a connection have closed it.
type FlowEnded uint8

const (
	ClientFIN FlowEnded = 1 << 0
	ServerFIN FlowEnded = 1 << 1
	Reset     FlowEnded = 1 << 2
	// ClientReset is set beside Reset when the client sent the RST: the server's may be forged.
	ClientReset FlowEnded = 1 << 3
	flowEnds              = ClientFIN | ServerFIN | Reset | ClientReset
)

// Flow is one redirected connection of a client on this node.
type Flow struct {
	Client netip.AddrPort
	VIP    netip.AddrPort
	DIP    netip.Addr
	Age    time.Duration
	Idle   time.Duration
	Ended  FlowEnded
}

// Lives bound how long state stays without a packet; 0 takes the default in brackets.
type Lives struct {
	// Idle is that of an open connection, after which it makes room where its map is three quarters full; elsewhere it is
	// kept as long again, so that a late packet still finds it [2 h 30 min, guests' keepalive].
	Idle    time.Duration
	Ended   time.Duration // after RST or both FINs [60 s]
	Pending time.Duration // of an unanswered SYN [130 s, Linux's last retry]
	Echo    time.Duration // of a server's rule [65 s]
	// Crowded is what is left of Ended, and of Pending of relays, in a map that is more than three quarters full [2 s].
	Crowded time.Duration

	late time.Duration // beyond Idle, where there is room
}

// Expired is what one sweep removed, and what it found missing.
type Expired struct {
	Idle, Ended, Pending, Echoes int
	// Evicted counts, since the state was made, live translations the bounded
	// map pushed out: each is a connection that hangs until its client gives up (C-72).
	Evicted uint64
	// EvictedOf counts the same of all bounded state: flows (Evicted) and back, the translations in both directions;
	// pending, a client's SYNs; opening and hashed, a server's handshakes and its connections on the fall-back path;
	// later, SYNs within a server's handshakes; relays, connections to servers without agent that the balancer relays, and
	// ports, those of the VIP that they take;
	// syns, which the balancer remembers until others push them out: no loss before they are as many as its map holds in 3 s.
	EvictedOf map[string]uint64
	swept     map[string]swept // by kind, in this sweep
	// Flows is how many translations there are now.
	Flows int
}
