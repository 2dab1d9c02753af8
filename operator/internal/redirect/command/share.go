// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"reflect"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/devices"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/heartbeat"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/keeper"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/ownership"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/reports"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// Announce says with whom this host shares its VIPs. Only peers may change while
// the program runs.
type Announce struct {
	Name    string         `json:"name"`
	Device  string         `json:"device"`
	Listen  netip.AddrPort `json:"listen"`
	KeyFile string         `json:"keyFile"`
	Peers   []AnnouncePeer `json:"peers,omitempty"`
}

// AnnouncePeer is another host that announces the same VIPs, or has servers of them.
type AnnouncePeer struct {
	Name string         `json:"name"`
	Addr netip.AddrPort `json:"addr"`
	// Servers are those that run there: of them its reports of load are believed.
	Servers []netip.Addr `json:"servers,omitempty"`
}

// share is this host's part in announcing VIPs.
type share struct {
	config Announce
	uplink int
	keeper *keeper.Keeper
	// reports of load go out and come in with the heartbeats.
	reports *reports.Reporter
}

func newShare(a Announce, plane redirect.Plane, out io.Writer) (*share, error) {
	if a.Name == "" || !a.Listen.IsValid() {
		return nil, &redirect.FieldError{Field: "announce", Reason: "name, listen and device are needed"}
	}
	uplink, err := devices.Uplink(a.Device)
	if err != nil {
		return nil, fmt.Errorf("announce.device: %w", err)
	}
	key, err := os.ReadFile(a.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("announce.keyFile: %w", err)
	}
	before, err := plane.VIPs() // a former process balanced them here, and clients still send here
	if err != nil {
		return nil, err
	}
	s := &share{config: a, uplink: uplink.Index}
	s.reports = s.newReporter(plane)
	s.keeper, err = keeper.New(keeper.Options{
		Loads: s.reports.Hear, Balanced: redirect.Balanced(before),
		Name: a.Name, Uplink: uplink.Index, Keys: [][]byte{bytes.TrimSpace(key)}, Listen: a.Listen,
		Event: func(c ownership.Change) {
			fmt.Fprintf(out, "%s %s: %s\n", [...]string{"take", "yield", "renew"}[c.Action], c.VIP, c.Why)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("announce: %w", err)
	}
	return s, nil
}

// start returns what ends it.
func (s *share) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go s.reports.Run(ctx)
	go func() { defer close(ended); s.keeper.Run(ctx) }()
	return func() {
		cancel()
		<-ended
		_ = devices.Reach(s.uplink, nil, nil) // another host owns the VIPs now
	}
}

// changed never comes without a share.
func (s *share) changed() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.keeper.Changed()
}

// update takes over VIPs and peers of the file.
func (s *share) update(c Config) error {
	var next Announce
	if c.Announce != nil {
		next = *c.Announce
	}
	peers := make([]heartbeat.Peer, 0, len(next.Peers))
	for _, p := range next.Peers {
		peers = append(peers, heartbeat.Peer{Name: p.Name, Addr: p.Addr})
	}
	old := s.config
	old.Peers = next.Peers
	if !reflect.DeepEqual(old, next) {
		return &redirect.FieldError{Field: "announce", Reason: "only peers can change while the program runs: start it again"}
	}
	s.keeper.SetPeers(peers)
	seen := map[netip.Addr]bool{}
	var vips []netip.Addr
	for _, v := range c.VIPs {
		if shared(v) && !seen[v.Addr] {
			seen[v.Addr] = true
			vips = append(vips, v.Addr)
		}
	}
	return s.keeper.SetVIPs(vips)
}

// shared VIPs belong to no host, so one must announce them; a node's own address
// is not among them.
func shared(v redirect.VIP) bool {
	return v.Roles&redirect.RoleBalance != 0 && v.Roles&redirect.RoleStackFallback == 0
}

// only leaves balancing to those VIPs that are balanced on this host.
func only(vips []redirect.VIP, balanced map[netip.Addr]bool) []redirect.VIP {
	var all []redirect.VIP
	for _, v := range vips {
		if shared(v) && !balanced[v.Addr] {
			v.Roles &^= redirect.RoleBalance
		}
		if v.Roles != 0 {
			all = append(all, v)
		}
	}
	return all
}

// announce what is balanced now.
func (s *share) announce(balanced map[netip.Addr]bool) error {
	err := devices.Reach(s.uplink, nil, s.keeper.Owned())
	var ready []netip.Addr
	for addr := range balanced {
		ready = append(ready, addr)
	}
	s.keeper.Announce(ready)
	return err
}
