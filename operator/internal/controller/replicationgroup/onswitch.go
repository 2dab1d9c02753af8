// SPDX-License-Identifier: Apache-2.0

// A group whose aggregator is a switch: what it asks of the switch, and what the switch's answer means. The group serves
// whatever the answer is.
package replicationgroup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// onSwitch is how a group stands with its switch; the zero value: it asks for none.
type onSwitch struct {
	asked switchboard.Group
	// found: the switch says something of the group; there: there is such a switch.
	answer       v1alpha1.SwitchService
	found, there bool
}

// askOf is what a group asks of its switch. Only a membership that is committed is spoken of: another one could still
// stand at the same index.
func askOf(s *snapshot, doc *dataplane.GroupConfig) switchboard.Group {
	want := s.group.Spec.Aggregator.Switch
	out := switchboard.Group{Namespace: s.group.Namespace, Name: s.group.Name, Switch: want.Name, Created: s.group.CreationTimestamp.Time}
	if at, err := netip.ParseAddr(want.Address); err == nil {
		out.At = netip.AddrPortFrom(at, render.AggregatorPort)
	}
	if doc != nil {
		out.Number = doc.Group.Number
		out.Cluster = wireCluster(doc.Group.Cluster)
	}
	leader := s.leading()
	if doc == nil || leader == nil || leader.ChangePending || !leader.Formed {
		return out
	}
	out.Known, out.Epoch = true, leader.ConfigurationIndex
	for _, m := range leader.Members {
		one := switchboard.GroupMember{ID: uint16(m.ID), Votes: m.Role == dataplane.RoleVoter}
		for _, b := range doc.Members {
			if at, err := netip.ParseAddr(b.Address); b.ID == m.ID && err == nil {
				one.Address = netip.AddrPortFrom(at, uint16(b.MemberPort))
			}
		}
		out.Members = append(out.Members, one)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v", out))
	out.Version = hex.EncodeToString(sum[:])
	return out
}

func wireCluster(text string) uint64 {
	var id [16]byte
	raw, err := hex.DecodeString(text)
	if err != nil || copy(id[:], raw) != len(id) {
		return 0
	}
	return switches.WireCluster(id)
}

// askSwitch has the switch told, and reads what it said last.
func (r *Reconciler) askSwitch(ctx context.Context, s *snapshot, p *plan) error {
	if err := r.askForAll(ctx); err != nil {
		return err
	}
	doc := p.doc
	if doc == nil {
		doc = s.live
	}
	r.askForBox(s, p, doc)
	if !render.AggregatesOnSwitch(s.group) {
		r.Board.WithdrawGroup(s.group.Namespace+"/"+s.group.Name, false)
		return nil
	}
	p.onSwitch.asked = r.Board.AskGroup(askOf(s, doc))
	p.onSwitch.answer, p.onSwitch.found, p.onSwitch.there = r.Board.Answered(p.onSwitch.asked.Switch, s.group.Namespace, s.group.Name)
	return nil
}

// askForAll tells the board of every group that names a switch, before anybody concludes from its silence that what a switch
// holds is nobody's.
func (r *Reconciler) askForAll(ctx context.Context) error {
	r.board.Lock()
	defer r.board.Unlock()
	if r.boardTold {
		return nil
	}
	list := &v1alpha1.ReplicationGroupList{}
	if err := r.Client.List(ctx, list); err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	for i := range list.Items {
		g := &list.Items[i]
		if g.DeletionTimestamp != nil {
			continue
		}
		s := &snapshot{group: g}
		var doc *dataplane.GroupConfig
		if g.Status.ClusterID != "" {
			doc = render.GroupConfig(g, g.Status.ClusterID)
		}
		if render.AggregatesOnSwitch(g) {
			r.Board.AskGroup(askOf(s, doc))
		}
		if render.BoxOnSwitch(g) {
			r.Board.AskGroup(askForBoxOf(g, doc))
		}
	}
	r.Board.ToldGroups()
	r.boardTold = true
	return nil
}

// decideOnSwitch says what the switch adds to a group that its pods have acknowledged.
func decideOnSwitch(s *snapshot, on onSwitch, pods verdict.Verdict) verdict.Verdict {
	if !render.AggregatesOnSwitch(s.group) || !pods.OK() {
		return pods
	}
	name := s.group.Spec.Aggregator.Switch.Name
	const meanwhile = "; the leader sends to each member itself"
	switch {
	case !on.there:
		return verdict.No(v1alpha1.ReasonSwitchNotFound, fmt.Sprintf("`spec.aggregator.switch.name`: there is no ProgrammableSwitch %q%s", name, meanwhile))
	case on.found && on.answer.Reason != "" && on.answer.Reason != v1alpha1.ReasonReconciling:
		return verdict.No(on.answer.Reason, on.answer.Message+meanwhile)
	case !on.found || !on.asked.Known || on.answer.ConfigHash != on.asked.Version:
		return verdict.No(v1alpha1.ReasonSwitchNotProgrammed, fmt.Sprintf("ProgrammableSwitch %s has not read this membership back yet%s", name, meanwhile))
	}
	text := fmt.Sprintf("%s; ProgrammableSwitch %s counts %d members", pods.Message, name, on.answer.Workers)
	if far := on.answer.UnreachableWorkers; len(far) > 0 {
		return verdict.No(v1alpha1.ReasonWorkersUnreachable, fmt.Sprintf("%s; it knows no way to %s: no network of its `spec.nextHops` holds them, and the leader serves them itself", text, strings.Join(far, ", ")))
	}
	return verdict.Yes(v1alpha1.ReasonProgrammed, text)
}
