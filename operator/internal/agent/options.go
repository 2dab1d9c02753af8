// SPDX-License-Identifier: Apache-2.0

// Package agent is CRAB on one node of a cluster: it makes the node's redirect
// plane hold the node's share of the cluster's plan, announces VIPs together with
// the other nodes' agents, and tells in the node's NodeDataplane what it does.
//
// What it made stays at work without it: neither its end nor an API server that
// is away touches a connection.
package agent

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/balancers"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/share"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// ErrUsage marks a wrong command line.
var ErrUsage = errors.New("wrong usage")

const defaultRoot = "/sys/fs/bpf/bobtail"

// Bounds of Options.Idle: below, connections would not outlive a handshake's repetitions; above is as good as for ever.
const (
	minIdle = 3 * time.Minute
	maxIdle = 30 * 24 * time.Hour
)

// Options are the command line.
type Options struct {
	Node      string
	NodeIP    netip.Addr
	Namespace string // of the Secret with the heartbeats' key
	KeyDir    string // where that Secret is mounted
	Root      string // on a bpffs
	Uplink    string // empty: the device of the default route
	XDP       redirect.XDPMode
	Tunnel    share.TunnelMode // C-80
	Wire      redirect.Wire    // C-7
	Heartbeat uint16           // port
	Metrics   string           // address; "0" is nowhere
	Connects  uint16           // port where the operator reads; 0 is nowhere
	TLSDir    string           // where the certificate for that is mounted
	Pool      crabplan.Pool
	// Balancers are told the loads of this node's servers (C-64), by the key in BalancerKeyDir.
	Balancers      []netip.AddrPort
	BalancerKeyDir string
	// Idle is how long a connection may be silent (C-72).
	Idle     time.Duration
	Version  string
	LogLevel slog.Level // the least that is written
}

// ParseOptions reads the command line of `agent [run]`.
func ParseOptions(args []string, version string) (Options, error) {
	o := Options{Version: version}
	var ip, pool, xdp, tunnel, lbs string
	var port, connects, kind, exid uint
	f := flag.NewFlagSet("agent", flag.ContinueOnError)
	f.StringVar(&o.Node, "node", os.Getenv("NODE_NAME"), "name of this node (default $NODE_NAME)")
	f.StringVar(&ip, "node-ip", os.Getenv("NODE_IP"), "address of this node, for heartbeats and probes; all nodes use the same family (default $NODE_IP)")
	f.StringVar(&o.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the Secret bobtail-heartbeat (default $POD_NAMESPACE)")
	f.StringVar(&o.KeyDir, "key-dir", "/etc/bobtail/heartbeat", "folder where that Secret is mounted; a change there is taken over without a restart")
	f.StringVar(&o.Root, "root", defaultRoot, "folder on a bpffs that holds the state")
	f.StringVar(&o.Uplink, "uplink", "", "device through which packets leave the node (default: that of the default route)")
	f.StringVar(&xdp, "xdp", string(redirect.XDPAuto), "how SYNs are balanced: Auto, Native, Generic or None")
	f.StringVar(&tunnel, "tunnel", string(share.TunnelOff), "where the network lets nobody send with another's address: On sends redirected SYNs to other nodes in UDP (port 6080) and relays what cannot be redirected; Open only opens what others send; Off")
	f.UintVar(&kind, "option-kind", 42, "kind of CRAB's TCP option: 42, or 253 or 254, which are for experiments; all nodes use the same")
	f.UintVar(&exid, "option-exid", 0, "with kind 253 or 254, the experiment's number (RFC 6994), 1 to 65534")
	f.UintVar(&port, "heartbeat-port", 9440, "UDP port of the agents among each other")
	f.StringVar(&o.Metrics, "metrics-bind-address", ":9441", "where to serve /metrics and /readyz; 0 turns it off")
	f.UintVar(&connects, "connects-port", 9442, "TCP port of the node where the operator alone reads how long clients wait for connections (mutual TLS); 0 turns it off")
	f.StringVar(&o.TLSDir, "tls-dir", "/etc/bobtail/tls", "folder with tls.crt, tls.key and ca.crt for that; it may be empty until the operator has filled it")
	f.StringVar(&pool, "vip-pool", "", "IPv4 and IPv6 addresses that may be announced: `NETWORK|FIRST-LAST,...`")
	f.DurationVar(&o.Idle, "idle-timeout", redirect.DefaultIdle, "how long a connection may be silent before its entry makes room for others; guests' keepalives must be more frequent")
	f.StringVar(&lbs, "balancers", "", "report ports of bobtail-crab-lb's that are told the loads of this node's servers: `ADDRESS:PORT,...`")
	f.StringVar(&o.BalancerKeyDir, "balancer-key-dir", "/etc/bobtail/balancers", "folder with the key of those reports, key, and previous while it is exchanged; read anew every second")
	f.TextVar(&o.LogLevel, "log-level", slog.LevelInfo, "`debug|info|warn|error`: the least that is written")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, err
	} else if err != nil {
		return o, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%w: unexpected argument %q", ErrUsage, f.Arg(0))
	}
	o.XDP, o.Tunnel, o.Heartbeat, o.Connects = redirect.XDPMode(xdp), share.TunnelMode(tunnel), uint16(port), uint16(connects)
	if err := errors.Join(o.complete(ip, pool, port, connects), o.wire(kind, exid), o.tell(lbs)); err != nil {
		return o, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return o, nil
}

// wire takes how the option is written.
func (o *Options) wire(kind, exid uint) error {
	if kind == 0 || kind > 255 || exid > 65535 {
		return fmt.Errorf("--option-kind=%d, --option-exid=%d: a kind is 42, 253 or 254, an experiment 1 to 65534", kind, exid)
	}
	o.Wire = redirect.Wire{Kind: uint8(kind), ExID: uint16(exid)}
	if err := o.Wire.Check(); err != nil {
		return fmt.Errorf("--option-kind, --option-exid: %w", err)
	}
	return nil
}

// tell takes which balancers to tell.
func (o *Options) tell(list string) (err error) {
	if o.Balancers, err = balancers.Parse(list); err != nil {
		return fmt.Errorf("--balancers: %w", err)
	}
	return nil
}

func (o *Options) complete(ip, pool string, port, connects uint) error {
	var errs []error
	var err error
	if o.Node == "" {
		errs = append(errs, errors.New("--node must not be empty: give the node's name, or set NODE_NAME"))
	}
	if o.Namespace == "" {
		errs = append(errs, errors.New("--namespace must not be empty: give the agent's namespace, or set POD_NAMESPACE"))
	}
	if o.NodeIP, err = netip.ParseAddr(ip); err != nil || o.NodeIP.Zone() != "" || o.NodeIP.Is4In6() {
		errs = append(errs, fmt.Errorf("--node-ip=%q must be an IPv4 or IPv6 address of this node", ip))
	}
	if o.Pool, err = crabplan.ParsePool(pool); err != nil {
		errs = append(errs, fmt.Errorf("--vip-pool: %w", err))
	}
	switch o.XDP {
	case redirect.XDPAuto, redirect.XDPNative, redirect.XDPGeneric, redirect.XDPNone:
	default:
		errs = append(errs, fmt.Errorf("--xdp=%s is none of Auto, Native, Generic, None", o.XDP))
	}
	if !slices.Contains(share.TunnelModes, o.Tunnel) {
		errs = append(errs, fmt.Errorf("--tunnel=%s is none of %v", o.Tunnel, share.TunnelModes))
	}
	if port == 0 || port > 65535 {
		errs = append(errs, fmt.Errorf("--heartbeat-port=%d must be 1 to 65535", port))
	}
	if o.Idle < minIdle || o.Idle > maxIdle {
		errs = append(errs, fmt.Errorf("--idle-timeout=%s must be %s to %s", o.Idle, minIdle, maxIdle))
	}
	if connects > 65535 {
		errs = append(errs, fmt.Errorf("--connects-port=%d must be 0 to 65535", connects))
	}
	return errors.Join(errs...)
}
