// SPDX-License-Identifier: Apache-2.0

// Package enforce decides which objective the routers of a service enforce, and
// translates it for them. Both controllers ask it, so that the configuration
// and the conditions cannot disagree. It reads and writes nothing.
package enforce

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// SourceKind marks the objective among the sources of a configuration.
const SourceKind = "ServiceLevelObjective"

// Wanted says whether an objective asks for enforcement.
func Wanted(slo *v1alpha1.ServiceLevelObjective) bool {
	mode := slo.Spec.Enforcement.Mode
	return slo.DeletionTimestamp == nil && mode != "" && mode != v1alpha1.EnforcementObserve
}

// Refusal says why an objective cannot be enforced on a service, as the reason
// and message of a condition; the reason is empty when it can.
func Refusal(service *v1alpha1.RpcService, slo *v1alpha1.ServiceLevelObjective) (reason, message string) {
	mode := slo.Spec.Enforcement.Mode
	timeout := int64(service.Spec.RequestTimeoutMilliseconds) * 1000
	switch {
	case service.Spec.Protocol == v1alpha1.ProtocolTCP:
		return v1alpha1.ReasonNothingEnforces, fmt.Sprintf(
			"`spec.enforcement.mode` %s needs a router, and `spec.protocol` of RpcService %s is TCP: its requests go straight to the servers, and nobody can reject one; set the mode to Observe", mode, service.Name)
	case service.Spec.Router.Placement == v1alpha1.PlacementNone:
		return v1alpha1.ReasonNothingEnforces, fmt.Sprintf(
			"`spec.enforcement.mode` %s needs a router, and `spec.router.placement` of RpcService %s is None; set the mode to Observe", mode, service.Name)
	case service.Spec.Router.Placement == v1alpha1.PlacementSwitch && mode == v1alpha1.EnforcementDegrade:
		return v1alpha1.ReasonNothingEnforces, fmt.Sprintf(
			"`spec.enforcement.mode` Degrade marks requests, and `spec.router.placement` of RpcService %s is Switch: the switch's program can only refuse them; set the mode to Reject", service.Name)
	case mode == v1alpha1.EnforcementDegrade && service.Spec.LegacyPeers == v1alpha1.LegacyPeersAllow:
		return v1alpha1.ReasonNothingEnforces, fmt.Sprintf(
			"`spec.enforcement.mode` Degrade marks requests in a header option, and `spec.legacyPeers` of RpcService %s allows servers that cannot read it; "+
				"set it to Deny, or the mode to Reject", service.Name)
	case int64(slo.Spec.LatencyMicroseconds) > timeout:
		return v1alpha1.ReasonObjectiveBeyondTimeout, "the objective lies above the request timeout"
	}
	return "", ""
}

// Choose returns the objective that is enforced on a service: the oldest of
// those that can be, by name among equally old ones; nil when there is none.
func Choose(service *v1alpha1.RpcService, all []v1alpha1.ServiceLevelObjective) *v1alpha1.ServiceLevelObjective {
	var chosen *v1alpha1.ServiceLevelObjective
	for i := range all {
		slo := &all[i]
		if slo.Namespace != service.Namespace || !slo.Spec.TargetRef.Names(v1alpha1.TargetService, service.Name) || !Wanted(slo) {
			continue
		}
		if reason, _ := Refusal(service, slo); reason != "" {
			continue
		}
		if chosen == nil || older(slo, chosen) {
			chosen = slo
		}
	}
	return chosen
}

func older(a, b *v1alpha1.ServiceLevelObjective) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return strings.Compare(a.Name, b.Name) < 0
}

// Admission is the objective as the dataplane's configuration says it; nil
// without one. The percentile is one the schema allows.
func Admission(slo *v1alpha1.ServiceLevelObjective) (*dataplane.Admission, error) {
	if slo == nil {
		return nil, nil
	}
	per, ok := PercentilePer100000(slo.Spec.Percentile)
	if !ok {
		return nil, fmt.Errorf("percentile %q of ServiceLevelObjective %s is no number", slo.Spec.Percentile, slo.Name)
	}
	controller := slo.Spec.Enforcement.Controller
	if controller == "" {
		controller = v1alpha1.ControllerTrack
	}
	return &dataplane.Admission{
		Mode: string(slo.Spec.Enforcement.Mode), Controller: string(controller),
		LatencyMicroseconds: int(slo.Spec.LatencyMicroseconds),
		PercentilePer100000: per,
		DroppableClasses:    droppable(slo.Spec.Enforcement.Classes),
	}, nil
}

// PercentilePer100000 is a percentile as configurations say it: 99000 of "99".
func PercentilePer100000(percentile string) (int, bool) {
	p, ok := new(big.Rat).SetString(percentile)
	if !ok {
		return 0, false
	}
	p.Mul(p, big.NewRat(1000, 1))
	return int(new(big.Int).Quo(p.Num(), p.Denom()).Int64()), true
}

// droppable lists the classes on the wire that may be refused.
func droppable(classes []v1alpha1.TrafficClass) []int {
	out := []int{}
	for i, policy := range v1alpha1.TrafficPolicies {
		allowed := policy != "Sticky" && policy != "ReplicatedWrite"
		at := slices.IndexFunc(classes, func(c v1alpha1.TrafficClass) bool { return c.Policy == policy })
		if at >= 0 {
			allowed = classes[at].Droppable == v1alpha1.DroppableAllow
		}
		if allowed {
			out = append(out, i)
		}
	}
	return out
}

// Source is how a configuration names the objective it enforces.
func Source(slo *v1alpha1.ServiceLevelObjective) dataplane.Source {
	return dataplane.Source{Kind: SourceKind, Namespace: slo.Namespace, Name: slo.Name, UID: string(slo.UID), Generation: slo.Generation}
}
