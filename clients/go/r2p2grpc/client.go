// SPDX-License-Identifier: Apache-2.0

package r2p2grpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"net"

	spb "google.golang.org/genproto/googleapis/rpc/status"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
)

// defaultTimeout ends a call that has no deadline: without a connection nobody else
// finds out that an answer will not come.
const defaultTimeout = 10 * time.Second

// DialOption configures a Conn.
type DialOption func(*Conn)

// WithR2P2 replaces what is beneath, but for its targets.
func WithR2P2(cfg r2p2.ClientConfig) DialOption { return func(c *Conn) { c.cfg = cfg } }

// WithTimeout is how long a call without a deadline waits; 10 s unless told otherwise.
func WithTimeout(d time.Duration) DialOption { return func(c *Conn) { c.timeout = d } }

// WithUnaryInterceptor is the outermost interceptor.
func WithUnaryInterceptor(i grpc.UnaryClientInterceptor) DialOption {
	return func(c *Conn) { c.interceptors = append([]grpc.UnaryClientInterceptor{i}, c.interceptors...) }
}

// WithChainUnaryInterceptor adds interceptors, the first of them outermost.
func WithChainUnaryInterceptor(i ...grpc.UnaryClientInterceptor) DialOption {
	return func(c *Conn) { c.interceptors = append(c.interceptors, i...) }
}

// Conn is a client of one service. It is safe for concurrent use.
type Conn struct {
	cfg          r2p2.ClientConfig
	timeout      time.Duration
	interceptors []grpc.UnaryClientInterceptor
	client       *r2p2.Client
}

var _ grpc.ClientConnInterface = (*Conn)(nil)

// NewClient looks the targets up, separated by commas: routers of an RpcService
// ("echo.demo.svc:8000"), or servers where there is no router. The scheme dns:/// is
// understood, others are not.
func NewClient(target string, options ...DialOption) (*Conn, error) {
	c := &Conn{timeout: defaultTimeout}
	for _, o := range options {
		o(c)
	}
	target = strings.TrimPrefix(target, "dns:///")
	if strings.Contains(target, "://") {
		return nil, fmt.Errorf("r2p2grpc: target %q: only names and addresses, with or without dns:///, are understood", target)
	}
	c.cfg.Targets = strings.Split(target, ",")
	if c.cfg.MaxMessage == 0 {
		c.cfg.MaxMessage = 1 << 20
	}
	ctx, cancel := context.WithTimeout(context.Background(), defaultTimeout)
	defer cancel()
	var err error
	c.client, err = r2p2.Dial(ctx, c.cfg)
	return c, err
}

// Close ends every call.
func (c *Conn) Close() error { return c.client.Close() }

// Invoke makes a unary call.
func (c *Conn) Invoke(ctx context.Context, method string, args, answer any, opts ...grpc.CallOption) error {
	if len(c.interceptors) == 0 {
		return c.invoke(ctx, method, args, answer, nil, opts...)
	}
	return c.interceptors[0](ctx, method, args, answer, nil, c.next(1), opts...)
}

// next is what interceptor i-1 calls.
func (c *Conn) next(i int) grpc.UnaryInvoker {
	if i == len(c.interceptors) {
		return c.invoke
	}
	return func(ctx context.Context, method string, args, answer any, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		return c.interceptors[i](ctx, method, args, answer, cc, c.next(i+1), opts...)
	}
}

// NewStream refuses: R2P2 has no streams.
func (c *Conn) NewStream(_ context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, streams(method))
}

func streams(method string) string {
	return fmt.Sprintf("r2p2grpc: method %s streams, and R2P2 carries one request and one reply: keep it on gRPC, or make it unary", method)
}

// call is what call options ask for.
type call struct {
	header, trailer      []*metadata.MD
	peers                []*peer.Peer
	finish               []func(error)
	sendLimit, recvLimit int
	credentials          grpc.PerRPCCredsCallOption
}

func (c *Conn) options(opts []grpc.CallOption) (call, error) {
	o := call{sendLimit: c.cfg.MaxMessage, recvLimit: c.cfg.MaxMessage}
	for _, option := range opts {
		switch option := option.(type) {
		case grpc.HeaderCallOption:
			o.header = append(o.header, option.HeaderAddr)
		case grpc.TrailerCallOption:
			o.trailer = append(o.trailer, option.TrailerAddr)
		case grpc.PeerCallOption:
			o.peers = append(o.peers, option.PeerAddr)
		case grpc.OnFinishCallOption:
			o.finish = append(o.finish, option.OnFinish)
		case grpc.MaxSendMsgSizeCallOption:
			o.sendLimit = option.MaxSendMsgSize
		case grpc.MaxRecvMsgSizeCallOption:
			o.recvLimit = option.MaxRecvMsgSize
		case grpc.PerRPCCredsCallOption:
			o.credentials = option
		case grpc.FailFastCallOption, grpc.StaticMethodCallOption, grpc.EmptyCallOption:
			// There is no connection to wait for, and no cost to know a method by.
		default:
			return o, status.Errorf(codes.Unimplemented, "r2p2grpc: call option %T has no meaning over R2P2", option)
		}
	}
	return o, nil
}

func (c *Conn) invoke(ctx context.Context, method string, args, answer any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
	o, err := c.options(opts)
	if err == nil {
		err = c.roundTrip(ctx, method, args, answer, &o)
	}
	for _, f := range o.finish {
		f(err)
	}
	return err
}

func (c *Conn) roundTrip(ctx context.Context, method string, args, answer any, o *call) error {
	r, err := c.prepare(ctx, method, o)
	if err != nil {
		return err
	}
	buffer := payloads.Get().(*[]byte)
	defer giveBack(buffer)
	payload, err := c.encode(r, (*buffer)[:0], args, o.sendLimit)
	if err != nil {
		return err
	}
	*buffer = payload
	got, err := c.client.Do(ctx, &r2p2.Request{Payload: payload, Timeout: c.limit(ctx)})
	if err != nil {
		return c.failure(ctx, err)
	}
	for _, p := range o.peers {
		*p = peer.Peer{Addr: net.UDPAddrFromAddrPort(got.From)}
	}
	return decode(got.Payload, answer, o)
}

// limit is how long the call may take.
func (c *Conn) limit(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return max(time.Until(end), 1)
	}
	return c.timeout
}

// prepare has what goes before the message.
func (c *Conn) prepare(ctx context.Context, method string, o *call) (*request, error) {
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	r := &request{method: method}
	if end, ok := ctx.Deadline(); ok {
		r.timeout = max(time.Until(end), time.Microsecond)
	}
	if md, ok := metadata.FromOutgoingContext(ctx); ok {
		r.header = md
	}
	if creds := o.credentials.Creds; creds != nil {
		if creds.RequireTransportSecurity() {
			return nil, status.Error(codes.Unauthenticated, "transport: cannot send secure credentials on an insecure connection")
		}
		more, err := creds.GetRequestMetadata(ctx, method)
		if err != nil {
			return nil, status.Errorf(codes.Unauthenticated, "transport: per-RPC creds failed due to error: %v", err)
		}
		r.header = metadata.Join(r.header, metadata.New(more))
	}
	if err := sendable(r.header); err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	return r, nil
}

// payloads are requests whose calls ended: nobody reads one any more then.
var payloads = sync.Pool{New: func() any { return new([]byte) }}

// payloadKept is the capacity beyond which a payload is not kept for another call.
const payloadKept = 64 << 10

func giveBack(buffer *[]byte) {
	if cap(*buffer) <= payloadKept {
		payloads.Put(buffer)
	}
}

func (c *Conn) encode(r *request, into []byte, args any, limit int) ([]byte, error) {
	m, ok := args.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "grpc: error while marshaling: message is %T, want proto.Message", args)
	}
	size := proto.Size(m)
	if size > limit {
		return nil, status.Errorf(codes.ResourceExhausted, "trying to send message larger than max (%d vs. %d)", size, limit)
	}
	envelope := r.append(slices.Grow(into, len(r.method)+16+size))
	out, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(envelope, m)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "grpc: error while marshaling: %v", err)
	}
	if len(out) > c.cfg.MaxMessage {
		return nil, status.Errorf(codes.ResourceExhausted, "r2p2grpc: trying to send message and metadata larger than R2P2's max (%d vs. %d)", len(out), c.cfg.MaxMessage)
	}
	return out, nil
}

func decode(payload []byte, answer any, o *call) error {
	r, err := parseReply(payload)
	if err != nil {
		return status.Errorf(codes.Internal, "r2p2grpc: the reply is none of this protocol: %v", err)
	}
	for _, h := range o.header {
		*h = orEmpty(r.header)
	}
	for _, t := range o.trailer {
		*t = orEmpty(r.trailer)
	}
	if r.code != codes.OK {
		return failed(&r)
	}
	if len(r.message) > o.recvLimit {
		return status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", len(r.message), o.recvLimit)
	}
	m, ok := answer.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: message is %T, want proto.Message", answer)
	}
	if err := proto.Unmarshal(r.message, m); err != nil {
		return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
	}
	return nil
}

func orEmpty(md metadata.MD) metadata.MD {
	if md == nil {
		return metadata.MD{}
	}
	return md
}

// failed is what the handler said.
func failed(r *reply) error {
	if len(r.details) > 0 {
		s := &spb.Status{}
		if proto.Unmarshal(r.details, s) == nil && codes.Code(s.GetCode()) == r.code {
			return status.ErrorProto(s)
		}
	}
	return status.Error(r.code, r.text)
}

// failure is why there is no reply.
func (c *Conn) failure(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		if _, bounded := ctx.Deadline(); !bounded {
			return status.Errorf(codes.DeadlineExceeded, "r2p2grpc: no reply within %v, and the call has no deadline of its own; whether it was executed is unknown", c.timeout)
		}
		return status.Error(codes.DeadlineExceeded, context.DeadlineExceeded.Error())
	case errors.Is(err, r2p2.ErrTooLarge):
		return status.Error(codes.ResourceExhausted, err.Error())
	case errors.Is(err, r2p2.ErrIncomplete):
		return status.Error(codes.DataLoss, err.Error())
	case errors.Is(err, r2p2.ErrClosed):
		return status.Error(codes.Canceled, "grpc: the client connection is closing")
	}
	return status.Error(codes.Unavailable, err.Error())
}
