// SPDX-License-Identifier: Apache-2.0

// A group whose aggregator is a switch: what it asks of the switch, and what the switch's answer means. The group serves
// whatever the answer is.
package replicationgroup

import (
	"context"
	"fmt"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// askOf is what a group asks of its switch. Only a membership that is committed is spoken of: another one could still
// stand at the same index.
func askOf(s *snapshot, doc *dataplane.GroupConfig) switchboard.Group {
	want := s.group.Spec.Aggregator.Switch
	out := switchboard.Group{Namespace: s.group.Namespace, Name: s.group.Name, Switch: want.Name, Created: s.group.CreationTimestamp.Time,
		At: endpointOf(want.Address, render.AggregatorPort)}
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
			if b.ID == m.ID {
				one.Address = endpointOf(b.Address, b.MemberPort)
			}
		}
		out.Members = append(out.Members, one)
	}
	out.Version = versionOf(out)
	return out
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
	p.onSwitch = r.askBoard(askOf(s, doc))
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

const bySelf = "; the leader sends to each member itself"

var aggregatorWords = switchWords{field: "spec.aggregator.switch.name", meanwhile: bySelf, unread: "this membership back yet" + bySelf,
	does: "counts", far: ", and the leader serves them itself"}

// decideOnSwitch says what the switch adds to a group that its pods have acknowledged.
func decideOnSwitch(s *snapshot, on onSwitch, pods verdict.Verdict) verdict.Verdict {
	if !render.AggregatesOnSwitch(s.group) || !pods.OK() {
		return pods
	}
	v := on.judge(s.group.Spec.Aggregator.Switch.Name, aggregatorWords)
	if v.OK() || v.Reason == v1alpha1.ReasonWorkersUnreachable {
		return afterPods(pods, v)
	}
	return v
}
