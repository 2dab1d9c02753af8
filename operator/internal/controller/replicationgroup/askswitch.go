// SPDX-License-Identifier: Apache-2.0

// What is the same for a group whatever a switch is to it: how the switch is asked, and what its answer means.
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
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// onSwitch is how a group stands with its switch; the zero value: it asks for none.
type onSwitch struct {
	asked switchboard.Group
	// found: the switch says something of the group; there: there is such a switch.
	answer       v1alpha1.SwitchService
	found, there bool
}

// askBoard has the switch told, and reads what it said last.
func (r *Reconciler) askBoard(g switchboard.Group) onSwitch {
	on := onSwitch{asked: r.Board.AskGroup(g)}
	on.answer, on.found, on.there = r.Board.Answered(on.asked.Switch, g.Namespace, g.Name)
	return on
}

// endpointOf is where somebody is found; the zero value where the address is none.
func endpointOf(address string, port int) netip.AddrPort {
	at, err := netip.ParseAddr(address)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(at, uint16(port))
}

func wireCluster(text string) uint64 {
	var id [16]byte
	raw, err := hex.DecodeString(text)
	if err != nil || copy(id[:], raw) != len(id) {
		return 0
	}
	return switches.WireCluster(id)
}

// versionOf tells what is asked from what was asked before; the switch gives it back with what it holds.
func versionOf(g switchboard.Group) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v", g))
	return hex.EncodeToString(sum[:])
}

// switchWords are how a group speaks of its switch.
type switchWords struct {
	field     string // of the specification, that names it
	meanwhile string // what there is without it
	unread    string // what it has not read back
	does      string // with as many members as it knows a way to
	far       string // what there is for the others
}

// judge is what the switch of that name says of the group.
func (on onSwitch) judge(name string, w switchWords) verdict.Verdict {
	switch {
	case !on.there:
		return verdict.No(v1alpha1.ReasonSwitchNotFound, fmt.Sprintf("`%s`: there is no ProgrammableSwitch %q%s", w.field, name, w.meanwhile))
	case on.found && on.answer.Reason != "" && on.answer.Reason != v1alpha1.ReasonReconciling:
		return verdict.No(on.answer.Reason, on.answer.Message+w.meanwhile)
	case !on.found || !on.asked.Known || on.answer.ConfigHash != on.asked.Version:
		return verdict.No(v1alpha1.ReasonSwitchNotProgrammed, fmt.Sprintf("ProgrammableSwitch %s has not read %s", name, w.unread))
	}
	text := fmt.Sprintf("ProgrammableSwitch %s %s %d members", name, w.does, on.answer.Workers)
	if far := on.answer.UnreachableWorkers; len(far) > 0 {
		return verdict.No(v1alpha1.ReasonWorkersUnreachable, fmt.Sprintf("%s; it knows no way to %s: no network of its `spec.nextHops` holds them%s", text, strings.Join(far, ", "), w.far))
	}
	return verdict.Yes(v1alpha1.ReasonProgrammed, text)
}

// afterPods is what the switch says, after what the group's pods say.
func afterPods(pods, said verdict.Verdict) verdict.Verdict {
	said.Message = pods.Message + "; " + said.Message
	return said
}
