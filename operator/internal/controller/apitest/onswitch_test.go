// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/e2e/switchpeer"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/netstatus"
)

// fronts are the addresses that clients are given.
func (w *world) fronts() (out []string) {
	w.t.Helper()
	slice := &discoveryv1.EndpointSlice{}
	if direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: w.name + "-net-ipv4"}, slice) != nil {
		return nil
	}
	for _, e := range slice.Endpoints {
		out = append(out, e.Addresses...)
	}
	return out
}

func (w *world) waitFronts(what string, ok func([]string) bool) {
	w.t.Helper()
	eventually(w.t, what, func() (bool, string) { all := w.fronts(); return ok(all), fmt.Sprint(all) })
}

// holding counts what the switch holds by table, as its status says.
func holding(t *testing.T, name string) string {
	t.Helper()
	psw := &v1alpha1.ProgrammableSwitch{}
	if err := direct.Get(context.Background(), types.NamespacedName{Name: name}, psw); err != nil {
		return err.Error()
	}
	var out []string
	for _, table := range psw.Status.Tables {
		if slices.Contains([]string{"member", "service", "target"}, table.Name) {
			out = append(out, fmt.Sprintf("%s %d", table.Name, table.Used))
		}
	}
	return strings.Join(out, ", ")
}

// placed is what the switch holds of two workers.
const placed = "member 2, service 1, target 16"

func (w *world) changeService(edit func(*v1alpha1.RpcService)) {
	w.t.Helper()
	eventually(w.t, "a change of the service", func() (bool, string) {
		s := w.service()
		edit(s)
		err := direct.Update(context.Background(), s)
		return err == nil, fmt.Sprint(err)
	})
}

// byTheSwitch: clients are given its address alone.
func byTheSwitch(all []string) bool { return slices.Equal(all, []string{"192.0.2.1"}) }

// byRouters: clients are given those that stand by.
func byRouters(all []string) bool { return len(all) == 2 && !byTheSwitch(all) }

func (w *world) waitSwitchState(want v1alpha1.RpcServiceSwitchState) {
	w.t.Helper()
	eventually(w.t, "status.switch is "+string(want), func() (bool, string) {
		st := w.service().Status.Switch
		return st != nil && st.State == want, fmt.Sprintf("%+v", st)
	})
}

// softwareWorld is a service in software whose pods are well, of two workers in a network.
func softwareWorld(t *testing.T, name string) *world {
	t.Helper()
	w := newWorld(t, name)
	w.create(`{spec: {replicas: 1, workersPerReplica: 2}}`)
	// Pods of tests listen on the loopback network, which no endpoint may name: they have another address.
	w.template = map[string]string{netstatus.AnnotationNetwork: w.ns + "/data"}
	for n, component := range []string{v1alpha1.ComponentServer, v1alpha1.ComponentRouter, v1alpha1.ComponentRouter} {
		s := w.pod(component, 2)
		w.attach(s, fmt.Sprintf("\"10.78.0.%d\"", n+1))
		s.runsLatest()
		s.setReady()
	}
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	return w
}

// W-22 to W-25: a service goes over to a switch. Servers report to it, it is programmed,
// and then clients are given its address; where it knows no way, Ready names the worker;
// when it is gone, clients are given the routers that stand by; and back again. When the
// service is deleted nothing of it is left on the switch.
func TestServiceOnSwitch(t *testing.T) {
	t.Parallel()
	operator(t)
	ctx := context.Background()
	p, err := switchpeer.Start(switchpeer.Options{Device: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	info, device := pipelineParts(t, "onswitch-router")
	psw := newSwitch("onswitch", p.Address(), info, device)
	psw.Spec.NextHops[0].Networks = []string{"10.78.0.0/24"}
	if err := direct.Create(ctx, psw); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deleteSwitch(t, "onswitch") })
	w := softwareWorld(t, "onswitch")
	w.changeService(func(s *v1alpha1.RpcService) {
		s.Spec.Router.Placement, s.Spec.Router.CentralQueueLimit = v1alpha1.PlacementSwitch, 4096
		s.Spec.Router.Switch = &v1alpha1.RouterSwitch{Name: "onswitch", Address: "192.0.2.1", Feedback: v1alpha1.SwitchFeedbackBySource}
	})
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	w.waitFronts("clients are given the switch", byTheSwitch)
	w.waitSwitchState(v1alpha1.ServiceOnSwitch)
	w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	eventually(t, "its entries", func() (bool, string) { got := holding(t, "onswitch"); return got == placed, got })
	w.losesAWorker()

	p.Stop()
	w.waitFronts("clients are given the routers that stand by", byRouters)
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonUnreachable)
	again, err := switchpeer.Start(switchpeer.Options{Device: 1, Address: p.Address()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Stop)
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	w.waitFronts("clients are given the switch again", byTheSwitch)

	w.changeService(func(s *v1alpha1.RpcService) {
		s.Spec.Router.Placement, s.Spec.Router.Switch = v1alpha1.PlacementSoftware, nil
	})
	w.waitFronts("clients are given the routers", byRouters)
	w.waitSwitchState(v1alpha1.ServiceLeavingSwitch)
	if got := holding(t, "onswitch"); got != placed {
		t.Errorf("a switch that clients may still ask holds %s", got)
	}
	if err := direct.Delete(ctx, w.service()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing of the service on the switch", func() (bool, string) { got := holding(t, "onswitch"); return got == "", got })
}

// losesAWorker has the switch know no way to a worker for a while.
func (w *world) losesAWorker() {
	w.t.Helper()
	behind := func(network string) {
		changeSwitch(w.t, w.name, func(psw *v1alpha1.ProgrammableSwitch) { psw.Spec.NextHops[0].Networks = []string{network} })
	}
	behind("10.79.0.0/24")
	s := w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWorkersUnreachable)
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, "(10.78.0.1)") {
		w.t.Errorf("the worker is not named: %s", c.Message)
	}
	behind("10.78.0.0/24")
	eventually(w.t, "the worker that can be reached", func() (bool, string) { got := holding(w.t, w.name); return got == placed, got })
}

// What a switch cannot do is said, and the routers serve (W-24).
func TestServiceRefusedBySwitch(t *testing.T) {
	t.Parallel()
	operator(t)
	w := newWorld(t, "nowhere")
	o := parse(t, baseService)
	merge(o.Object, parse(t, `{metadata: {name: nowhere}, spec: {router: {placement: Switch, centralQueueLimit: 4096, switch: {name: nowhere, address: 192.0.2.9, feedback: BySource}}}}`).Object)
	o.SetNamespace(w.ns)
	if err := direct.Create(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	w.waitCondition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonSwitchNotFound)
	settledSwitch(t, "nowhere")
	w.waitCondition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonOutsidePool)
	if doc, _ := w.config(); doc == nil || len(doc.Routers) != 1 || doc.Routers[0].Name != "switch/nowhere" {
		t.Errorf("routers of %+v", doc)
	}
}
