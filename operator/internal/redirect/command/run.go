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
	"github.com/bobtail-dev/bobtail/operator/internal/agent/devices"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/desired"
)

const (
	lookEvery   = 200 * time.Millisecond // at the configuration file
	expireEvery = 2 * time.Second
	rescanEvery = 10 * time.Second      // of devices, besides their events
	retryEvery  = time.Second           // of what could not be applied
	settle      = 50 * time.Millisecond // for changes of devices to be gathered
)

// host is the redirect plane of this host, held as its file says.
type host struct {
	config  Config
	plane   redirect.Plane
	applier *desired.Applier
	share   *share            // nil: every VIP of the file is balanced here
	teller  *balancers.Teller // nil: no balancer is told of this host's servers
	leave   func()            // ends share
	told    map[string]string // by device
	links   map[string]int    // the file's devices: by name, the index of what was attached to; 0: gone
	said    string            // of what is not applied
	out     io.Writer
}

func run(ctx context.Context, root, path string, out io.Writer) error {
	seen := modified(path)
	c, err := readConfig(path)
	if err != nil {
		return err
	}
	if _, missing := c.state(); missing != nil {
		return missing
	}
	p, err := redirect.Open(redirect.Options{Root: root, Wire: c.Wire, Sizes: c.Sizes})
	if err != nil {
		return err
	}
	defer p.Close()
	h := &host{config: c, plane: p, applier: desired.New(p), told: map[string]string{}, links: map[string]int{}, leave: func() {}, out: out}
	if c.Announce != nil {
		if h.share, err = newShare(*c.Announce, p, out); err != nil {
			return err
		}
		h.leave = h.share.start(ctx)
		defer func() { h.leave() }()
	}
	if b := c.Balancers; b != nil {
		h.teller = balancers.New(balancers.Options{Addresses: b.Addresses, KeyDir: b.KeyDir, Connections: p.Connections})
		defer background(ctx, h.teller.Run)()
	}
	if err := h.apply(ctx); err != nil {
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
func (h *host) apply(ctx context.Context) error {
	s, missing := h.config.state()
	missing = errors.Join(missing, h.shareAnew(ctx))
	var balanced map[netip.Addr]bool
	if h.share != nil {
		if err := h.share.update(h.config); err != nil {
			return err
		}
		balanced = h.share.keeper.Balanced()
		s.VIPs = only(s.VIPs, balanced)
		h.share.report(h.config, s.VIPs)
	}
	result := h.applier.Apply(s)
	err := errors.Join(missing, result.Err(), h.follows(s.Devices, result))
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

// follow applies changes of the file, of its devices, and of what this host owns; an entry that cannot be used is told
// of and keeps its former content.
func (h *host) follow(ctx context.Context, path string, seen time.Time) error {
	links, err := devices.Watch(ctx.Done())
	if err != nil {
		return err
	}
	look, expire, rescan := time.NewTicker(lookEvery), time.NewTicker(expireEvery), time.NewTicker(rescanEvery)
	defer look.Stop()
	defer expire.Stop()
	defer rescan.Stop()
	later := time.NewTimer(rescanEvery)
	defer later.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-expire.C:
			if _, err := h.plane.Expire(h.config.Lives); err != nil {
				return err
			}
		case <-links: // several at a time, mostly
			later.Reset(settle)
		case <-h.share.changed():
			h.again(ctx, later)
		case <-rescan.C:
			h.again(ctx, later)
		case <-later.C:
			h.again(ctx, later)
		case <-look.C:
			if now := modified(path); !now.Equal(seen) && !now.IsZero() {
				seen = now
				h.read(ctx, path)
			}
		}
	}
}

// again applies what has not changed to devices and VIPs that have. What it cannot do it tells once, and tries soon.
func (h *host) again(ctx context.Context, later *time.Timer) {
	err := h.apply(ctx)
	if err == nil {
		h.said = ""
		return
	}
	if said := err.Error(); said != h.said {
		h.said = said
		fmt.Fprintln(h.out, "not applied:", err)
	}
	later.Reset(retryEvery)
}

// read takes over a changed file.
func (h *host) read(ctx context.Context, path string) {
	next, err := readConfig(path)
	if err == nil && !reflect.DeepEqual(next.Balancers, h.config.Balancers) {
		err = &redirect.FieldError{Field: "balancers", Reason: "cannot change while the program runs: start it again"}
	}
	if err == nil {
		err = next.newDevices(h.config)
	}
	if err == nil {
		h.config = next
		err = h.apply(ctx)
	}
	if err != nil {
		fmt.Fprintln(h.out, "not applied:", err)
		return
	}
	fmt.Fprintln(h.out, "applied")
}
