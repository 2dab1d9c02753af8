// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"io"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// Counters reads cells, in packets. What the switch does not answer for is not in the
// result, and what was not asked for is passed over. known is false where a server has no
// such reads.
func (s *Session) Counters(ctx context.Context, cells []switches.Cell) (packets map[switches.Cell]uint64, known bool, err error) {
	packets = map[switches.Cell]uint64{}
	asked := map[switches.Cell]bool{}
	for _, c := range cells {
		asked[c] = true
	}
	for part := range slices.Chunk(cells, Batch) {
		err := s.countersOf(ctx, part, func(c switches.Cell, n int64) {
			if asked[c] && n >= 0 {
				packets[c] = uint64(n)
			}
		})
		if code := status.Code(err); code == codes.Unimplemented {
			return nil, false, nil
		}
		if err != nil {
			return nil, true, judge("read counters", err)
		}
	}
	return packets, true, nil
}

// countersOf reads a batch. A server may answer each cell once, and not go on for ever.
func (s *Session) countersOf(ctx context.Context, part []switches.Cell, take func(switches.Cell, int64)) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience.Call)
	defer cancel()
	ask := &p4.ReadRequest{DeviceId: s.target.DeviceID}
	for _, c := range part {
		ask.Entities = append(ask.Entities, &p4.Entity{Entity: &p4.Entity_CounterEntry{
			CounterEntry: &p4.CounterEntry{CounterId: c.ID, Index: &p4.Index{Index: c.Index}},
		}})
	}
	stream, err := s.client.Read(ctx, ask)
	if err != nil {
		return err
	}
	answers := 0
	for {
		got, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, entity := range got.GetEntities() {
			if answers++; answers > len(part) {
				return Faultf(Broken, "the switch answers for more counters than the %d it was asked for", len(part))
			}
			if c := entity.GetCounterEntry(); c.GetIndex() != nil {
				take(switches.Cell{ID: c.GetCounterId(), Index: c.GetIndex().GetIndex()}, c.GetData().GetPacketCount())
			}
		}
	}
}
