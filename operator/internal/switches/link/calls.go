// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"io"
	"slices"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// Running is the pipeline that a switch says it runs.
type Running struct {
	// Cookie is nil when the switch keeps none.
	Cookie *uint64
	// Info is nil unless it was asked for.
	Info *p4config.P4Info
}

// Pipeline asks what the switch runs. An Empty fault says: nothing.
func (s *Session) Pipeline(ctx context.Context, withInfo bool) (Running, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience.Call)
	defer cancel()
	kind := p4.GetForwardingPipelineConfigRequest_COOKIE_ONLY
	if withInfo {
		kind = p4.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE
	}
	got, err := s.client.GetForwardingPipelineConfig(ctx, &p4.GetForwardingPipelineConfigRequest{DeviceId: s.target.DeviceID, ResponseType: kind})
	switch status.Code(err) {
	case codes.OK:
	case codes.FailedPrecondition, codes.NotFound:
		return Running{}, Faultf(Empty, "the switch runs no pipeline")
	default:
		return Running{}, judge("read the pipeline", err)
	}
	var out Running
	if c := got.GetConfig().GetCookie(); c != nil {
		cookie := c.GetCookie()
		out.Cookie = &cookie
	}
	out.Info = got.GetConfig().GetP4Info()
	return out, nil
}

// Push sets the pipeline. A switch that refuses it keeps the one it has.
func (s *Session) Push(ctx context.Context, info *p4config.P4Info, device []byte, cookie uint64) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience.Push)
	defer cancel()
	_, err := s.client.SetForwardingPipelineConfig(ctx, &p4.SetForwardingPipelineConfigRequest{
		DeviceId: s.target.DeviceID, ElectionId: s.Role().Election.wire(), Action: p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		Config: &p4.ForwardingPipelineConfig{P4Info: info, P4DeviceConfig: device, Cookie: &p4.ForwardingPipelineConfig_Cookie{Cookie: cookie}},
	})
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.Unimplemented:
		return Faultf(Fixed, "the switch takes no pipeline, it has a fixed one (SONiC with PINS has; switch.md names what is supported): %s", said(err))
	case codes.InvalidArgument, codes.FailedPrecondition, codes.Internal, codes.Unknown, codes.OutOfRange:
		return Faultf(Refused, "the switch refuses the pipeline and keeps the one it has: %s", said(err))
	}
	return judge("push the pipeline", err)
}

// Read is everything that the tables of a pipeline and the multicast groups hold.
type Read struct {
	Entries []switches.Entry
	// Outside are entities that are of no table of the pipeline.
	Outside int
	// NoGroups: the switch knows no multicast groups.
	NoGroups bool
}

// Read asks table by table: not every server answers for all at once.
func (s *Session) Read(ctx context.Context, info *switches.Info) (Read, error) {
	var out Read
	for _, id := range info.Tables() {
		ask := &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{TableId: id}}}
		if err := s.readOne(ctx, info, ask, &out); err != nil {
			return Read{}, judge("read "+info.TableName(id), err)
		}
	}
	groups := &p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
		Type: &p4.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: &p4.MulticastGroupEntry{}},
	}}}
	err := s.readOne(ctx, info, groups, &out)
	if status.Code(err) == codes.Unimplemented {
		out.NoGroups, err = true, nil
	}
	if err != nil {
		return Read{}, judge("read the multicast groups", err)
	}
	return out, nil
}

// tooMuch: reading would not end.
var tooMuch = Faultf(Broken, "the switch answers with more than %d entries", switches.MaxEntries)

func (s *Session) readOne(ctx context.Context, info *switches.Info, ask *p4.Entity, out *Read) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience.Call)
	defer cancel()
	stream, err := s.client.Read(ctx, &p4.ReadRequest{DeviceId: s.target.DeviceID, Entities: []*p4.Entity{ask}})
	if err != nil {
		return err
	}
	for {
		got, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, entity := range got.GetEntities() {
			if len(out.Entries)+out.Outside >= switches.MaxEntries {
				return tooMuch
			}
			e, err := info.Canonical(entity)
			if err != nil {
				out.Outside++
				continue
			}
			out.Entries = append(out.Entries, e)
		}
	}
}

// Batch is how many updates are sent at once.
const Batch = 256

// Write sends updates. Atomic batches are optional in servers (W-22), so none is asked
// for: each update stands alone, and what became of it is told apart. Updates of which
// the switch says nothing are in doubt; reading tells.
func (s *Session) Write(ctx context.Context, all []switches.Write) (refused []Failure, err error) {
	done := 0
	for part := range slices.Chunk(all, Batch) {
		failed, err := s.writeBatch(ctx, part)
		for _, f := range failed {
			f.Index += done
			refused = append(refused, f)
		}
		if err != nil {
			return refused, err
		}
		done += len(part)
	}
	return refused, nil
}

func (s *Session) writeBatch(ctx context.Context, part []switches.Write) ([]Failure, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience.Call)
	defer cancel()
	req := &p4.WriteRequest{DeviceId: s.target.DeviceID, ElectionId: s.Role().Election.wire(), Atomicity: p4.WriteRequest_CONTINUE_ON_ERROR}
	for _, w := range part {
		req.Updates = append(req.Updates, w.Update())
	}
	_, err := s.client.Write(ctx, req)
	if err == nil {
		return nil, nil
	}
	if each, ok := failures(err, len(part)); ok {
		return each, nil
	}
	return nil, judge("write", err)
}
