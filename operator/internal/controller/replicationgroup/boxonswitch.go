// SPDX-License-Identifier: Apache-2.0

// A group whose flow-control box is a switch: what is asked of it, and what it says.
package replicationgroup

import (
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
)

// askForBoxOf is what a group asks of a switch that is its box. It sends to everybody whom the document names, as a box in a
// pod does: who is no member takes no request. While there is no document it keeps what it has.
func askForBoxOf(g *v1alpha1.ReplicationGroup, doc *dataplane.GroupConfig) switchboard.Group {
	want := g.Spec.Box.Switch
	out := switchboard.Group{Box: true, Namespace: g.Namespace, Name: g.Name, Switch: want.Name, Created: g.CreationTimestamp.Time,
		FeedbackPort: render.FeedbackPort, Limit: int(g.Spec.InFlightLimit)}
	if at, err := netip.ParseAddr(want.Address); err == nil {
		out.At = netip.AddrPortFrom(at, render.RequestPort)
	}
	if doc == nil {
		return out
	}
	out.Number, out.Cluster = doc.Group.Number, wireCluster(doc.Group.Cluster)
	for _, m := range doc.Members {
		one := switchboard.GroupMember{ID: uint16(m.ID)}
		if at, err := netip.ParseAddr(m.Address); err == nil {
			one.Address = netip.AddrPortFrom(at, uint16(m.ClientPort))
		}
		out.Members = append(out.Members, one)
	}
	if out.Known = len(out.Members) > 0; out.Known {
		sum := sha256.Sum256(fmt.Appendf(nil, "%+v", out))
		out.Version = hex.EncodeToString(sum[:])
	}
	return out
}

// askForBox has the switch told, and reads what it said last.
func (r *Reconciler) askForBox(s *snapshot, p *plan, doc *dataplane.GroupConfig) {
	if !render.BoxOnSwitch(s.group) {
		r.Board.WithdrawGroup(s.group.Namespace+"/"+s.group.Name, true)
		return
	}
	p.box.asked = r.Board.AskGroup(askForBoxOf(s.group, doc))
	p.box.answer, p.box.found, p.box.there = r.Board.Answered(p.box.asked.Switch, s.group.Namespace, s.group.Name)
}

// decideSwitchBox says why clients reach no member by the switch; OK: they do. Who cannot be reached by it gets the requests
// from the others, as long as a majority gets them.
func decideSwitchBox(s *snapshot, box onSwitch) verdict.Verdict {
	name := s.group.Spec.Box.Switch.Name
	const meanwhile = "; clients reach no member, and nothing is lost"
	switch {
	case !box.there:
		return verdict.No(v1alpha1.ReasonSwitchNotFound, fmt.Sprintf("`spec.box.switch.name`: there is no ProgrammableSwitch %q%s", name, meanwhile))
	case box.found && box.answer.Reason != "" && box.answer.Reason != v1alpha1.ReasonReconciling:
		return verdict.No(box.answer.Reason, box.answer.Message+meanwhile)
	case !box.found || !box.asked.Known || box.answer.ConfigHash != box.asked.Version:
		return verdict.No(v1alpha1.ReasonSwitchNotProgrammed, fmt.Sprintf("ProgrammableSwitch %s has not read this group's members back yet", name))
	}
	text := fmt.Sprintf("ProgrammableSwitch %s sends to %d members", name, box.answer.Workers)
	if far := box.answer.UnreachableWorkers; len(far) > 0 {
		return verdict.No(v1alpha1.ReasonWorkersUnreachable, fmt.Sprintf("%s; it knows no way to %s: no network of its `spec.nextHops` holds them", text, strings.Join(far, ", ")))
	}
	return verdict.Yes(v1alpha1.ReasonProgrammed, text)
}

// decideBoxProgrammed says what that switch adds to a group that its pods have acknowledged.
func decideBoxProgrammed(s *snapshot, box onSwitch, before verdict.Verdict) verdict.Verdict {
	if !render.BoxOnSwitch(s.group) || !before.OK() {
		return before
	}
	v := decideSwitchBox(s, box)
	if v.OK() {
		v.Message = before.Message + "; " + v.Message
	}
	return v
}
