// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// applier brings the dataplane to the desired configuration and keeps it
// there: after a change, after a restart of the dataplane (its incarnation
// changes), and again and again while it refuses, because the cause may be a
// key file the kubelet has yet to write.
type applier struct {
	link *link
	log  *slog.Logger
	wake chan struct{}

	minWait, maxWait, poll time.Duration

	mu       sync.Mutex
	want     desired
	seen     dataplane.Hello // the dataplane's present life; zero while it does not answer
	role     string
	applied  string // hash acknowledged in the present life
	sources  []dataplane.Source
	parsed   string                // hash of the document that the next two are of
	keyIDs   []int                 // that the acknowledged configuration names
	broken   *dataplane.ApplyError // what is wrong with the ConfigMap itself
	last     *dataplane.ApplyError // what the dataplane refused
	refusals map[string]uint64     // by code
	restarts uint64
}

func newApplier(l *link, log *slog.Logger) *applier {
	return &applier{
		link: l, log: log, wake: make(chan struct{}, 1), refusals: map[string]uint64{},
		minWait: 200 * time.Millisecond, maxWait: 5 * time.Second, poll: time.Second,
	}
}

// set replaces the desired configuration. A missing or broken ConfigMap never
// takes back a good one: the dataplane outlives its control plane.
func (a *applier) set(d desired) {
	a.mu.Lock()
	if d.bad != nil {
		a.refused(&a.broken, d.bad)
	} else {
		a.broken = nil
		if a.last != nil && a.last.Hash != d.hash {
			a.last = nil
		}
		a.want = d
	}
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// refused remembers an error in one of its two places; callers hold mu.
func (a *applier) refused(place **dataplane.ApplyError, e *dataplane.ApplyError) {
	if *place == nil || **place != *e {
		a.log.Error("configuration refused", "code", e.Code, "field", e.Field, "message", e.Message, "hash", e.Hash)
	}
	a.refusals[e.Code]++
	*place = e
}

// run returns when ctx ends.
func (a *applier) run(ctx context.Context) {
	wait := a.minWait
	for {
		pause := a.poll
		if err := a.step(ctx); err != nil {
			pause = wait
			wait = min(2*wait, a.maxWait)
		} else {
			wait = a.minWait
		}
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
			wait = a.minWait
		case <-time.After(pause):
		}
	}
}

// step looks who the dataplane is and what it runs, and applies what is wanted
// when that differs.
func (a *applier) step(ctx context.Context) error {
	hello, err := ask(ctx, a.link, (*dataplane.Socket).Hello)
	if err != nil {
		a.lost()
		return err
	}
	reborn := a.found(*hello)
	state, err := ask(ctx, a.link, (*dataplane.Socket).State)
	if err != nil {
		return err
	}
	a.mu.Lock()
	want := a.want
	a.applied = state.Hash
	a.mu.Unlock()
	if want.text == nil || state.Hash == want.hash && !reborn {
		a.acknowledged(want, state.Hash)
		return nil
	}
	return a.apply(ctx, want)
}

func (a *applier) apply(ctx context.Context, want desired) error {
	err := a.link.do(ctx, func(ctx context.Context, s *dataplane.Socket) error {
		_, err := s.Apply(ctx, want.text, want.hash)
		return err
	})
	var refusal *dataplane.CtlError
	if errors.As(err, &refusal) {
		a.mu.Lock()
		a.refused(&a.last, &dataplane.ApplyError{Code: refusal.Code, Field: refusal.Field, Message: refusal.Message, Hash: want.hash})
		a.mu.Unlock()
		return err
	}
	if err != nil {
		return err
	}
	a.log.Info("configuration applied", "hash", want.hash)
	a.acknowledged(want, want.hash)
	return nil
}

// acknowledged records that the dataplane runs hash, and ends an error about it.
func (a *applier) acknowledged(want desired, hash string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.applied = hash
	if hash == "" || hash != want.hash {
		return
	}
	if a.last != nil && a.last.Hash == hash {
		a.last = nil
	}
	if hash == a.parsed {
		return
	}
	if c, err := dataplane.ParseHead(want.text); err == nil {
		a.parsed, a.sources, a.keyIDs = hash, c.Sources, c.KeyIDs
	}
}

func (a *applier) found(h dataplane.Hello) (reborn bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	reborn = a.seen.Incarnation != h.Incarnation || a.seen.PID != h.PID
	if reborn {
		a.log.Info("dataplane found", "role", h.Role, "version", h.Version, "incarnation", h.Incarnation)
		if a.role != "" {
			a.restarts++
		}
		a.applied = ""
	}
	a.seen, a.role = h, h.Role
	return reborn
}

func (a *applier) lost() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.applied != "" || a.seen.Role != "" {
		a.log.Warn("dataplane does not answer", "socket", a.link.path)
	}
	a.applied, a.seen = "", dataplane.Hello{}
}

// view is what the HTTP handlers show of the applier.
type view struct {
	role, applied string
	incarnation   uint64
	version       string
	last          *dataplane.ApplyError
	sources       []dataplane.Source
	keyIDs        []int
	refusals      map[string]uint64
	restarts      uint64
	wanted        bool
}

func (a *applier) view() view {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := view{
		role: a.role, applied: a.applied, incarnation: a.seen.Incarnation, version: a.seen.Version,
		sources: a.sources, keyIDs: a.keyIDs, refusals: map[string]uint64{}, restarts: a.restarts, wanted: a.want.text != nil,
	}
	if e := cmp.Or(a.broken, a.last); e != nil {
		shown := *e
		v.last = &shown
	}
	for k, n := range a.refusals {
		v.refusals[k] = n
	}
	return v
}
