// SPDX-License-Identifier: Apache-2.0

package switchpeer

import (
	"cmp"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// stream is one controller.
type stream struct {
	server p4.P4Runtime_StreamChannelServer
	id     *p4.Uint128
	gone   chan struct{}
	cut    bool
}

func compare(a, b *p4.Uint128) int {
	return cmp.Or(cmp.Compare(a.GetHigh(), b.GetHigh()), cmp.Compare(a.GetLow(), b.GetLow()))
}

// StreamChannel is a controller's stream; arbitration is what it is for here.
func (p *Peer) StreamChannel(server p4.P4Runtime_StreamChannelServer) error {
	s := &stream{server: server, gone: make(chan struct{})}
	asked := make(chan error, 1)
	go func() { asked <- p.listenTo(s) }()
	var err error
	select {
	case err = <-asked:
	case <-s.gone:
		err = status.Error(codes.Unavailable, "the stream was cut")
	case <-server.Context().Done():
		err = status.FromContextError(server.Context().Err()).Err()
	}
	p.leave(s)
	return err
}

func (p *Peer) listenTo(s *stream) error {
	for {
		m, err := s.server.Recv()
		if err != nil {
			return err
		}
		p.slow(s.server.Context())
		if a := m.GetArbitration(); a != nil {
			if err := p.arbitrate(s, a); err != nil {
				return err
			}
		}
	}
}

func (p *Peer) arbitrate(s *stream, a *p4.MasterArbitrationUpdate) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.faults.Mute:
		return nil
	case p.faults.RefuseArbitration:
		return status.Error(codes.InvalidArgument, "arbitration is not welcome")
	case a.GetDeviceId() != p.device:
		return status.Errorf(codes.NotFound, "device %d is not here", a.GetDeviceId())
	case s.cut:
		return status.Error(codes.Unavailable, "the stream was cut")
	}
	for other := range p.streams {
		if other != s && compare(other.id, a.GetElectionId()) == 0 {
			return status.Error(codes.InvalidArgument, "the election id is another controller's")
		}
	}
	s.id = a.GetElectionId()
	p.streams[s] = true
	if compare(s.id, p.highest) > 0 || p.highest == nil {
		p.highest = s.id
	}
	p.announce()
	return nil
}

// primary needs p.mu: the controller with the highest id there ever was, if it is here.
func (p *Peer) primary() *stream {
	for s := range p.streams {
		if compare(s.id, p.highest) == 0 {
			return s
		}
	}
	return nil
}

// announce tells everybody who is primary; it needs p.mu. Messages of this size never
// wait for a reader.
func (p *Peer) announce() {
	primary := p.primary()
	for s := range p.streams {
		code := codes.AlreadyExists
		switch primary {
		case s:
			code = codes.OK
		case nil:
			code = codes.NotFound
		}
		_ = s.server.Send(&p4.StreamMessageResponse{Update: &p4.StreamMessageResponse_Arbitration{Arbitration: &p4.MasterArbitrationUpdate{
			DeviceId: p.device, ElectionId: p.highest, Status: &rpcstatus.Status{Code: int32(code)},
		}}})
	}
}

func (p *Peer) leave(s *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streams[s] {
		delete(p.streams, s)
		p.announce()
	}
}

// Cut ends all streams, as a network does.
func (p *Peer) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.streams {
		s.cut = true
		close(s.gone)
		delete(p.streams, s)
	}
}

// Crowd makes another controller primary, whose id is that high, until the function that
// it returns is called.
func (p *Peer) Crowd(high uint64) (leave func()) {
	s := &stream{id: &p4.Uint128{High: high}, server: deaf{}, gone: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams[s] = true
	if compare(s.id, p.highest) > 0 {
		p.highest = s.id
	}
	p.announce()
	return func() { p.leave(s) }
}

// deaf is the stream of a controller that is not there.
type deaf struct{ grpc.ServerStream }

func (deaf) Send(*p4.StreamMessageResponse) error    { return nil }
func (deaf) Recv() (*p4.StreamMessageRequest, error) { select {} }
