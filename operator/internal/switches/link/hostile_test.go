// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// rawCodec hands bytes on as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
func (rawCodec) Name() string { return "raw" }

// script is what a hostile server answers: to whatever call, the next messages of it.
type script struct{ next chan []byte }

// handle answers every call with up to three messages, then ends it with a code, or not.
func (s *script) handle(_ any, stream grpc.ServerStream) error {
	var in []byte
	if err := stream.RecvMsg(&in); err != nil {
		return err
	}
	for range 3 {
		select {
		case m := <-s.next:
			if len(m) > 0 && m[0] == 0xfe { // ends here, with details that may be anything
				detail := &anypb.Any{TypeUrl: "type.googleapis.com/p4.v1.Error", Value: m[1:]}
				return status.FromProto(&rpcstatus.Status{Code: int32(m[len(m)-1]), Message: string([]rune(string(m[1:]))), Details: []*anypb.Any{detail, detail}}).Err()
			}
			if err := stream.SendMsg(m); err != nil {
				return err
			}
		default:
			if len(in)%2 == 0 {
				return nil
			}
			<-stream.Context().Done() // says nothing more, and does not end either
			return stream.Context().Err()
		}
	}
	return nil
}

func testInfo(t testing.TB) *switches.Info {
	t.Helper()
	text, err := os.ReadFile("../testdata/pipeline.p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	i, err := switches.ParseInfo(text)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

var impatient = Patience{Hello: 60 * time.Millisecond, Call: 60 * time.Millisecond, Push: 60 * time.Millisecond}

// hostile plays a whole session against a server that answers with these messages, and
// fails if it takes longer than its calls may.
func hostile(t *testing.T, info *switches.Info, answers [][]byte) {
	listen := bufconn.Listen(1 << 16)
	s := &script{next: make(chan []byte, len(answers)+1)}
	for _, m := range answers {
		s.next <- m
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(s.handle))
	go func() { _ = server.Serve(listen) }()
	defer server.Stop()
	before := time.Now()
	target := Target{Endpoint: "hostile", DeviceID: 3, Dial: []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listen.DialContext(ctx) })}}
	session, err := Open(context.Background(), target, ElectionOf(1, 1), impatient)
	if err == nil {
		defer session.Close()
		play(session, info)
	}
	if took := time.Since(before); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
}

// play makes every call there is; what comes of it does not matter, only that it ends.
func play(s *Session, info *switches.Info) {
	ctx := context.Background()
	_, _ = s.Pipeline(ctx, false)
	_, _ = s.Pipeline(ctx, true)
	_ = s.Push(ctx, info.P4, []byte("x"), 1)
	_, _, _ = s.Counters(ctx, []switches.Cell{{ID: 0x12000001, Index: 21}, {ID: 0x12000001, Index: -1}})
	read, _ := s.Read(ctx, info)
	wanted, _ := info.Group(1, []uint32{1, 2}, 0)
	d := switches.Compare([]switches.Entry{wanted}, read.Entries, switches.Owner{Tag: []byte("x"), Written: map[string]bool{}}, nil)
	for _, step := range d.Steps {
		_, _ = s.Write(ctx, step)
	}
}

func message(m proto.Message) []byte {
	raw, err := proto.Marshal(m)
	if err != nil {
		panic(err) // of our own making
	}
	return raw
}

// arbitration is an honest answer.
func arbitration(device uint64, code codes.Code, id Election) []byte {
	return message(&p4.StreamMessageResponse{Update: &p4.StreamMessageResponse_Arbitration{Arbitration: &p4.MasterArbitrationUpdate{
		DeviceId: device, ElectionId: id.wire(), Status: &rpcstatus.Status{Code: int32(code)}}}})
}

// Whatever a server answers, calls end in time and nothing panics.
func FuzzHostileServer(f *testing.F) {
	info := testInfo(f)
	f.Add(arbitration(3, codes.OK, Election{2, 1}), []byte{0xfe, 2}, []byte{})
	f.Add(arbitration(3, codes.NotFound, Election{9, 9}), arbitration(3, codes.OK, Election{9, 10}), []byte{0xff})
	f.Add(message(&p4.ReadResponse{Entities: []*p4.Entity{{}, nil}}), message(&p4.GetForwardingPipelineConfigResponse{}), []byte{1})
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		hostile(t, info, [][]byte{a, b, c})
		hostile(t, info, [][]byte{arbitration(3, codes.OK, Election{2, 1}), a, b, c, b, a})
	})
}

// The same with random answers, some of them honest messages with a few octets changed.
func TestHostileServerSweep(t *testing.T) {
	rounds, seed := 60, rand.Uint64()
	if testing.Short() {
		rounds = 15
	}
	info := testInfo(t)
	honest := [][]byte{
		arbitration(3, codes.OK, Election{2, 1}), arbitration(3, codes.NotFound, Election{7, 7}), arbitration(3, codes.AlreadyExists, Election{7, 7}), arbitration(4, codes.OK, Election{2, 1}),
		message(&p4.GetForwardingPipelineConfigResponse{Config: &p4.ForwardingPipelineConfig{P4Info: info.P4, Cookie: &p4.ForwardingPipelineConfig_Cookie{Cookie: 7}}}),
		message(&p4.ReadResponse{Entities: []*p4.Entity{{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{TableId: 0x2000001, Match: []*p4.FieldMatch{{FieldId: 1}, nil}}}}}}),
		message(&p4.ReadResponse{Entities: []*p4.Entity{{Entity: &p4.Entity_CounterEntry{CounterEntry: &p4.CounterEntry{CounterId: 0x12000001, Index: &p4.Index{Index: 21}, Data: &p4.CounterData{PacketCount: -1}}}}, nil}}),
		{0xfe, 2}, {0xfe, 12, 9, 2}, {},
	}
	for n := range rounds {
		seed := seed + uint64(n)
		r := rand.New(rand.NewPCG(seed, 3))
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			answers := [][]byte{honest[0]}
			for range r.IntN(12) {
				m := append([]byte(nil), honest[r.IntN(len(honest))]...)
				for range r.IntN(4) {
					if len(m) > 0 {
						m[r.IntN(len(m))] = byte(r.Uint32())
					}
				}
				answers = append(answers, m)
			}
			hostile(t, info, answers)
		})
	}
}

// talk answers to a method without end.
func talk(stream grpc.ServerStream, what string, m []byte) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var in []byte
	if err := stream.RecvMsg(&in); err != nil {
		return err
	}
	if method == "/p4.v1.P4Runtime/StreamChannel" {
		if err := stream.SendMsg(arbitration(3, codes.OK, Election{2, 1})); err != nil {
			return err
		}
	}
	for method == what {
		if err := stream.SendMsg(m); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

// A server that never stops talking is left, and one that answers a read without end.
func TestEndlessAnswers(t *testing.T) {
	info := testInfo(t)
	counters := "counters" // by the same method as entries
	endless := func(asked string, m []byte) error {
		what := asked
		if asked == counters {
			what = "/p4.v1.P4Runtime/Read"
		}
		listen := bufconn.Listen(1 << 16)
		server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			return talk(stream, what, m)
		}))
		go func() { _ = server.Serve(listen) }()
		defer server.Stop()
		patient := Patience{Hello: 5 * time.Second, Call: 20 * time.Second, Push: time.Second}
		session, err := Open(context.Background(), Target{Endpoint: "endless", DeviceID: 3, Dial: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listen.DialContext(ctx) })}}, ElectionOf(1, 1), patient)
		if err != nil {
			return err
		}
		defer session.Close()
		if asked == counters {
			_, _, err = session.Counters(context.Background(), []switches.Cell{{ID: 1, Index: 2}})
			return err
		}
		if what == "/p4.v1.P4Runtime/Read" {
			_, err = session.Read(context.Background(), info)
			return err
		}
		for range 1000 {
			if fault := session.Ended(); fault != nil {
				return fault
			}
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	}
	many := &p4.ReadResponse{}
	for range 1000 {
		many.Entities = append(many.Entities, &p4.Entity{})
	}
	for what, m := range map[string][]byte{"/p4.v1.P4Runtime/StreamChannel": message(&p4.StreamMessageResponse{}), "/p4.v1.P4Runtime/Read": message(many), counters: message(many)} {
		var fault *Fault
		if err := endless(what, m); !errors.As(err, &fault) || fault.Kind != Broken {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What becomes of each update is told apart, and only when the answer can be right.
func TestFailures(t *testing.T) {
	detail := func(codes ...codes.Code) (out []*anypb.Any) {
		for _, c := range codes {
			d, err := anypb.New(&p4.Error{CanonicalCode: int32(c), Message: "why"})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, d)
		}
		return out
	}
	of := func(code codes.Code, details []*anypb.Any) error {
		return status.FromProto(&rpcstatus.Status{Code: int32(code), Message: "some failed", Details: details}).Err()
	}
	for _, row := range []struct {
		name string
		err  error
		n    int
		want string
		ok   bool
	}{
		{"one of two", of(codes.Unknown, detail(codes.OK, codes.NotFound)), 2, "[{1 NotFound why}]", true},
		{"too few", of(codes.Unknown, detail(codes.NotFound)), 2, "[]", false},
		{"none failed", of(codes.Unknown, detail(codes.OK, codes.OK)), 2, "[]", false},
		{"another code", of(codes.Internal, detail(codes.NotFound)), 1, "[]", false},
		{"details of another sort", of(codes.Unknown, []*anypb.Any{{TypeUrl: "x/y"}}), 1, "[]", false},
		{"no status", errors.New("cut"), 1, "[]", false},
	} {
		got, ok := failures(row.err, row.n)
		if fmt.Sprint(got) != row.want || ok != row.ok {
			t.Errorf("%s: %v, %v, want %s, %v", row.name, got, ok, row.want, row.ok)
		}
	}
}

// What a server says is bounded and printable before anybody shows it.
func TestSaidIsClean(t *testing.T) {
	long := make([]byte, 5000)
	for n := range long {
		long[n] = byte(n)
	}
	for n, want := range map[int]string{longestSaid: strings.Repeat("é", longestSaid), longestSaid + 1: strings.Repeat("é", longestSaid) + "…"} {
		if got := clean(strings.Repeat("é", n)); got != want {
			t.Errorf("of %d characters %d are left", n, len([]rune(got)))
		}
	}
	text := clean(string(long))
	if n := len([]rune(text)); n > longestSaid+1 {
		t.Errorf("%d characters", n)
	}
	for _, r := range text {
		if r < ' ' {
			t.Errorf("%q holds %q", text, r)
		}
	}
}

// W-20: ids are in order of terms, then of connections, and end somewhere.
func TestElection(t *testing.T) {
	if ElectionOf(2, 1).Compare(ElectionOf(1, 99)) <= 0 || ElectionOf(1, 2).Compare(ElectionOf(1, 1)) <= 0 {
		t.Error("a later leader does not outdo an earlier one")
	}
	top := ^uint64(0)
	if next, ok := (Election{1, top}).above(); !ok || next != (Election{2, 0}) {
		t.Errorf("%v", next)
	}
	if _, ok := (Election{top, top}).above(); ok {
		t.Error("there is nothing above the highest id")
	}
}
