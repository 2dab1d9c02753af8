// SPDX-License-Identifier: Apache-2.0

// A group whose flow-control box is a switch: what is asked of it, and what it says.
package replicationgroup

import (
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// askForBoxOf is what a group asks of a switch that is its box. It sends to everybody whom the document names, as a box in a
// pod does: who is no member takes no request. While there is no document it keeps what it has.
func askForBoxOf(g *v1alpha1.ReplicationGroup, doc *dataplane.GroupConfig) switchboard.Group {
	want := g.Spec.Box.Switch
	out := switchboard.Group{Box: true, Namespace: g.Namespace, Name: g.Name, Switch: want.Name, Created: g.CreationTimestamp.Time,
		FeedbackPort: render.FeedbackPort, Limit: int(g.Spec.InFlightLimit),
		At: endpointOf(want.Address, render.RequestPort)}
	if doc == nil {
		return out
	}
	out.Number, out.Cluster = doc.Group.Number, wireCluster(doc.Group.Cluster)
	for _, m := range doc.Members {
		out.Members = append(out.Members, switchboard.GroupMember{ID: uint16(m.ID), Address: endpointOf(m.Address, m.ClientPort)})
	}
	if out.Known = len(out.Members) > 0; out.Known {
		out.Version = versionOf(out)
	}
	return out
}

// askForBox has the switch told, and reads what it said last.
func (r *Reconciler) askForBox(s *snapshot, p *plan, doc *dataplane.GroupConfig) {
	if !render.BoxOnSwitch(s.group) {
		r.Board.WithdrawGroup(s.group.Namespace+"/"+s.group.Name, true)
		return
	}
	p.box = r.askBoard(askForBoxOf(s.group, doc))
}

var boxWords = switchWords{field: "spec.box.switch.name", meanwhile: "; clients reach no member, and nothing is lost",
	unread: "this group's members back yet", does: "sends to"}

// decideSwitchBox says why clients reach no member by the switch; OK: they do. Who cannot be reached by it gets the requests
// from the others, as long as a majority gets them.
func decideSwitchBox(s *snapshot, box onSwitch) verdict.Verdict {
	return box.judge(s.group.Spec.Box.Switch.Name, boxWords)
}

// decideBoxProgrammed says what that switch adds to a group that its pods have acknowledged.
func decideBoxProgrammed(s *snapshot, box onSwitch, before verdict.Verdict) verdict.Verdict {
	if !render.BoxOnSwitch(s.group) || !before.OK() {
		return before
	}
	v := decideSwitchBox(s, box)
	if v.OK() {
		return afterPods(before, v)
	}
	return v
}
