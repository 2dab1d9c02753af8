// SPDX-License-Identifier: Apache-2.0

package switchpeer

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// keyOf is the place of an entity: two of one place exclude each other.
func keyOf(e *p4.Entity) string {
	if t := e.GetTableEntry(); t != nil {
		fields := slices.Clone(t.GetMatch())
		slices.SortFunc(fields, func(a, b *p4.FieldMatch) int { return cmp.Compare(a.GetFieldId(), b.GetFieldId()) })
		key := fmt.Sprintf("table %d priority %d", t.GetTableId(), t.GetPriority())
		for _, f := range fields {
			raw, _ := proto.MarshalOptions{Deterministic: true}.Marshal(f)
			key += " " + hex.EncodeToString(raw)
		}
		return key
	}
	return fmt.Sprintf("group %d", e.GetPacketReplicationEngineEntry().GetMulticastGroupEntry().GetMulticastGroupId())
}

// mayWrite needs p.mu.
func (p *Peer) mayWrite(id *p4.Uint128, device uint64) error {
	switch primary := p.primary(); {
	case device != p.device:
		return status.Error(codes.NotFound, "no such device")
	case p.faults.Lax:
		return nil
	case primary == nil || compare(primary.id, id) != 0:
		p.counts.Refused++
		return status.Error(codes.PermissionDenied, "not primary")
	}
	return nil
}

// SetForwardingPipelineConfig takes a pipeline.
func (p *Peer) SetForwardingPipelineConfig(ctx context.Context, r *p4.SetForwardingPipelineConfigRequest) (*p4.SetForwardingPipelineConfigResponse, error) {
	p.slow(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.faults.FixedPipeline:
		p.counts.PushesRefused++
		return nil, status.Error(codes.Unimplemented, "the pipeline is fixed")
	case p.faults.RefusePipeline:
		p.counts.PushesRefused++
		return nil, status.Error(codes.InvalidArgument, "12 stages are not enough")
	}
	if err := p.mayWrite(r.GetElectionId(), r.GetDeviceId()); err != nil {
		return nil, err
	}
	p.counts.Pushes++
	if p.pipeline != nil && proto.Equal(p.pipeline.GetP4Info(), r.GetConfig().GetP4Info()) && string(p.pipeline.GetP4DeviceConfig()) == string(r.GetConfig().GetP4DeviceConfig()) {
		p.counts.PushesWithoutNeed++
	}
	if err := p.set(proto.CloneOf(r.GetConfig())); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &p4.SetForwardingPipelineConfigResponse{}, nil
}

// GetForwardingPipelineConfig says what it runs.
func (p *Peer) GetForwardingPipelineConfig(ctx context.Context, r *p4.GetForwardingPipelineConfigRequest) (*p4.GetForwardingPipelineConfigResponse, error) {
	p.slow(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pipeline == nil {
		return nil, status.Error(codes.FailedPrecondition, "no pipeline")
	}
	out := &p4.ForwardingPipelineConfig{Cookie: p.pipeline.GetCookie()}
	if p.faults.NoCookie {
		out.Cookie = nil
	}
	if r.GetResponseType() == p4.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE {
		out.P4Info = proto.CloneOf(p.pipeline.GetP4Info())
	}
	return &p4.GetForwardingPipelineConfigResponse{Config: out}, nil
}

// Write takes updates one by one, and goes on after one that fails.
func (p *Peer) Write(ctx context.Context, r *p4.WriteRequest) (*p4.WriteResponse, error) {
	p.slow(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mayWrite(r.GetElectionId(), r.GetDeviceId()); err != nil {
		return nil, err
	}
	if r.GetAtomicity() != p4.WriteRequest_CONTINUE_ON_ERROR {
		return nil, status.Error(codes.Unimplemented, "no atomic batches")
	}
	if compare(r.GetElectionId(), p.highest) < 0 {
		p.counts.FromOldLeader++
	}
	p.counts.Writes++
	var each []*p4.Error
	failed := false
	for _, u := range r.GetUpdates() {
		p.counts.Updates++
		code, text := p.update(u)
		failed = failed || code != codes.OK
		each = append(each, &p4.Error{CanonicalCode: int32(code), Message: text})
	}
	if !failed {
		return &p4.WriteResponse{}, nil
	}
	if p.faults.WrongDetails {
		each = append(each, &p4.Error{CanonicalCode: -7, Message: "\xff\x00one too many"})
	}
	out := status.New(codes.Unknown, "some updates failed").Proto()
	for _, e := range each {
		e.Message = string([]rune(e.Message))
		detail, err := anypb.New(e)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		out.Details = append(out.Details, detail)
	}
	return nil, status.FromProto(out).Err()
}

// update needs p.mu.
func (p *Peer) update(u *p4.Update) (codes.Code, string) {
	p.updates++
	if code, text := p.refusal(u); code != codes.OK || p.faults.LoseWrites {
		return code, text
	}
	e := u.GetEntity()
	if u.GetType() == p4.Update_DELETE {
		if err := p.plane.Remove(p.entries[keyOf(e)]); err != nil {
			return codes.Internal, err.Error()
		}
		delete(p.entries, keyOf(e))
		p.filled = nil
		return codes.OK, ""
	}
	if p.points != nil && !p.points(e, func(to *p4.Entity) bool { return p.entries[keyOf(to)] != nil }) {
		p.counts.Dangling++
	}
	if err := p.plane.Put(e); err != nil {
		return codes.InvalidArgument, err.Error()
	}
	p.entries[keyOf(e)] = p.stored(e)
	if u.GetType() == p4.Update_INSERT && p.filled != nil {
		p.filled[e.GetTableEntry().GetTableId()]++
	}
	return codes.OK, ""
}

// refusal says what stands against an update.
func (p *Peer) refusal(u *p4.Update) (codes.Code, string) {
	t, insert := u.GetEntity().GetTableEntry(), u.GetType() == p4.Update_INSERT
	_, there := p.entries[keyOf(u.GetEntity())]
	switch {
	case p.faults.RefuseEvery > 0 && p.updates%p.faults.RefuseEvery == 0:
		return codes.Aborted, "not now"
	case t == nil && p.faults.NoGroups:
		return codes.Unimplemented, "no groups"
	case insert && there:
		return codes.AlreadyExists, "there already"
	case !insert && !there:
		return codes.NotFound, "not there"
	case t == nil:
		return codes.OK, ""
	case p.sizes[t.GetTableId()] == 0:
		return codes.NotFound, "no such table"
	case insert && p.count(t.GetTableId()) >= p.sizes[t.GetTableId()]:
		return codes.ResourceExhausted, "the table is full"
	}
	return codes.OK, ""
}

// count is asked at every insert, and a table may have tens of thousands: so it is kept, until something else changes.
func (p *Peer) count(table uint32) (n int64) {
	if p.filled == nil {
		p.filled = map[uint32]int64{}
		for _, e := range p.entries {
			p.filled[e.GetTableEntry().GetTableId()]++
		}
	}
	return p.filled[table]
}

// stored is what a server keeps of an entity.
func (p *Peer) stored(e *p4.Entity) *p4.Entity {
	e = proto.CloneOf(e)
	if p.faults.NoMetadata {
		if t := e.GetTableEntry(); t != nil {
			t.Metadata = nil
		} else if g := e.GetPacketReplicationEngineEntry().GetMulticastGroupEntry(); g != nil {
			g.Metadata = nil
		}
	}
	return e
}

// Read answers for one table, for the groups, or for places in counters.
func (p *Peer) Read(r *p4.ReadRequest, server p4.P4Runtime_ReadServer) error {
	p.slow(server.Context())
	out, err := p.read(r)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(out.Entities, mostAtOnce) {
		if err := server.Send(&p4.ReadResponse{Entities: part}); err != nil {
			return err
		}
	}
	return nil
}

// mostAtOnce is how many entities an answer holds: gRPC bounds its length.
const mostAtOnce = 4096

func (p *Peer) read(r *p4.ReadRequest) (*p4.ReadResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pipeline == nil {
		return nil, status.Error(codes.FailedPrecondition, "no pipeline")
	}
	out := &p4.ReadResponse{}
	for _, ask := range r.GetEntities() {
		if c := ask.GetCounterEntry(); c != nil {
			one, err := p.counter(c)
			if err != nil {
				return nil, err
			}
			out.Entities = append(out.Entities, one)
			continue
		}
		table := ask.GetTableEntry().GetTableId()
		if table == 0 && p.faults.NoGroups {
			return nil, status.Error(codes.Unimplemented, "no groups")
		}
		for _, e := range p.entries {
			if e.GetTableEntry().GetTableId() == table {
				out.Entities = append(out.Entities, p.answered(e))
			}
		}
	}
	if p.faults.Garble != nil {
		p.faults.Garble(out)
	}
	return out, nil
}

// counter answers for one place in a counter.
func (p *Peer) counter(c *p4.CounterEntry) (*p4.Entity, error) {
	counting, can := p.plane.(Counting)
	if !can || p.faults.NoCounters {
		return nil, status.Error(codes.Unimplemented, "no counters")
	}
	n, there := counting.Count(c.GetCounterId(), c.GetIndex().GetIndex())
	if !there {
		return nil, status.Error(codes.OutOfRange, "no such counter")
	}
	return &p4.Entity{Entity: &p4.Entity_CounterEntry{CounterEntry: &p4.CounterEntry{
		CounterId: c.GetCounterId(), Index: c.GetIndex(), Data: &p4.CounterData{PacketCount: int64(n)},
	}}}, nil
}

// answered is an entity as a server with its habits writes it.
func (p *Peer) answered(e *p4.Entity) *p4.Entity {
	e = proto.CloneOf(e)
	if t := e.GetTableEntry(); t != nil && p.faults.Padded {
		for _, f := range t.GetMatch() {
			if x := f.GetExact(); x != nil {
				x.Value = append(make([]byte, 3), x.Value...)
			}
		}
		for _, a := range t.GetAction().GetAction().GetParams() {
			a.Value = append(make([]byte, 3), a.Value...)
		}
	}
	return e
}
