// SPDX-License-Identifier: Apache-2.0

// The status of a switch, computed in one place.
package programmableswitch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/message"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/keeper"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/link"
)

// maxName bounds the name of a table in the status.
const maxName = 128

// standing is what a kind of fault means here: the reason, and the field at fault.
type standing struct{ reason, field string }

// faults has a row for each kind.
var faults = map[link.Kind]standing{
	link.Unreachable: {v1alpha1.ReasonUnreachable, "spec.endpoint"},
	link.Certificate: {v1alpha1.ReasonCertificateRefused, "spec.tls"},
	link.Device:      {v1alpha1.ReasonUnknownDevice, "spec.deviceID"},
	link.Backup:      {v1alpha1.ReasonAnotherPrimary, ""},
	link.Refused:     {v1alpha1.ReasonPipelineRefused, "spec.pipeline"},
	link.Fixed:       {v1alpha1.ReasonFixedPipeline, "spec.pipeline"},
	link.Empty:       {v1alpha1.ReasonPipelineRefused, "spec.pipeline.mode"},
	link.Broken:      {v1alpha1.ReasonSwitchFailed, ""},
	link.Full:        {v1alpha1.ReasonTableFull, ""},
	link.Fenced:      {v1alpha1.ReasonNotLeading, ""},
}

func writeStatus(psw *v1alpha1.ProgrammableSwitch, s *snapshot, p plan, now time.Time) {
	st := &psw.Status
	st.ObservedGeneration = psw.Generation
	programmed := decideProgrammed(s, p)
	verdict.SetAll(&st.Conditions, map[string]verdict.Verdict{
		v1alpha1.ConditionAccepted: p.accepted, v1alpha1.ConditionProgrammed: programmed,
		v1alpha1.ConditionReady: decideReady(s, p.accepted, programmed),
	}, psw.Generation, now)
	writeSession(st, s.state)
	writeEntries(st, s.state, p.info)
	if p.desired != nil { // while it is refused, what was asked before goes on
		st.Services = serviceStatus(p.guests, s.state)
	}
	st.ServiceCount = 0
	for _, of := range st.Services {
		if of.ConfigHash != "" {
			st.ServiceCount++
		}
	}
}

// writeSession says how the operator stands with the switch.
func writeSession(st *v1alpha1.ProgrammableSwitchStatus, state keeper.State) {
	st.Connection, st.Role, st.ElectionID, st.Cookie = v1alpha1.SwitchDisconnected, "", "", ""
	if !state.Connected {
		return
	}
	st.Connection, st.Role, st.ElectionID = v1alpha1.SwitchConnected, v1alpha1.SwitchBackup, state.Role.Election.String()
	if state.Role.Primary {
		st.Role = v1alpha1.SwitchPrimary
	}
	if state.Cookie != nil {
		st.Cookie = fmt.Sprintf("%#016x", *state.Cookie)
	}
}

// writeEntries says what it holds, as read back last.
func writeEntries(st *v1alpha1.ProgrammableSwitchStatus, state keeper.State, info *switches.Info) {
	st.PipelinePushes, st.EntriesRepaired, st.EntriesOfOthers = state.Pushes, state.Repaired, int64(state.Strange)
	st.Entries, st.Tables, st.Strangers = 0, nil, nil
	for _, name := range state.Strangers {
		st.Strangers = append(st.Strangers, message.Bounded(name, maxName))
	}
	for _, name := range slices.Sorted(maps.Keys(state.Used)) {
		used := state.Used[name]
		st.Entries += used
		size := int64(0)
		if info != nil {
			size = info.Size(name)
		}
		if size == 0 || len(st.Tables) == v1alpha1.MaxSwitchTables {
			continue
		}
		st.Tables = append(st.Tables, v1alpha1.SwitchTable{Name: message.Bounded(name, maxName), Used: used, Free: max(size-used, 0)})
	}
}

// decideProgrammed: what counts is what was read back (W-23).
func decideProgrammed(s *snapshot, p plan) verdict.Verdict {
	state := s.state
	switch {
	case !p.accepted.OK():
		return verdict.No(v1alpha1.ReasonNotAccepted, p.accepted.Message)
	case s.psw.DeletionTimestamp != nil:
		return deleting(state)
	case !s.known || state.Generation != s.psw.Generation:
		return verdict.No(v1alpha1.ReasonReconciling, "the switch has yet to be asked")
	case state.Fault != nil:
		return ofFault(state.Fault)
	case len(state.Contested) > 0:
		return verdict.No(v1alpha1.ReasonEntriesOfOthers, "entries that are not the operator's stand in the place of its own, and stay: "+strings.Join(state.Contested, ", "))
	case !state.Settled:
		return verdict.No(v1alpha1.ReasonReconciling, "the switch is being written")
	}
	return verdict.Yes(v1alpha1.ReasonProgrammed, "the switch holds what this generation asks for, as read back")
}

func deleting(state keeper.State) verdict.Verdict {
	if state.Fault != nil {
		v := ofFault(state.Fault)
		v.Message = "entries cannot be taken away, and the object stays until they are: " + v.Message
		return v
	}
	return verdict.No(v1alpha1.ReasonReconciling, "entries are being taken away")
}

func ofFault(f *link.Fault) verdict.Verdict {
	row, known := faults[f.Kind]
	if !known {
		row.reason = v1alpha1.ReasonSwitchFailed
	}
	if row.field == "" {
		return verdict.No(row.reason, f.Text)
	}
	return verdict.No(row.reason, fmt.Sprintf("`%s`: %s", row.field, f.Text))
}

// decideReady is the summary.
func decideReady(s *snapshot, accepted, programmed verdict.Verdict) verdict.Verdict {
	switch {
	case !accepted.OK():
		return verdict.No(v1alpha1.ReasonNotAccepted, accepted.Message)
	case !programmed.OK():
		return verdict.No(v1alpha1.ReasonNotProgrammed, programmed.Message)
	case s.state.Strange > 0:
		return verdict.Yes(v1alpha1.ReasonReady, fmt.Sprintf("the switch is programmed; %d of its entries are not the operator's, and stay", s.state.Strange))
	}
	return verdict.Yes(v1alpha1.ReasonReady, "the switch is programmed")
}
