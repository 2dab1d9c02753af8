// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// arbiter is a stream on which nothing comes, and that keeps which ids were asked for.
type arbiter struct {
	grpc.ClientStream
	asked []Election
}

func (a *arbiter) Send(m *p4.StreamMessageRequest) error {
	a.asked = append(a.asked, electionOf(m.GetArbitration().GetElectionId()))
	return nil
}

func (a *arbiter) Recv() (*p4.StreamMessageResponse, error) { return nil, io.EOF }

// W-20: what each answer to arbitration makes of the role, and which id is asked for then.
func TestHear(t *testing.T) {
	top := ^uint64(0)
	mine := ElectionOf(2, 1)
	for _, c := range []struct {
		name    string
		device  uint64
		code    codes.Code
		highest Election
		role    Role
		asked   []Election
		fault   string
	}{
		{"primary", 3, codes.OK, mine, Role{Primary: true, Election: mine, Answered: true}, nil, ""},
		{"another is", 3, codes.AlreadyExists, Election{9, 9}, Role{Election: mine, Other: Election{9, 9}, Answered: true}, nil, ""},
		{"none, and a higher id", 3, codes.NotFound, Election{9, 9}, Role{Election: Election{9, 10}}, []Election{{9, 10}}, ""},
		{"none, and the same id", 3, codes.NotFound, mine, Role{Election: Election{mine.High, mine.Low + 1}}, []Election{{mine.High, mine.Low + 1}}, ""},
		{"none, and a lower id", 3, codes.NotFound, Election{0, 9}, Role{Election: mine, Answered: true}, nil, ""},
		{"none, and the highest id", 3, codes.NotFound, Election{top, top}, Role{Election: mine}, nil,
			fmt.Sprintf("the switch has no primary and remembers election id %d.%d, which cannot be outdone: restart its server", top, top)},
		{"another device", 4, codes.OK, mine, Role{Election: mine}, nil, "the switch answers for device 4, not 3"},
		{"another code", 3, codes.Internal, mine, Role{Election: mine, Answered: true}, nil, "the switch answers to arbitration: why"},
	} {
		stream := &arbiter{}
		s := &Session{target: Target{DeviceID: 3}, stream: stream, answers: make(chan struct{}, 1)}
		s.role.Election = mine
		got := ""
		if fault := s.hear(&p4.MasterArbitrationUpdate{DeviceId: c.device, ElectionId: c.highest.wire(), Status: &rpcstatus.Status{Code: int32(c.code), Message: "why"}}); fault != nil {
			got = fault.Error()
		}
		if got != c.fault || s.role != c.role || fmt.Sprint(stream.asked) != fmt.Sprint(c.asked) {
			t.Errorf("%s: %q, %+v, asked %v, want %q, %+v, asked %v", c.name, got, s.role, stream.asked, c.fault, c.role, c.asked)
		}
		if news := len(s.answers) == 1; news != (c.fault == "" && c.asked == nil) {
			t.Errorf("%s: news %v", c.name, news)
		}
	}
}

// A switch that remembers a higher id each time is outdone so often, and then given up.
func TestRaisesAreBounded(t *testing.T) {
	stream := &arbiter{}
	s := &Session{stream: stream, answers: make(chan struct{}, 1)}
	for n := 1; n <= maxRaises+1; n++ {
		fault := s.hear(&p4.MasterArbitrationUpdate{ElectionId: s.role.Election.wire(), Status: &rpcstatus.Status{Code: int32(codes.NotFound)}})
		if (fault != nil) != (n > maxRaises) || len(stream.asked) != min(n, maxRaises) {
			t.Errorf("answer %d: %v, asked %v", n, fault, stream.asked)
		}
	}
}

// What the end of a stream says about the switch.
func TestStreamEnd(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind Kind
		want string
	}{
		{io.EOF, Unreachable, "the switch closed the stream"},
		{status.Error(codes.NotFound, "why"), Device, "the switch knows no such device: NotFound: why"},
		{status.Error(codes.InvalidArgument, "why"), Broken, "the switch refuses arbitration: InvalidArgument: why"},
		{status.Error(codes.Unimplemented, "why"), Broken, "the switch refuses arbitration: Unimplemented: why"},
		{errors.New("cut"), judge("the stream ended", errors.New("cut")).Kind, judge("the stream ended", errors.New("cut")).Error()},
	} {
		if got := streamEnd(c.err); got.Kind != c.kind || got.Error() != c.want {
			t.Errorf("%v: %v, %v, want %v, %s", c.err, got.Kind, got, c.kind, c.want)
		}
	}
}

// answering is a switch that answers one read by one message.
type answering struct {
	p4.P4RuntimeClient
	grpc.ClientStream
	entities []*p4.Entity
	said     bool
}

func (a *answering) Read(context.Context, *p4.ReadRequest, ...grpc.CallOption) (p4.P4Runtime_ReadClient, error) {
	return a, nil
}

func (a *answering) Recv() (*p4.ReadResponse, error) {
	if a.said {
		return nil, io.EOF
	}
	a.said = true
	return &p4.ReadResponse{Entities: a.entities}, nil
}

// Of what a switch answers, what is unknown is counted and what follows it is read all the same.
func TestWhatFollowsTheUnknownIsRead(t *testing.T) {
	var out Read
	s := &Session{client: &answering{entities: []*p4.Entity{{}, {}}}, patience: Usual}
	if err := s.readOne(t.Context(), testInfo(t), &p4.Entity{}, &out); err != nil || out.Outside != 2 || len(out.Entries) != 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

// A cell's packets are those of the answer for it; one without an index is none, one that was not asked for or that counts
// below 0 is left out, and more answers than cells break the protocol.
func TestCountersToTheCell(t *testing.T) {
	cell := func(index, packets int64) *p4.Entity {
		return &p4.Entity{Entity: &p4.Entity_CounterEntry{CounterEntry: &p4.CounterEntry{CounterId: 5, Index: &p4.Index{Index: index}, Data: &p4.CounterData{PacketCount: packets}}}}
	}
	one, two := switches.Cell{ID: 5, Index: 1}, switches.Cell{ID: 5, Index: 2}
	for _, c := range []struct {
		name     string
		entities []*p4.Entity
		want     map[switches.Cell]uint64
		fault    string
	}{
		{"both", []*p4.Entity{cell(1, 7), cell(2, 0)}, map[switches.Cell]uint64{one: 7, two: 0}, ""},
		{"behind one without an index", []*p4.Entity{{}, cell(2, 8)}, map[switches.Cell]uint64{two: 8}, ""},
		{"below 0, and not asked for", []*p4.Entity{cell(1, -1), cell(3, 9)}, map[switches.Cell]uint64{}, ""},
		{"one too many", []*p4.Entity{cell(1, 7), cell(2, 8), cell(2, 9)}, nil, "the switch answers for more counters than the 2 it was asked for"},
	} {
		s := &Session{client: &answering{entities: c.entities}, patience: Usual}
		got, known, err := s.Counters(t.Context(), []switches.Cell{one, two})
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v", c.name, err)
			}
		} else if err != nil || !known || !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}
