// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/balancers"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/desired"
)

const (
	lookEvery   = 200 * time.Millisecond // at the configuration file
	expireEvery = 2 * time.Second
)

// host is the redirect plane of this host, held as its file says.
type host struct {
	config  Config
	plane   redirect.Plane
	applier *desired.Applier
	share   *share            // nil: every VIP of the file is balanced here
	teller  *balancers.Teller // nil: no balancer is told of this host's servers
	told    map[string]string // by device
	out     io.Writer
}

func run(ctx context.Context, root, path string, out io.Writer) error {
	seen := modified(path)
	c, err := readConfig(path)
	if err != nil {
		return err
	}
	p, err := redirect.Open(redirect.Options{Root: root, Wire: c.Wire, Sizes: c.Sizes})
	if err != nil {
		return err
	}
	defer p.Close()
	h := &host{config: c, plane: p, applier: desired.New(p), told: map[string]string{}, out: out}
	if c.Announce != nil {
		if h.share, err = newShare(*c.Announce, p, out); err != nil {
			return err
		}
		defer h.share.start(ctx)()
	}
	if b := c.Balancers; b != nil {
		h.teller = balancers.New(balancers.Options{Addresses: b.Addresses, KeyDir: b.KeyDir, Connections: p.Connections})
		defer background(ctx, h.teller.Run)()
	}
	if err := h.apply(); err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	return h.follow(ctx, path, seen)
}

// background returns what ends it.
func background(ctx context.Context, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); run(ctx) }()
	return func() { cancel(); <-ended }
}

// apply makes the host hold what the file says, and nothing else.
func (h *host) apply() error {
	s, err := h.config.state()
	if err != nil {
		return err
	}
	var balanced map[netip.Addr]bool
	if h.share != nil {
		if err := h.share.update(h.config); err != nil {
			return err
		}
		balanced = h.share.keeper.Balanced()
		s.VIPs = only(s.VIPs, balanced)
		h.share.report(h.config, s.VIPs)
	}
	err = h.applier.Apply(s).Err()
	if h.teller != nil {
		h.teller.Set(s.Watch)
	}
	h.tell(s.Devices)
	if h.share != nil {
		err = errors.Join(err, h.share.announce(balanced))
	}
	return err
}

// tell how devices balance, when that is news.
func (h *host) tell(devices []desired.Device) {
	for _, d := range devices {
		b, on := h.applier.Balancer(d.Index)
		line := fmt.Sprintf("balancer on %s: XDP %s %s\n", d.Name, b.XDP, b.XDPReason)
		if on && h.told[d.Name] != line {
			h.told[d.Name] = line
			fmt.Fprint(h.out, line)
		}
	}
}

// follow applies changes of the file, and of what this host owns; an entry that
// cannot be used is told of and keeps its former content.
func (h *host) follow(ctx context.Context, path string, seen time.Time) error {
	look, expire := time.NewTicker(lookEvery), time.NewTicker(expireEvery)
	defer look.Stop()
	defer expire.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-expire.C:
			if _, err := h.plane.Expire(h.config.Lives); err != nil {
				return err
			}
		case <-h.share.changed():
			if err := h.apply(); err != nil {
				fmt.Fprintln(h.out, "not applied:", err)
			}
		case <-look.C:
			now := modified(path)
			if now.Equal(seen) || now.IsZero() {
				continue
			}
			seen = now
			next, err := readConfig(path)
			if err == nil && !reflect.DeepEqual(next.Balancers, h.config.Balancers) {
				err = &redirect.FieldError{Field: "balancers", Reason: "cannot change while the program runs: start it again"}
			}
			if err == nil {
				h.config = next
				err = h.apply()
			}
			if err != nil {
				fmt.Fprintln(h.out, "not applied:", err)
				continue
			}
			fmt.Fprintln(h.out, "applied")
		}
	}
}
