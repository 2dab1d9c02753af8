// SPDX-License-Identifier: Apache-2.0

package r2p2grpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
)

// drain is how long GracefulStop waits for what is being executed.
const drain = 20 * time.Second

// ServerOption configures a Server.
type ServerOption func(*Server)

// R2P2 replaces what is beneath; the handler is the Server. What Serve finds out, the
// address and port, is left alone where it is given.
func R2P2(cfg r2p2.ServerConfig) ServerOption { return func(s *Server) { s.cfg = cfg } }

// Workers is how many calls execute at a time; in a pod of an RpcService it is
// `workersPerReplica`, whatever is said here.
func Workers(n int) ServerOption { return func(s *Server) { s.cfg.Workers = n } }

// UnaryInterceptor is the outermost interceptor.
func UnaryInterceptor(i grpc.UnaryServerInterceptor) ServerOption {
	return func(s *Server) { s.interceptors = append([]grpc.UnaryServerInterceptor{i}, s.interceptors...) }
}

// ChainUnaryInterceptor adds interceptors, the first of them outermost.
func ChainUnaryInterceptor(i ...grpc.UnaryServerInterceptor) ServerOption {
	return func(s *Server) { s.interceptors = append(s.interceptors, i...) }
}

// Server is a grpc.ServiceRegistrar whose services are called over R2P2.
type Server struct {
	cfg          r2p2.ServerConfig
	interceptors []grpc.UnaryServerInterceptor
	interceptor  grpc.UnaryServerInterceptor // all of them; nil: none
	services     map[string]*service

	mu      sync.Mutex
	serving bool
	server  *r2p2.Server
	stopped chan struct{}
	once    sync.Once
}

type service struct {
	impl    any
	methods map[string]*grpc.MethodDesc
	streams map[string]bool
}

var _ grpc.ServiceRegistrar = (*Server)(nil)

// NewServer makes a server without services.
func NewServer(options ...ServerOption) *Server {
	s := &Server{services: map[string]*service{}, stopped: make(chan struct{})}
	for _, o := range options {
		o(s)
	}
	s.interceptor = chain(s.interceptors)
	return s
}

func chain(all []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	if len(all) == 0 {
		return nil
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		next := handler
		for i := len(all) - 1; i > 0; i-- {
			inner, this := next, all[i]
			next = func(ctx context.Context, req any) (any, error) { return this(ctx, req, info, inner) }
		}
		return all[0](ctx, req, info, next)
	}
}

// RegisterService adds a service; generated code calls it. It panics where gRPC-Go ends
// the program: on a service that is there already, on an implementation that does not
// fit, and once the server serves. Methods that stream are known by name only.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving {
		panic(fmt.Sprintf("r2p2grpc: RegisterService(%q) after Serve", desc.ServiceName))
	}
	if _, twice := s.services[desc.ServiceName]; twice {
		panic(fmt.Sprintf("r2p2grpc: service %q registered twice", desc.ServiceName))
	}
	if want := reflect.TypeOf(desc.HandlerType); impl != nil && want != nil {
		if got := reflect.TypeOf(impl); !got.Implements(want.Elem()) {
			panic(fmt.Sprintf("r2p2grpc: the handler of type %v does not satisfy %v", got, want.Elem()))
		}
	}
	one := &service{impl: impl, methods: map[string]*grpc.MethodDesc{}, streams: map[string]bool{}}
	for i := range desc.Methods {
		one.methods[desc.Methods[i].MethodName] = &desc.Methods[i]
	}
	for i := range desc.Streams {
		one.streams[desc.Streams[i].StreamName] = true
	}
	s.services[desc.ServiceName] = one
}

// Serve serves until Stop or GracefulStop. The listener says only where: R2P2 has no
// connections, so it is closed, and UDP ports are bound at its address. In a pod of an
// RpcService address, ports and workers are those of the pod, and lis may be nil.
func (s *Server) Serve(lis net.Listener) error {
	server, err := s.start(lis)
	if err != nil {
		return err
	}
	if os.Getenv("BOBTAIL_CTL") != "" {
		l, err := ctl.Serve(server, ctl.Options{})
		if err != nil {
			return errors.Join(err, server.Close())
		}
		defer l.Close()
	}
	<-s.stopped
	return nil
}

func (s *Server) start(lis net.Listener) (*r2p2.Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving {
		return nil, errors.New("r2p2grpc: Serve was called before")
	}
	cfg, err := s.place(lis)
	if err != nil {
		return nil, err
	}
	cfg.Handler = r2p2.HandlerFunc(s.handle)
	if cfg.MaxMessage == 0 {
		cfg.MaxMessage = 1 << 20
	}
	s.cfg = cfg
	if s.server, err = r2p2.NewServer(cfg); err != nil {
		return nil, err
	}
	s.serving = true
	return s.server, nil
}

// place finds address and ports: what was configured, the pod's, or the listener's.
func (s *Server) place(lis net.Listener) (r2p2.ServerConfig, error) {
	cfg := s.cfg
	var at netip.AddrPort
	if lis != nil {
		if err := lis.Close(); err != nil {
			return cfg, err
		}
		at, _ = netip.ParseAddrPort(lis.Addr().String())
	}
	if pod := os.Getenv("POD_IP"); !cfg.Address.IsValid() && pod != "" {
		var err error
		if cfg.Address, err = netip.ParseAddr(pod); err != nil {
			return cfg, fmt.Errorf("r2p2grpc: POD_IP: %w", err)
		}
	}
	if !cfg.Address.IsValid() {
		cfg.Address = at.Addr()
	}
	if !cfg.Address.IsValid() || cfg.Address.IsUnspecified() {
		return cfg, errors.New("r2p2grpc: a server answers from an address of its own: listen on one, such as 127.0.0.1:8000, or set POD_IP")
	}
	for variable, into := range map[string]*int{"BOBTAIL_PORT": &cfg.FirstPort, "BOBTAIL_WORKERS": &cfg.Workers} {
		if text := os.Getenv(variable); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return cfg, fmt.Errorf("r2p2grpc: %s: %w", variable, err)
			}
			*into = n
		}
	}
	cfg.FirstPort = cmp.Or(cfg.FirstPort, int(at.Port()))
	return cfg, nil
}

// Addrs are the addresses of the workers; none before Serve.
func (s *Server) Addrs() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return nil
	}
	return s.server.Addrs()
}

// GracefulStop takes no new calls and waits for those there are, 20 s at most.
func (s *Server) GracefulStop() {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	s.end(func(server *r2p2.Server) { _ = server.Shutdown(ctx) })
}

// Stop ends at once; calls that are being executed get no reply.
func (s *Server) Stop() { s.end(func(server *r2p2.Server) { _ = server.Close() }) }

func (s *Server) end(how func(*r2p2.Server)) {
	s.mu.Lock()
	server := s.server
	s.serving = true
	s.mu.Unlock()
	if server != nil {
		how(server)
	}
	s.once.Do(func() { close(s.stopped) })
}

// handle is one call.
func (s *Server) handle(ctx context.Context, r *r2p2.ServerRequest) ([]byte, error) {
	in, err := parseRequest(r.Payload)
	if err != nil {
		// Nothing was executed, and the sender is told: with DROP it would try again.
		return s.refuse(status.Newf(codes.Internal, "r2p2grpc: the request is none of this protocol: %v", err)), nil
	}
	one, method, refusal := s.find(in.method)
	if refusal != nil {
		return s.refuse(refusal), nil
	}
	stream := &transport{method: in.method}
	if in.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, in.timeout)
		defer cancel()
	}
	called := &callContext{Context: ctx, client: r.Client, header: in.header, stream: stream}
	out, err := method.Handler(one.impl, called, func(into any) error { return unmarshal(in.message, into) }, s.interceptor)
	if errors.Is(context.Cause(ctx), r2p2.ErrTakenBack) {
		return nil, r2p2.ErrTakenBack // another server has answered
	}
	return s.answer(stream, out, err), nil
}

// find is the method of a path, or what gRPC-Go says when there is none.
func (s *Server) find(path string) (*service, *grpc.MethodDesc, *status.Status) {
	name, method, ok := cutLast(strings.TrimPrefix(path, "/"))
	if !ok {
		return nil, nil, status.Newf(codes.Unimplemented, "malformed method name: %q", path)
	}
	one := s.services[name]
	switch {
	case one == nil:
		return nil, nil, status.Newf(codes.Unimplemented, "unknown service %v", name)
	case one.streams[method]:
		return nil, nil, status.New(codes.Unimplemented, streams(path))
	case one.methods[method] == nil:
		return nil, nil, status.Newf(codes.Unimplemented, "unknown method %v for service %v", method, name)
	}
	return one, one.methods[method], nil
}

func cutLast(path string) (before, after string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}

func unmarshal(message []byte, into any) error {
	m, ok := into.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "grpc: error unmarshalling request: message is %T, want proto.Message", into)
	}
	if err := proto.Unmarshal(message, m); err != nil {
		return status.Errorf(codes.Internal, "grpc: error unmarshalling request: %v", err)
	}
	return nil
}

// refuse is a reply without a handler.
func (s *Server) refuse(st *status.Status) []byte {
	r := &reply{code: st.Code(), text: clip(st.Message(), maxDetails)}
	return r.append(nil)
}

// answer puts together what a handler gave. An error that is no status is one of the
// context, or Unknown, as in gRPC-Go.
func (s *Server) answer(stream *transport, out any, err error) []byte {
	header, trailer := stream.end()
	r := &reply{header: header, trailer: trailer}
	if err != nil {
		st, ok := status.FromError(err)
		if !ok {
			st = status.FromContextError(err)
		}
		r.code, r.text = st.Code(), clip(st.Message(), maxDetails)
		if p := st.Proto(); len(p.GetDetails()) > 0 {
			if b, err := proto.Marshal(p); err == nil && len(b) <= maxDetails {
				r.details = b
			}
		}
		return s.fitting(r.append(nil))
	}
	m, ok := out.(proto.Message)
	if !ok {
		return s.refuse(status.Newf(codes.Internal, "grpc: error while marshaling: message is %T, want proto.Message", out))
	}
	b, err := proto.MarshalOptions{}.MarshalAppend(r.append(make([]byte, 0, 16+proto.Size(m))), m)
	if err != nil {
		return s.refuse(status.Newf(codes.Internal, "grpc: error while marshaling: %v", err))
	}
	return s.fitting(b)
}

// fitting is a reply that R2P2 carries, or one that says why it is not.
func (s *Server) fitting(b []byte) []byte {
	if len(b) <= s.cfg.MaxMessage {
		return b
	}
	return s.refuse(status.Newf(codes.ResourceExhausted, "r2p2grpc: trying to send message and metadata larger than R2P2's max (%d vs. %d)", len(b), s.cfg.MaxMessage))
}

func clip(text string, most int) string {
	if len(text) > most {
		return text[:most]
	}
	return text
}

// transport is where a handler's header and trailer go.
type transport struct {
	method string

	mu              sync.Mutex
	sent, ended     bool
	header, trailer metadata.MD
}

var _ grpc.ServerTransportStream = (*transport)(nil)

var (
	errSent  = status.Error(codes.Internal, "transport: SendHeader called multiple times")
	errEnded = status.Error(codes.Internal, "transport: the stream is done")
)

// Method is the path of the call.
func (t *transport) Method() string { return t.method }

// SetHeader adds to the header, which travels with the reply.
func (t *transport) SetHeader(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sent || t.ended {
		return errSent
	}
	t.header = metadata.Join(t.header, md)
	return sendable(t.header)
}

// SendHeader is the last one to add to it.
func (t *transport) SendHeader(md metadata.MD) error {
	err := t.SetHeader(md)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = true
	return err
}

// SetTrailer adds to the trailer.
func (t *transport) SetTrailer(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return errEnded
	}
	t.trailer = metadata.Join(t.trailer, md)
	return sendable(t.trailer)
}

// end closes it; what does not fit is left out.
func (t *transport) end() (header, trailer metadata.MD) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if sendable(t.header) == nil {
		header = t.header
	}
	if sendable(t.trailer) == nil {
		trailer = t.trailer
	}
	return header, trailer
}
