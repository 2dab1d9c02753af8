// SPDX-License-Identifier: Apache-2.0

// Where a service stands with a switch: whether servers report to it, whether clients are
// given its address, and what is in the way. Pure. Router pods stand by all the time, so
// that each step may be taken back (W-25).
package rpcservice

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// linger is how long a switch serves on after clients were given other addresses, besides
// the time for which a request may wait there: names are asked for again within it.
const linger = 30 * time.Second

// switchDecision is how a service stands with a switch, nil status: no switch knows of it.
type switchDecision struct {
	status *v1alpha1.RpcServiceSwitchStatus
	// refused is what the specification asks for and cannot have; none: no reason.
	refused verdict.Verdict
	// entry is what the switch says of the service, nil while it says nothing.
	entry *v1alpha1.SwitchService
}

// fronted says that clients are given the switch's address.
func (d switchDecision) fronted() bool {
	return d.status != nil && d.status.State == v1alpha1.ServiceOnSwitch
}

// decideSwitch says what is to be done about a switch.
func decideSwitch(s *snapshot) switchDecision {
	asked, had := s.service.Spec.Router.Switch, s.service.Status.Switch
	if asked != nil && (had == nil || had.Name == asked.Name && had.Address == asked.Address) {
		return joined(s, asked, had)
	}
	return left(s, had)
}

// joined is a service that asks for the switch.
func joined(s *snapshot, asked *v1alpha1.RouterSwitch, had *v1alpha1.RpcServiceSwitchStatus) switchDecision {
	psw := s.switches[asked.Name]
	d := switchDecision{entry: entryOf(psw, s.service)}
	served := had != nil && (had.State == v1alpha1.ServiceOnSwitch || had.State == v1alpha1.ServiceOnStandby)
	state := v1alpha1.ServiceJoiningSwitch
	switch {
	case serves(psw, d.entry):
		state = v1alpha1.ServiceOnSwitch
	case served:
		state = v1alpha1.ServiceOnStandby
	}
	d.status = switchStatus(s, asked.Name, asked.Address, state, had)
	if d.entry != nil {
		d.status.UnreachableWorkers = d.entry.UnreachableWorkers
	}
	switch {
	case psw == nil || psw.DeletionTimestamp != nil:
		d.refused = verdict.No(v1alpha1.ReasonSwitchNotFound, fmt.Sprintf("`spec.router.switch.name`: there is no ProgrammableSwitch %q; the router pods serve", asked.Name))
	case d.entry != nil && d.entry.Reason != "" && d.entry.Reason != v1alpha1.ReasonReconciling:
		d.refused = verdict.No(d.entry.Reason, d.entry.Message+"; "+serving(d))
	}
	return d
}

func serving(d switchDecision) string {
	if d.fronted() {
		return "what the switch held before serves"
	}
	return "the router pods serve"
}

// serves: the switch was read back whole with this service, and is in the operator's hands.
// What it held before goes on while another configuration is written.
func serves(psw *v1alpha1.ProgrammableSwitch, e *v1alpha1.SwitchService) bool {
	return psw != nil && psw.DeletionTimestamp == nil && psw.Status.Connection == v1alpha1.SwitchConnected && e != nil && e.ConfigHash != ""
}

// left is a service that asks for no switch, or for another one: it leaves the one it had.
func left(s *snapshot, had *v1alpha1.RpcServiceSwitchStatus) switchDecision {
	if had == nil {
		return switchDecision{}
	}
	d := switchDecision{status: switchStatus(s, had.Name, had.Address, v1alpha1.ServiceLeavingSwitch, had), entry: entryOf(s.switches[had.Name], s.service)}
	wait := linger + time.Duration(s.service.Spec.Router.MaxQueueMilliseconds)*time.Millisecond
	if s.now.Sub(d.status.SinceTime.Time) >= wait {
		return switchDecision{}
	}
	return d
}

func switchStatus(s *snapshot, name, address string, state v1alpha1.RpcServiceSwitchState, had *v1alpha1.RpcServiceSwitchStatus) *v1alpha1.RpcServiceSwitchStatus {
	out := &v1alpha1.RpcServiceSwitchStatus{Name: name, Address: address, State: state, SinceTime: metav1.NewTime(s.now)}
	if had != nil && had.State == state {
		out.SinceTime = had.SinceTime
	}
	return out
}

func entryOf(psw *v1alpha1.ProgrammableSwitch, service *v1alpha1.RpcService) *v1alpha1.SwitchService {
	if psw == nil {
		return nil
	}
	for i := range psw.Status.Services {
		if e := &psw.Status.Services[i]; e.Namespace == service.Namespace && e.Name == service.Name {
			return e
		}
	}
	return nil
}

// planSwitch has servers report to a switch as long as it may place requests, and clients
// given its address while it does.
func (p *plan) planSwitch(s *snapshot) {
	p.onSwitch = decideSwitch(s)
	p.input.Switched = p.onSwitch.status != nil
}

// withSwitch are the endpoints with the switch's in the place of the routers'.
func withSwitch(all []render.Endpoint, d switchDecision) []render.Endpoint {
	if !d.fronted() {
		return all
	}
	at, err := netip.ParseAddr(d.status.Address)
	if err != nil {
		return all // the switch serves nobody at such an address
	}
	all = slices.DeleteFunc(slices.Clone(all), func(e render.Endpoint) bool { return e.Component == v1alpha1.ComponentRouter })
	return append(all, render.Endpoint{Component: v1alpha1.ComponentRouter, Address: at, Ready: true})
}

// programmedBySwitch is what the switch adds to a service that its pods have acknowledged.
func programmedBySwitch(s *snapshot, d switchDecision, document desired, pods verdict.Verdict) verdict.Verdict {
	if !render.OnSwitch(s.service) || !pods.OK() {
		return pods
	}
	if d.status == nil || d.status.Name != s.service.Spec.Router.Switch.Name || d.status.State == v1alpha1.ServiceLeavingSwitch {
		return verdict.No(v1alpha1.ReasonReconciling, "the service has yet to leave the switch it had")
	}
	psw := s.switches[d.status.Name]
	switch {
	case psw != nil && psw.Status.Connection != v1alpha1.SwitchConnected:
		return verdict.No(v1alpha1.ReasonUnreachable, fmt.Sprintf("ProgrammableSwitch %s is not connected; %s", d.status.Name, serving(d)))
	case d.entry == nil || !document.runs(d.entry.ConfigHash):
		return verdict.No(v1alpha1.ReasonSwitchNotProgrammed, fmt.Sprintf("ProgrammableSwitch %s has not read this configuration back yet; %s", d.status.Name, serving(d)))
	}
	return verdict.Yes(v1alpha1.ReasonProgrammed, fmt.Sprintf("%s; ProgrammableSwitch %s holds %d workers", pods.Message, d.status.Name, d.entry.Workers))
}

// readyAtSwitch names workers that are ready and yet get nothing.
func readyAtSwitch(d switchDecision, ready verdict.Verdict) verdict.Verdict {
	if !ready.OK() || d.status == nil || len(d.status.UnreachableWorkers) == 0 {
		return ready
	}
	return verdict.No(v1alpha1.ReasonWorkersUnreachable, fmt.Sprintf("%s; ProgrammableSwitch %s knows no way to %s: no network of its `spec.nextHops` holds them",
		ready.Message, d.status.Name, strings.Join(d.status.UnreachableWorkers, ", ")))
}
