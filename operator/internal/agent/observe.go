// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/devices"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/share"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/desired"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// observed is what the NodeDataplane should say.
type observed struct {
	uid    string // of the Node
	status v1alpha1.NodeDataplaneStatus
	// outside are VIPs announced here that no host of the wire may look for.
	outside []outsideVIP
	// relayed: some VIP has servers on nodes without agent.
	relayed bool
	// services are those whose VIPs clients of this node may dial.
	services map[redirect.VIPKey]serviceRef
}

// observe writes down what is in place. Entries that could not be written are
// left out: what stands in the status is acknowledged.
func (a *agent) observe(seen snapshot, mine share.Share, state desired.State, result desired.Result) observed {
	st := v1alpha1.NodeDataplaneStatus{
		AgentVersion: a.options.Version, LayoutVersion: programs.LayoutVersion, OwnedVIPs: int32(len(a.keeper.Owned())),
	}
	alive := map[string]bool{a.options.Node: true}
	for _, name := range a.keeper.Alive() {
		alive[name] = true
	}
	st.VIPs = vipStatuses(mine, result, a.loads.Silence(), alive)
	st.Devices = nodeDevices(state.Devices, a.uplink.Index, a.applier.Balancer, result)
	st.Peers = peerStatuses(seen.nodes, a.options.Node, alive)
	st.Conditions = conditions(a.uplink.Name, result, missing(a.uplink.Name, needs(seen.plan, a.options.Node), a.has(), sysctl))
	return observed{seen.uid, st, a.outside(seen), relayed(seen.plan, alive), references(seen)}
}

// vipStatuses are those of the entries that were written, with the reason why one is
// balanced by less than was asked for.
func vipStatuses(mine share.Share, result desired.Result, silence map[netip.AddrPort]loads.Silent, alive map[string]bool) []v1alpha1.NodeVIP {
	var out []v1alpha1.NodeVIP
	for i, v := range mine.Status {
		key := mine.VIPs[i].VIPKey
		if _, failed := result.VIPs[key]; failed || len(out) == v1alpha1.MaxNodeVIPs {
			continue
		}
		if s, silent := silence[netip.AddrPortFrom(key.Addr, key.Port)]; silent && v.FallBack == "" {
			v.FallBack = withoutLoads(s, alive)
		}
		v.FallBack = short(v.FallBack)
		out = append(out, v)
	}
	return out
}

// peerStatuses are the other nodes with an agent, in order of their names.
func peerStatuses(nodes map[string]netip.Addr, self string, alive map[string]bool) []v1alpha1.NodePeer {
	var out []v1alpha1.NodePeer
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if name == self || len(out) == v1alpha1.MaxNodePeers {
			continue
		}
		p := v1alpha1.NodePeer{Node: name, State: v1alpha1.PeerSilent}
		if alive[name] {
			p.State = v1alpha1.PeerAlive
		}
		out = append(out, p)
	}
	return out
}

// nodeDevices: the uplink comes first, then those that failed.
func nodeDevices(all []desired.Device, uplink int, balancer func(index int) (redirect.Attachment, bool), result desired.Result) []v1alpha1.NodeDevice {
	var out []v1alpha1.NodeDevice
	for _, d := range all {
		n := v1alpha1.NodeDevice{Name: d.Name, Placement: v1alpha1.PlacementPod, Mode: v1alpha1.DeviceModeNone}
		if d.Index == uplink {
			n.Placement = v1alpha1.PlacementUplink
			if b, on := balancer(d.Index); on {
				n.Mode, n.Reason = mode(b.XDP), b.XDPReason
			}
		}
		if err := result.Devices[d.Name]; err != nil {
			n.Reason = err.Error()
		}
		n.Reason = short(n.Reason)
		out = append(out, n)
	}
	rank := func(n v1alpha1.NodeDevice) int {
		switch {
		case n.Placement == v1alpha1.PlacementUplink:
			return 0
		case n.Reason != "":
			return 1
		}
		return 2
	}
	slices.SortStableFunc(out, func(x, y v1alpha1.NodeDevice) int { return cmp.Compare(rank(x), rank(y)) })
	return out[:min(len(out), v1alpha1.MaxNodeDevices)]
}

func mode(x redirect.XDPMode) v1alpha1.DeviceMode {
	switch x {
	case redirect.XDPNative:
		return v1alpha1.DeviceModeNative
	case redirect.XDPGeneric:
		return v1alpha1.DeviceModeGeneric
	}
	return v1alpha1.DeviceModeTC
}

// families says something of each.
type families struct{ four, six bool }

// needs are the families of which a node may have to balance an address: one of the
// pool, or its own.
func needs(p crabplan.Plan, node string) families {
	one := func(is func(netip.Addr) bool) bool {
		return slices.ContainsFunc(p.VIPs, func(v crabplan.VIP) bool {
			return is(v.Addr) && (v.Kind == crabplan.LoadBalancer || v.Node == node)
		})
	}
	return families{four: one(netip.Addr.Is4), six: one(netip.Addr.Is6)}
}

// has are the families by which the uplink leads anywhere.
func (a *agent) has() families {
	return families{four: devices.Has(a.uplink.Index, false), six: devices.Has(a.uplink.Index, true)}
}

// missing names what the node lacks for balancing; empty when it is all there. A node
// without IPv4 is asked for none of it, unless it has to balance it all the same.
func missing(uplink string, need, has families, read func(path string) string) string {
	if need.four || has.four {
		if why := missingFour(uplink, read); why != "" {
			return why
		}
	}
	switch {
	case !need.six:
	case !has.six:
		return fmt.Sprintf("the uplink %s has no IPv6 address but at most a link-local one, and Services with an IPv6 address need more: this node neither reaches nor announces them", uplink)
	case read("/proc/sys/net/ipv6/conf/"+uplink+"/forwarding") == "0":
		return fmt.Sprintf("net.ipv6.conf.%s.forwarding is 0: this node forwards no IPv6, so it cannot balance it; set net.ipv6.conf.all.forwarding=1, and accept_ra=2 if its routes come from router advertisements", uplink)
	}
	return ""
}

func missingFour(uplink string, read func(path string) string) string {
	const conf = "/proc/sys/net/ipv4/conf/"
	if read("/proc/sys/net/ipv4/ip_forward") == "0" {
		return "net.ipv4.ip_forward is 0: this node forwards nothing, so it cannot balance; set it to 1"
	}
	all, own := read(conf+"all/rp_filter"), read(conf+uplink+"/rp_filter")
	if own != "2" && all != "2" && (own == "1" || all == "1") {
		return fmt.Sprintf("net.ipv4.conf.%s.rp_filter is 1: a SYN that comes back from a balancer to a server on its client's own node is dropped; set 2", uplink)
	}
	return ""
}

// sysctl reads a setting of the kernel; empty when it is not to be had.
func sysctl(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// conditions are Programmed and Ready.
func conditions(uplink string, result desired.Result, missing string) []metav1.Condition {
	programmed := condition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, "the node's maps hold its share of the plan")
	if len(result.VIPs) > 0 || result.Other != nil {
		r := desired.Result{VIPs: result.VIPs, Other: result.Other}
		programmed = condition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonApplyFailed, r.Err().Error())
	}
	ready := condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "all programs are where they must be")
	switch {
	case result.Devices[uplink] != nil:
		ready = condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAttachFailed, fmt.Sprintf("device %s: %v", uplink, result.Devices[uplink]))
	case missing != "":
		ready = condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPrerequisiteMissing, missing)
	case programmed.Status != metav1.ConditionTrue:
		ready = condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotProgrammed, programmed.Message)
	case len(result.Devices) > 0:
		ready = condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAttachFailed, result.Err().Error())
	}
	return []metav1.Condition{programmed, ready}
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: short(message)}
}

// short bounds a text for people.
func short(s string) string {
	if r := []rune(s); len(r) > v1alpha1.MaxNodeMessage {
		return string(r[:v1alpha1.MaxNodeMessage-1]) + "…"
	}
	return s
}
