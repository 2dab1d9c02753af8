// SPDX-License-Identifier: Apache-2.0

package r2p2grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
)

// stock is an ordinary gRPC service. The body of a request says what it does.
type stock struct {
	grpc_testing.UnimplementedTestServiceServer
}

func (stock) UnaryCall(ctx context.Context, r *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	word, rest, _ := strings.Cut(string(r.GetPayload().GetBody()), " ")
	reply := &grpc_testing.SimpleResponse{Payload: &grpc_testing.Payload{Body: []byte(rest)}}
	switch word {
	case "status":
		return nil, status.Error(codes.FailedPrecondition, rest)
	case "details":
		st, err := status.New(codes.InvalidArgument, rest).WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "a", Description: "b"}}})
		return nil, errors.Join(err, st.Err())
	case "twice":
		reply.Payload.Body = []byte(rest + rest)
	case "plain":
		return nil, errors.New(rest)
	case "wrapped":
		return nil, fmt.Errorf("around: %w", status.Error(codes.NotFound, rest))
	case "cancelled":
		return nil, context.Canceled
	case "both":
		return reply, status.Error(codes.Aborted, rest)
	case "late":
		<-ctx.Done()
		return nil, ctx.Err()
	case "deadline":
		end, ok := ctx.Deadline()
		reply.Payload.Body = fmt.Appendf(nil, "%v %v", ok, ok && time.Until(end) > 4*time.Minute && time.Until(end) <= 5*time.Minute)
	case "metadata":
		in, _ := metadata.FromIncomingContext(ctx)
		method, _ := grpc.Method(ctx)
		p, _ := peer.FromContext(ctx)
		host, _, _ := net.SplitHostPort(p.Addr.String())
		reply.Payload.Body = fmt.Appendf(nil, "%v %q %s %s", in["a"], in["b-bin"], method, host)
		if err := grpc.SetHeader(ctx, metadata.Pairs("h", "1", "h", "2", "x-bin", "\x00\xff")); err != nil {
			return nil, err
		}
		if err := grpc.SetTrailer(ctx, metadata.Pairs("t", "3")); err != nil {
			return nil, err
		}
	case "failing":
		_ = grpc.SetTrailer(ctx, metadata.Pairs("t", "4"))
		return nil, status.Error(codes.DataLoss, rest)
	case "header-twice":
		if err := grpc.SendHeader(ctx, metadata.Pairs("h", "1")); err != nil {
			return nil, err
		}
		return nil, grpc.SetHeader(ctx, metadata.Pairs("h", "2"))
	}
	return reply, nil
}

func (stock) EmptyCall(context.Context, *grpc_testing.Empty) (*grpc_testing.Empty, error) {
	return &grpc_testing.Empty{}, nil
}

// overR2P2 serves the service the way a program does, and dials it.
func overR2P2(t *testing.T, server []ServerOption, client []DialOption) *Conn {
	t.Helper()
	s := NewServer(append([]ServerOption{Workers(2), R2P2(r2p2.ServerConfig{Workers: 2, QueueDepth: 64})}, server...)...)
	grpc_testing.RegisterTestServiceServer(s, stock{})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := lis.Close(); err != nil { // the port is the kernel's to choose, one a worker
		t.Fatal(err)
	}
	s.cfg.Address = netip.MustParseAddr("127.0.0.1")
	inner, err := s.start(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c, err := NewClient(inner.Addrs()[0].String(), client...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// overGRPC is the same over gRPC-Go itself.
func overGRPC(t *testing.T, options ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	s := grpc.NewServer(options...)
	grpc_testing.RegisterTestServiceServer(s, stock{})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(lis)
	t.Cleanup(s.Stop)
	c, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// outcome is everything a caller sees.
type outcome struct {
	code            codes.Code
	text, body      string
	details         []string
	header, trailer metadata.MD
}

func ask(ctx context.Context, cc grpc.ClientConnInterface, body string, opts ...grpc.CallOption) outcome {
	var o outcome
	r, err := grpc_testing.NewTestServiceClient(cc).UnaryCall(ctx,
		&grpc_testing.SimpleRequest{Payload: &grpc_testing.Payload{Body: []byte(body)}}, append(opts, grpc.Header(&o.header), grpc.Trailer(&o.trailer))...)
	st := status.Convert(err)
	o.code, o.text, o.body = st.Code(), st.Message(), string(r.GetPayload().GetBody())
	for _, d := range st.Details() {
		if m, ok := d.(proto.Message); ok {
			o.details = append(o.details, string(m.ProtoReflect().Descriptor().FullName()))
		}
	}
	delete(o.header, "content-type") // that is HTTP's
	delete(o.trailer, "content-type")
	delete(o.trailer, "grpc-status-details-bin") // which is told by the details
	for _, md := range []*metadata.MD{&o.header, &o.trailer} {
		if len(*md) == 0 {
			*md = nil
		}
	}
	return o
}

// Whatever a handler does, its caller sees over R2P2 what it sees over gRPC-Go.
func TestTheSameAsOverGRPC(t *testing.T) {
	ours, theirs := overR2P2(t, nil, nil), overGRPC(t)
	base := metadata.AppendToOutgoingContext(context.Background(), "A", "1", "a", "2", "b-bin", "\x00\xfe")
	far, cancel := context.WithTimeout(base, 5*time.Minute)
	defer cancel()
	for _, body := range []string{
		"ok hello", "ok ", "status it is not so", "details look there", "plain any error", "wrapped inside", "cancelled", "both at once",
		"metadata", "failing with a trailer", "header-twice", "deadline",
	} {
		for name, ctx := range map[string]context.Context{"no deadline": base, "a deadline": far} {
			got, want := ask(ctx, ours, body), ask(ctx, theirs, body)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%q, %s:\n got  %+v\n want %+v", body, name, got, want)
			}
		}
	}
	// What no handler sees.
	for _, method := range []string{"/grpc.testing.TestService/Nothing", "/no.Such/Method", "/grpc.testing.TestService/CacheableUnaryCall"} {
		got := status.Convert(ours.Invoke(far, method, &grpc_testing.Empty{}, &grpc_testing.Empty{}))
		want := status.Convert(theirs.Invoke(far, method, &grpc_testing.Empty{}, &grpc_testing.Empty{}))
		if got.Code() != want.Code() || got.Message() != want.Message() {
			t.Errorf("%s: %v, want %v", method, got, want)
		}
	}
}

// A call ends when its caller's time is over or its caller gives up, with gRPC's codes.
func TestDeadlinesEnd(t *testing.T) {
	ours, theirs := overR2P2(t, nil, nil), overGRPC(t)
	for _, cc := range []grpc.ClientConnInterface{ours, theirs} {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		if o := ask(ctx, cc, "late"); o.code != codes.DeadlineExceeded {
			t.Errorf("%T: %+v", cc, o)
		}
		cancel()
		if o := ask(ctx, cc, "ok"); o.code != codes.DeadlineExceeded && o.code != codes.Canceled {
			t.Errorf("%T, over before it began: %+v", cc, o)
		}
		ctx, cancel = context.WithCancel(context.Background())
		cancel()
		if o := ask(ctx, cc, "ok"); o.code != codes.Canceled {
			t.Errorf("%T, given up: %+v", cc, o)
		}
	}
	quick := overR2P2(t, nil, []DialOption{WithTimeout(30 * time.Millisecond)})
	hang, stop := context.WithCancel(context.Background())
	defer stop()
	if o := ask(hang, quick, "late"); o.code != codes.DeadlineExceeded || !strings.Contains(o.text, "30ms, and the call has no deadline of its own") {
		t.Errorf("%+v", o)
	}
}

// Streaming is refused by name, by the client and, from another client, by the server.
func TestStreamsAreRefusedByName(t *testing.T) {
	c := overR2P2(t, nil, nil)
	_, err := grpc_testing.NewTestServiceClient(c).FullDuplexCall(context.Background())
	if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "/grpc.testing.TestService/FullDuplexCall streams") {
		t.Error(err)
	}
	err = c.Invoke(context.Background(), "/grpc.testing.TestService/StreamingInputCall", &grpc_testing.Empty{}, &grpc_testing.Empty{})
	if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "/grpc.testing.TestService/StreamingInputCall streams") {
		t.Error(err)
	}
}

// Messages are carried up to the limit, and refused with both numbers above it.
func TestSizes(t *testing.T) {
	c := overR2P2(t, []ServerOption{func(s *Server) { s.cfg.MaxMessage = 50_000 }}, []DialOption{WithR2P2(r2p2.ClientConfig{MaxMessage: 100_000})})
	if o := ask(context.Background(), c, "ok "+strings.Repeat("x", 40_000)); o.code != codes.OK || len(o.body) != 40_000 {
		t.Errorf("%v %s, %d bytes", o.code, o.text, len(o.body))
	}
	o := ask(context.Background(), c, strings.Repeat("x", 100_001))
	if o.code != codes.ResourceExhausted || !strings.Contains(o.text, "larger than max (100") {
		t.Errorf("a long request: %+v", o)
	}
	o = ask(context.Background(), c, "ok "+strings.Repeat("x", 10), grpc.MaxCallRecvMsgSize(5))
	if o.code != codes.ResourceExhausted || !strings.Contains(o.text, "received message larger than max") || !strings.Contains(o.text, "vs. 5)") {
		t.Errorf("a long reply for the caller: %+v", o)
	}
	big := overR2P2(t, []ServerOption{func(s *Server) { s.cfg.MaxMessage = 1000 }}, nil)
	o = ask(context.Background(), big, "twice "+strings.Repeat("x", 600))
	if o.code != codes.ResourceExhausted || !strings.Contains(o.text, "vs. 1000)") {
		t.Errorf("a long reply for the server: %+v", o)
	}
}

// Interceptors of both sides run in order, see the method, and can answer themselves.
func TestInterceptors(t *testing.T) {
	var mu sync.Mutex
	var order []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	client := func(name string) grpc.UnaryClientInterceptor {
		// Its seven parameters are gRPC's; the house has six at most.
		made := reflect.MakeFunc(reflect.TypeFor[grpc.UnaryClientInterceptor](), func(in []reflect.Value) []reflect.Value {
			note(name + " " + in[1].String())
			ctx := metadata.AppendToOutgoingContext(in[0].Interface().(context.Context), "a", name)
			return in[5].CallSlice([]reflect.Value{reflect.ValueOf(ctx), in[1], in[2], in[3], in[4], in[6]})
		})
		return made.Interface().(grpc.UnaryClientInterceptor)
	}
	server := func(name string) grpc.UnaryServerInterceptor {
		return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			note(name + " " + info.FullMethod)
			if string(req.(*grpc_testing.SimpleRequest).GetPayload().GetBody()) == "stop" {
				return nil, status.Error(codes.PermissionDenied, "not you")
			}
			return handler(ctx, req)
		}
	}
	c := overR2P2(t, []ServerOption{ChainUnaryInterceptor(server("s2"), server("s3")), UnaryInterceptor(server("s1"))},
		[]DialOption{WithChainUnaryInterceptor(client("c2"), client("c3")), WithUnaryInterceptor(client("c1"))})
	if o := ask(context.Background(), c, "metadata"); !strings.HasPrefix(o.body, "[c1 c2 c3]") {
		t.Errorf("%+v", o)
	}
	mu.Lock()
	const m = " /grpc.testing.TestService/UnaryCall"
	if want := []string{"c1" + m, "c2" + m, "c3" + m, "s1" + m, "s2" + m, "s3" + m}; !reflect.DeepEqual(order, want) {
		t.Errorf("%q", order)
	}
	mu.Unlock()
	if o := ask(context.Background(), c, "stop"); o.code != codes.PermissionDenied {
		t.Errorf("%+v", o)
	}
}

// What has no meaning over R2P2 is refused rather than ignored.
func TestOptionsWithoutMeaning(t *testing.T) {
	c := overR2P2(t, nil, nil)
	if o := ask(context.Background(), c, "ok", grpc.UseCompressor("gzip")); o.code != codes.Unimplemented || !strings.Contains(o.text, "CompressorCallOption") {
		t.Errorf("%+v", o)
	}
	if o := ask(context.Background(), c, "ok", grpc.PerRPCCredentials(secret{})); o.code != codes.Unauthenticated {
		t.Errorf("%+v", o)
	}
	var p peer.Peer
	if o := ask(context.Background(), c, "ok x", grpc.WaitForReady(true), grpc.Peer(&p)); o.code != codes.OK || p.Addr.Network() != "udp" {
		t.Errorf("%+v %v", o, p.Addr)
	}
	if err := c.Invoke(context.Background(), "/grpc.testing.TestService/UnaryCall", "text", nil); status.Code(err) != codes.Internal {
		t.Error(err)
	}
	if _, err := NewClient("xds://x"); err == nil {
		t.Error("a scheme nobody knows is taken")
	}
}

type secret struct{}

func (secret) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return nil, io.EOF
}
func (secret) RequireTransportSecurity() bool { return true }

// Nobody there is Unavailable or a timeout, closed is Canceled.
func TestNobodyThere(t *testing.T) {
	c := overR2P2(t, nil, nil)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if o := ask(context.Background(), c, "ok"); o.code != codes.Canceled || o.text != "grpc: the client connection is closing" {
		t.Errorf("%+v", o)
	}
}

// A registration that is wrong is found when the program starts, as in gRPC-Go.
func TestWrongRegistrations(t *testing.T) {
	for name, register := range map[string]func(*Server){
		"twice": func(s *Server) {
			grpc_testing.RegisterTestServiceServer(s, stock{})
			grpc_testing.RegisterTestServiceServer(s, stock{})
		},
		"of another type": func(s *Server) { s.RegisterService(&grpc_testing.TestService_ServiceDesc, secret{}) },
		"late":            func(s *Server) { s.Stop(); grpc_testing.RegisterTestServiceServer(s, stock{}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: taken", name)
				}
			}()
			register(NewServer())
		}()
	}
	if err := NewServer().Serve(nil); err == nil || !strings.Contains(err.Error(), "listen on one, such as 127.0.0.1:8000, or set POD_IP") {
		t.Error(err)
	}
}
