// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"sync"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// Target is the switch that is meant.
type Target struct {
	// Endpoint is host:port.
	Endpoint string
	DeviceID uint64
	// TLS is nil for a connection in the clear.
	TLS *tls.Config
	// Dial, when set, makes the connection (tests).
	Dial []grpc.DialOption
}

// Patience bounds the time of calls.
type Patience struct {
	// Hello is for connecting and arbitration.
	Hello time.Duration
	// Call is for a read of one table, or a batch of writes.
	Call time.Duration
	// Push is for a pipeline.
	Push time.Duration
}

// Usual is what real switches need.
var Usual = Patience{Hello: 5 * time.Second, Call: 10 * time.Second, Push: 3 * time.Minute}

// Bounds of what one server may send.
const (
	maxMessage = 16 << 20
	// maxChatter is how many messages a second on the stream are borne that nobody
	// asked for.
	maxChatter = 5000
	// maxRaises is how often a session outdoes what a switch reports: an honest switch
	// reports the same id once.
	maxRaises = 3
)

// Role is what arbitration said last.
type Role struct {
	Primary bool
	// Election is our id.
	Election Election
	// Other is the primary's, when it is not ours.
	Other Election
	// Answered: there was an answer at all.
	Answered bool
}

// Session is a connection with a switch on which arbitration has been asked for.
type Session struct {
	target   Target
	patience Patience
	conn     *grpc.ClientConn
	client   p4.P4RuntimeClient
	stream   p4.P4Runtime_StreamChannelClient
	cancel   context.CancelFunc

	mu      sync.Mutex
	role    Role
	ended   *Fault
	answers chan struct{} // holds one when there is news
	raises  int
}

// Open connects, and asks to be primary. It returns with the switch's first answer.
func Open(ctx context.Context, t Target, id Election, p Patience) (*Session, error) {
	creds := insecure.NewCredentials()
	if t.TLS != nil {
		creds = credentials.NewTLS(t.TLS)
	}
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(creds), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 5 * time.Second}),
	}, t.Dial...)
	conn, err := grpc.NewClient("passthrough:///"+t.Endpoint, options...)
	if err != nil {
		return nil, Faultf(Unreachable, "connect to %s: %s", t.Endpoint, said(err))
	}
	alive, cancel := context.WithCancel(ctx)
	s := &Session{target: t, patience: p, conn: conn, client: p4.NewP4RuntimeClient(conn), cancel: cancel, answers: make(chan struct{}, 1)}
	s.role.Election = id
	if err := s.hello(alive); err != nil {
		s.Close()
		if FaultOf(err).Kind == Unreachable && t.TLS != nil {
			if refused := t.refusal(ctx, p.Hello); refused != nil {
				return nil, refused
			}
		}
		return nil, err
	}
	return s, nil
}

// refusal asks once more why a connection with TLS came to nothing. A server that does not
// trust our certificate says so behind the handshake, when what we write may already have
// failed for another reason; who only listens hears it.
func (t Target) refusal(ctx context.Context, patience time.Duration) *Fault {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	config := t.TLS.Clone()
	config.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", t.Endpoint)
	if err == nil {
		defer func() { _ = conn.Close() }()
		_ = conn.SetReadDeadline(time.Now().Add(patience)) // a connection that is closed fails below
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil {
		return nil
	}
	if fault := judge("the handshake", err); fault.Kind == Certificate {
		return fault
	}
	return nil
}

// hello opens the stream and waits for the first answer. The stream may stay blocked in
// opening, so that happens beside the clock.
func (s *Session) hello(ctx context.Context) error {
	go func() {
		stream, err := s.client.StreamChannel(ctx)
		if err != nil {
			s.end(judge("open the stream", err))
			return
		}
		s.stream = stream
		if err := s.arbitrate(s.Role().Election); err != nil {
			s.end(judge("ask for arbitration", err))
			return
		}
		s.receive()
	}()
	late := time.NewTimer(s.patience.Hello)
	defer late.Stop()
	for {
		select {
		case <-s.answers:
			if fault := s.Ended(); fault != nil {
				return fault
			}
			if s.Role().Answered {
				return nil
			}
		case <-late.C:
			return Faultf(Unreachable, "%s did not answer to arbitration within %s", s.target.Endpoint, s.patience.Hello)
		case <-ctx.Done():
			return Faultf(Unreachable, "connecting was given up")
		}
	}
}

func (s *Session) arbitrate(id Election) error {
	return s.stream.Send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{
		Arbitration: &p4.MasterArbitrationUpdate{DeviceId: s.target.DeviceID, ElectionId: id.wire()},
	}})
}

// receive reads the stream until it ends. Packets and digests are of no use here, but
// must be read, or the switch could not send what follows.
func (s *Session) receive() {
	second, chatter := time.Now(), 0
	for {
		m, err := s.stream.Recv()
		if err != nil {
			s.end(streamEnd(err))
			return
		}
		if time.Since(second) > time.Second {
			second, chatter = time.Now(), 0
		}
		if chatter++; chatter > maxChatter {
			s.end(Faultf(Broken, "more than %d messages a second on the stream", maxChatter))
			return
		}
		if a := m.GetArbitration(); a != nil {
			if fault := s.hear(a); fault != nil {
				s.end(fault)
				return
			}
		}
	}
}

func streamEnd(err error) *Fault {
	code := status.Code(err)
	switch {
	case errors.Is(err, io.EOF):
		return Faultf(Unreachable, "the switch closed the stream")
	case code == codes.NotFound:
		return Faultf(Device, "the switch knows no such device: %s", said(err))
	case code == codes.InvalidArgument, code == codes.Unimplemented:
		return Faultf(Broken, "the switch refuses arbitration: %s", said(err))
	}
	return judge("the stream ended", err)
}

// hear takes an answer to arbitration. A switch without a living primary that remembers a
// higher id is outdone (W-20); a living primary never is.
func (s *Session) hear(a *p4.MasterArbitrationUpdate) *Fault {
	if a.GetDeviceId() != s.target.DeviceID {
		return Faultf(Broken, "the switch answers for device %d, not %d", a.GetDeviceId(), s.target.DeviceID)
	}
	s.mu.Lock()
	highest := electionOf(a.GetElectionId())
	s.role.Primary, s.role.Other, s.role.Answered = false, Election{}, true
	raise := false
	switch codes.Code(uint32(max(a.GetStatus().GetCode(), 0))) {
	case codes.OK:
		s.role.Primary = true
	case codes.AlreadyExists:
		s.role.Other = highest
	case codes.NotFound: // there is no primary
		raise = highest.Compare(s.role.Election) >= 0
	default:
		s.mu.Unlock()
		return Faultf(Broken, "the switch answers to arbitration: %s", clean(a.GetStatus().GetMessage()))
	}
	if !raise {
		s.mu.Unlock()
		s.tell()
		return nil
	}
	next, ok := highest.above()
	s.raises++
	ok = ok && s.raises <= maxRaises
	s.role.Answered = false
	if ok {
		s.role.Election = next
	}
	s.mu.Unlock()
	if !ok {
		return Faultf(Broken, "the switch has no primary and remembers election id %s, which cannot be outdone: restart its server", highest)
	}
	if err := s.arbitrate(next); err != nil {
		return judge("ask for arbitration", err)
	}
	return nil
}

func (s *Session) tell() {
	select {
	case s.answers <- struct{}{}:
	default:
	}
}

func (s *Session) end(f *Fault) {
	s.mu.Lock()
	if s.ended == nil {
		s.ended = f
	}
	s.role.Primary = false
	s.mu.Unlock()
	s.tell()
}

// Role is what arbitration said last.
func (s *Session) Role() Role {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.role
}

// Ended is why the session is over, nil while it is not.
func (s *Session) Ended() *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// News holds one thing whenever the role changes or the session ends.
func (s *Session) News() <-chan struct{} { return s.answers }

// Close ends the session.
func (s *Session) Close() {
	s.cancel()
	_ = s.conn.Close() // it only says that it was closed already
}
