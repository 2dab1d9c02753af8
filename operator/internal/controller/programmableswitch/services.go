// SPDX-License-Identifier: Apache-2.0

// What services ask of a switch: who is served at which address, by which workers, and
// which of them the switch knows a way to. Pure.
package programmableswitch

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/message"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/keeper"
)

// asking is a service that names this switch, with its configuration as it stands.
type asking struct {
	service *v1alpha1.RpcService
	// doc is nil while there is none, or none that can be read.
	doc  *dataplane.Config
	hash string
}

// guest is what is made of one.
type guest struct {
	namespace, name string
	address         string
	workers         int
	unreachable     []string
	// reason is empty when the switch is asked to serve it.
	reason, message string
}

func (g guest) key() string { return g.namespace + "/" + g.name }

// way is a network, and who leads there.
type way struct {
	network netip.Prefix
	hop     switches.NextHop
}

// ways are the networks behind next hops, the narrowest first.
func ways(spec v1alpha1.ProgrammableSwitchSpec, f switches.Fabric) (out []way, wrong string) {
	seen := map[netip.Prefix]int{}
	for n, h := range spec.NextHops {
		for k, text := range h.Networks {
			p, err := netip.ParsePrefix(text)
			if err != nil || !p.Addr().Is4() || p != p.Masked() {
				return nil, fmt.Sprintf("`spec.nextHops[%d].networks[%d]` %q is no IPv4 network such as 10.0.1.0/24", n, k, text)
			}
			if other, taken := seen[p]; taken && other != n {
				return nil, fmt.Sprintf("`spec.nextHops[%d].networks[%d]` %q is a network of %s already: one of them leads there", n, k, text, spec.NextHops[other].MACAddress)
			}
			seen[p] = n
			out = append(out, way{p, f.NextHops[n]})
		}
	}
	slices.SortStableFunc(out, func(a, b way) int { return b.network.Bits() - a.network.Bits() })
	return out, ""
}

// Ticks of the clocks of the architectures.
const (
	microsecond = 1000
	tofinoTick  = 1024
)

// ticks of a switch's clock; the architecture is the P4Info's.
func ticks(d time.Duration, arch string) uint32 {
	tick := int64(microsecond)
	if arch == "tna" || arch == "t2na" {
		tick = tofinoTick
	}
	return uint32(d.Nanoseconds() / tick) // ten minutes fit
}

var choices = map[string]switches.Choice{
	string(v1alpha1.PolicyJBSQ): switches.ByCredit, string(v1alpha1.PolicyRoundRobin): switches.ByTurn, string(v1alpha1.PolicyRandom): switches.AtRandom,
}

// lossAfter is after how long a request counts as lost, by device.
func lossAfter(profile string) time.Duration {
	if profile == string(v1alpha1.DeviceSRIOV) {
		return 2 * time.Millisecond
	}
	return 200 * time.Millisecond
}

// servicesOf says what each service gets. An address belongs to the service that is the
// oldest of those that name it.
func servicesOf(all []asking, spec v1alpha1.ProgrammableSwitchSpec, f switches.Fabric, arch string) (guests []guest, services []switches.Service, wrong string) {
	routes, wrong := ways(spec, f)
	if wrong != "" {
		return nil, nil, wrong
	}
	slices.SortFunc(all, func(a, b asking) int {
		if c := a.service.CreationTimestamp.Compare(b.service.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.service.Namespace+"/"+a.service.Name, b.service.Namespace+"/"+b.service.Name)
	})
	taken := map[string]string{}
	for _, a := range all {
		g := guest{namespace: a.service.Namespace, name: a.service.Name, address: addressAt(a.service)}
		g.reason, g.message = refusedGuest(g, f, taken)
		if g.reason == "" {
			taken[g.address] = g.key()
		}
		if g.reason == "" && len(services) == v1alpha1.MaxSwitchServices {
			g.reason, g.message = v1alpha1.ReasonCapacityExceeded, fmt.Sprintf("the switch has %d services already, which is the most", len(services))
		}
		if g.reason == "" && !asksFor(a, g.address) {
			g.reason, g.message = v1alpha1.ReasonReconciling, "its configuration has yet to name the switch"
		}
		if g.reason == "" {
			var s switches.Service
			s, g.workers, g.unreachable = serviceOf(a, g.address, f, routes, arch)
			services = append(services, s)
		}
		if len(guests) < v1alpha1.MaxSwitchServices {
			guests = append(guests, g)
		}
	}
	return guests, services, ""
}

// addressAt is where a service is, or still is, at the switch.
func addressAt(s *v1alpha1.RpcService) string {
	if s.Spec.Router.Switch != nil {
		return s.Spec.Router.Switch.Address
	}
	if s.Status.Switch != nil {
		return s.Status.Switch.Address
	}
	return ""
}

// asksFor: the routers of the document are what servers tell of themselves; before the
// switch is among them nobody would have credits, and after it left nobody must be asked.
func asksFor(a asking, address string) bool {
	return a.doc != nil && slices.ContainsFunc(a.doc.Routers, func(r dataplane.Router) bool { return r.Address == address && render.IsSwitch(r) })
}

func refusedGuest(g guest, f switches.Fabric, taken map[string]string) (reason, text string) {
	at, err := netip.ParseAddr(g.address)
	switch {
	case err != nil || !at.Is4():
		return v1alpha1.ReasonInvalidConfiguration, fmt.Sprintf("`spec.router.switch.address` %q is no IPv4 address", g.address)
	case !slices.ContainsFunc(f.Pool, func(p netip.Prefix) bool { return p.Contains(at) }):
		return v1alpha1.ReasonOutsidePool, fmt.Sprintf("`spec.router.switch.address` %s is in no network of the switch's `spec.addressPool`", g.address)
	case taken[g.address] != "":
		return v1alpha1.ReasonAddressTaken, fmt.Sprintf("`spec.router.switch.address` %s is that of RpcService %s, which is older", g.address, taken[g.address])
	}
	return "", ""
}

func serviceOf(a asking, address string, f switches.Fabric, routes []way, arch string) (s switches.Service, workers int, unreachable []string) {
	at := netip.MustParseAddr(address) // refusedGuest read it
	d := a.doc.Service
	front := netip.AddrPortFrom(at, render.RequestPort)
	s = switches.Service{
		Name: a.service.Namespace + "/" + a.service.Name, Version: a.hash,
		Address: front, Reports: netip.AddrPortFrom(at, render.FeedbackPort),
		Choice: choices[d.Policy], Depth: d.WorkerQueueDepth, Held: uint32(d.CentralQueueLimit),
		Patience: ticks(time.Duration(d.MaxQueueMilliseconds)*time.Millisecond, arch),
		Loss:     ticks(lossAfter(d.DeviceProfile), arch),
		Router:   wire.RouterID(front), OwnMAC: f.MAC,
	}
	s.Objective = objectiveOf(d.Admission, arch)
	for _, m := range a.doc.Members {
		hop, known := hopOf(m.Address, routes)
		if !known {
			unreachable = append(unreachable, fmt.Sprintf("%s (%s)", m.Name, m.Address))
			continue
		}
		for n := range m.Workers {
			s.Workers = append(s.Workers, switches.Worker{Address: netip.AddrPortFrom(netip.MustParseAddr(m.Address), uint16(m.FirstPort+n)), NextHop: hop})
		}
	}
	return s, len(s.Workers), unreachable
}

// objectiveOf is what the switch is to keep: of a service without an objective that refuses, nothing.
func objectiveOf(a *dataplane.Admission, arch string) (out switches.Objective) {
	if a == nil || a.Mode != string(v1alpha1.EnforcementReject) {
		return out
	}
	out.Latency = ticks(time.Duration(a.LatencyMicroseconds)*time.Microsecond, arch)
	out.Per100k, out.Published = uint32(a.PercentilePer100000), a.Controller == string(v1alpha1.ControllerAIAD)
	for _, class := range a.DroppableClasses {
		if class >= 0 && class < len(out.Droppable) {
			out.Droppable[class] = true
		}
	}
	return out
}

func hopOf(address string, routes []way) (switches.NextHop, bool) {
	at, err := netip.ParseAddr(address)
	if err != nil || !at.Is4() {
		return switches.NextHop{}, false
	}
	n := slices.IndexFunc(routes, func(w way) bool { return w.network.Contains(at) })
	if n < 0 {
		return switches.NextHop{}, false
	}
	return routes[n].hop, true
}

// maxServiceMessage and maxWorkerName bound what stands in the status.
const (
	maxServiceMessage = 500
	maxWorkerName     = 128
)

// serviceStatus is what became of the guests.
func serviceStatus(guests []guest, state keeper.State) []v1alpha1.SwitchService {
	var out []v1alpha1.SwitchService
	for _, g := range guests {
		s := v1alpha1.SwitchService{Namespace: g.namespace, Name: g.name, Address: message.Bounded(g.address, 15), Workers: int32(g.workers), Reason: g.reason, Message: message.Bounded(g.message, maxServiceMessage)}
		is := state.Services[g.key()]
		s.ConfigHash = is.Version
		if is.Refused != "" {
			s.Reason, s.Message = v1alpha1.ReasonCapacityExceeded, message.Bounded(is.Refused, maxServiceMessage)
		}
		for _, name := range g.unreachable[:min(len(g.unreachable), v1alpha1.MaxSwitchUnreachable)] {
			s.UnreachableWorkers = append(s.UnreachableWorkers, message.Bounded(name, maxWorkerName))
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b v1alpha1.SwitchService) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return out
}
