// SPDX-License-Identifier: Apache-2.0

// Package switchpeer is a P4Runtime server for tests. It keeps entries as a switch does,
// and can do all that a switch should not: lose entries, restart empty, answer slowly or
// wrongly, refuse what is optional, have another primary. Alone it forwards no packet; package
// pipe gives it a data plane.
package switchpeer

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"
)

// Faults are what a peer does wrong, or leaves out.
type Faults struct {
	// Delay is added to every call.
	Delay time.Duration
	// FixedPipeline refuses every pipeline as a fixed switch does; RefusePipeline as one
	// that cannot run it.
	FixedPipeline, RefusePipeline bool
	// NoCookie, NoMetadata and NoGroups leave out what not every server has.
	NoCookie, NoMetadata, NoGroups bool
	// Padded answers with leading zeros.
	Padded bool
	// LoseWrites says yes to writes and forgets them.
	LoseWrites bool
	// RefuseEvery refuses each n-th update; 0 none.
	RefuseEvery int
	// WrongDetails answers to partial failures with details that cannot be right.
	WrongDetails bool
	// Mute opens streams and says nothing.
	Mute bool
	// Lax takes writes from anybody, as no switch should.
	Lax bool
	// RefuseArbitration ends every stream.
	RefuseArbitration bool
	// NoCounters refuses reads of counters.
	NoCounters bool
	// Garble, when set, may change what is answered to a read.
	Garble func(*p4.ReadResponse)
}

// Counts are what happened since the peer was made.
type Counts struct {
	Pushes, Writes, Updates int
	// PushesRefused are those that its faults refused.
	PushesRefused int
	// PushesWithoutNeed had the pipeline that ran already.
	PushesWithoutNeed int
	// FromOldLeader are batches taken from a controller when a later one had been here;
	// Refused are those of controllers that were not primary.
	FromOldLeader, Refused int
	// Dangling are inserts of entries that pointed at what was not there.
	Dangling int
}

// Peer is the switch.
type Peer struct {
	p4.UnimplementedP4RuntimeServer

	device uint64
	server *grpc.Server
	listen net.Listener

	mu       sync.Mutex
	faults   Faults
	counts   Counts
	streams  map[*stream]bool
	highest  *p4.Uint128
	pipeline *p4.ForwardingPipelineConfig
	sizes    map[uint32]int64
	entries  map[string]*p4.Entity
	filled   map[uint32]int64 // entries by table; nil: not counted
	updates  int
	points   func(entity *p4.Entity, there func(*p4.Entity) bool) bool
	plane    Dataplane
}

// Dataplane is what entries act on. An error refuses what was asked.
type Dataplane interface {
	// Load runs a pipeline, which begins empty; Unload stops it.
	Load(c *p4.ForwardingPipelineConfig) error
	Unload()
	// Put inserts or replaces an entity, Remove takes it out.
	Put(e *p4.Entity) error
	Remove(e *p4.Entity) error
}

// Counting is a Dataplane that counts packets.
type Counting interface {
	// Count is a place in an indirect counter; false: there is none.
	Count(id uint32, index int64) (packets uint64, there bool)
}

// none forwards nothing.
type none struct{}

func (none) Load(*p4.ForwardingPipelineConfig) error { return nil }
func (none) Unload()                                 {}
func (none) Put(*p4.Entity) error                    { return nil }
func (none) Remove(*p4.Entity) error                 { return nil }

// Options make a peer.
type Options struct {
	Device uint64
	// TLS is nil for connections in the clear.
	TLS *tls.Config
	// Address is where to listen; 127.0.0.1:0 when empty.
	Address string
	// Complete, when set, says whether everything an entry points at is there.
	Complete func(entity *p4.Entity, there func(*p4.Entity) bool) bool
	// Dataplane is nil for a peer that forwards nothing.
	Dataplane Dataplane
}

// Start makes a peer and serves.
func Start(o Options) (*Peer, error) {
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	listen, err := net.Listen("tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	p := &Peer{device: o.Device, listen: listen, streams: map[*stream]bool{}, entries: map[string]*p4.Entity{}, points: o.Complete, plane: o.Dataplane}
	if p.plane == nil {
		p.plane = none{}
	}
	var options []grpc.ServerOption
	if o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	p.server = grpc.NewServer(options...)
	p4.RegisterP4RuntimeServer(p.server, p)
	go func() { _ = p.server.Serve(listen) }()
	return p, nil
}

// Address is where it listens.
func (p *Peer) Address() string { return p.listen.Addr().String() }

// Stop ends it.
func (p *Peer) Stop() { p.server.Stop() }

// Misbehave changes its faults.
func (p *Peer) Misbehave(change func(*Faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.faults)
}

// Counts are what happened so far.
func (p *Peer) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// Held are copies of what it holds.
func (p *Peer) Held() (out []*p4.Entity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		out = append(out, proto.CloneOf(e))
	}
	return out
}

// Lose forgets up to n entries, and says how many.
func (p *Peer) Lose(n int) (lost int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, e := range p.entries {
		if lost == n {
			break
		}
		delete(p.entries, key)
		_ = p.plane.Remove(e) // it is there
		lost++
	}
	p.filled = nil
	return lost
}

// Change lets somebody who has access to the switch alter its entries.
func (p *Peer) Change(alter func(*p4.Entity)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filled = nil
	for key, e := range p.entries {
		delete(p.entries, key)
		_ = p.plane.Remove(e) // it is there
		alter(e)
		p.entries[keyOf(e)] = e
		_ = p.plane.Put(e) // what a data plane does not take does nothing
	}
}

// Put adds an entry that nobody asked for.
func (p *Peer) Put(e *p4.Entity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filled = nil
	p.entries[keyOf(e)] = proto.CloneOf(e)
	_ = p.plane.Put(e) // what a data plane does not take does nothing
}

// Restart is a reboot: streams end, and everything is forgotten.
func (p *Peer) Restart() {
	p.mu.Lock()
	p.pipeline, p.sizes, p.highest, p.filled = nil, nil, nil, nil
	p.entries = map[string]*p4.Entity{}
	p.plane.Unload()
	p.mu.Unlock()
	p.Cut()
}

// Load has it run a pipeline as if somebody had put it there.
func (p *Peer) Load(info *p4config.P4Info, cookie uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.set(&p4.ForwardingPipelineConfig{P4Info: info, Cookie: &p4.ForwardingPipelineConfig_Cookie{Cookie: cookie}})
}

// set needs p.mu. As on a real switch, a new pipeline begins empty, and one that cannot run
// leaves the one that does.
func (p *Peer) set(c *p4.ForwardingPipelineConfig) error {
	if err := p.plane.Load(c); err != nil {
		return err
	}
	p.pipeline, p.sizes, p.entries, p.filled = c, map[uint32]int64{}, map[string]*p4.Entity{}, nil
	for _, t := range c.GetP4Info().GetTables() {
		p.sizes[t.GetPreamble().GetId()] = t.GetSize()
	}
	return nil
}

// slow waits as long as its faults say, or until the caller has gone.
func (p *Peer) slow(ctx context.Context) {
	p.mu.Lock()
	delay := p.faults.Delay
	p.mu.Unlock()
	if delay <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(delay):
	}
}
