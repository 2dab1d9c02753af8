// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Validate checks every bound. The error is a *FieldError naming the first
// field at fault in document order.
func (d *Document) Validate() error {
	if d.APIVersion != APIVersion {
		return invalid("apiVersion", "must be %q; got %q", APIVersion, d.APIVersion)
	}
	checks := []func() *FieldError{
		func() *FieldError { return validateSources(d.Sources) },
		func() *FieldError { return d.Service.validate() },
		func() *FieldError { return validateMembers(d.Members) },
		func() *FieldError { return validateRouters(d.Routers) },
		func() *FieldError { return validateKeyIDs(d.KeyIDs) },
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func validateSources(sources []Source) *FieldError {
	if len(sources) > MaxSources {
		return invalid("sources", "must have at most %d entries; got %d", MaxSources, len(sources))
	}
	for i, s := range sources {
		at := fmt.Sprintf("sources[%d]", i)
		if err := first(
			nonEmpty(at+".kind", s.Kind),
			nonEmpty(at+".namespace", s.Namespace),
			nonEmpty(at+".name", s.Name),
			bounded(at+".uid", s.UID),
		); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) validate() *FieldError {
	return first(
		nonEmpty("service.name", s.Name),
		nonEmpty("service.namespace", s.Namespace),
		oneOf("service.placement", s.Placement, Placements),
		oneOf("service.policy", s.Policy, Policies),
		within("service.workerQueueDepth", s.WorkerQueueDepth, 1, MaxWorkerQueueDepth),
		within("service.centralQueueLimit", s.CentralQueueLimit, 1, MaxCentralQueueLimit),
		within("service.maxQueueMilliseconds", s.MaxQueueMilliseconds, 1, MaxQueueMilliseconds),
		oneOf("service.forwarding", s.Forwarding, Forwardings),
		oneOf("service.deviceProfile", s.DeviceProfile, DeviceProfiles),
		oneOf("service.legacyPeers", s.LegacyPeers, LegacyPeers),
		within("service.requestTimeoutMilliseconds", s.RequestTimeoutMilliseconds, 1, MaxTimeoutMilliseconds),
		within("service.workersPerReplica", s.WorkersPerReplica, 1, MaxWorkersPerReplica),
		within("service.holdBack.packets", s.HoldBack.Packets, 0, MaxHoldBackPackets),
		within("service.holdBack.microseconds", s.HoldBack.Microseconds, 0, MaxHoldBackMicroseconds),
		s.Admission.validate(),
		s.Hedging.validate(s.Policy),
		s.FlowControl.validate(),
		s.Scheduling.validate(),
	)
}

func (c *Scheduling) validate() *FieldError {
	if c == nil {
		return nil
	}
	if err := first(
		oneOf("service.scheduling.mode", c.Mode, SchedulingModes),
		within("service.scheduling.batchSize", c.BatchSize, 1, MaxBatchSize),
		within("service.scheduling.minCores", c.MinCores, 1, MaxCores),
		within("service.scheduling.maxCores", c.MaxCores, 1, MaxCores),
		oneOf("service.scheduling.ordering", c.Ordering, Orderings),
	); err != nil {
		return err
	}
	if c.MinCores > c.MaxCores {
		return invalid("service.scheduling.minCores", "must be at most maxCores, %d; got %d", c.MaxCores, c.MinCores)
	}
	return nil
}

func (f *FlowControl) validate() *FieldError {
	if f == nil {
		return nil
	}
	return first(
		within("service.flowControl.waitMicroseconds", f.WaitMicroseconds, 1, MaxWaitMicroseconds),
		within("service.flowControl.percentilePer100000", f.PercentilePer100000, MinAdmissionPercentile, MaxAdmissionPercentile),
		oneOf("service.flowControl.model", f.Model, FlowControlModels),
	)
}

func (h *Hedging) validate(policy string) *FieldError {
	if h == nil {
		return nil
	}
	if err := first(
		oneOf("service.hedging.mode", h.Mode, HedgingModes),
		within("service.hedging.busyPercent", h.BusyPercent, 1, 100),
		within("service.hedging.budgetPercent", h.BudgetPercent, 1, 100),
		within("service.hedging.percentilePer100000", h.PercentilePer100000, MinAdmissionPercentile, MaxAdmissionPercentile),
		within("service.hedging.probePerMillion", h.ProbePerMillion, 0, MaxProbePerMillion),
	); err != nil {
		return err
	}
	if h.Cancellation != "" {
		if err := oneOf("service.hedging.cancellation", h.Cancellation, Cancellations); err != nil {
			return err
		}
	}
	if policy != "JBSQ" {
		return invalid("service.hedging.mode", "needs policy JBSQ; got %q", policy)
	}
	return nil
}

func (a *Admission) validate() *FieldError {
	if a == nil {
		return nil
	}
	if err := first(
		oneOf("service.admission.mode", a.Mode, AdmissionModes),
		oneOf("service.admission.controller", a.Controller, Controllers),
		within("service.admission.latencyMicroseconds", a.LatencyMicroseconds, 1, MaxAdmissionMicros),
		within("service.admission.percentilePer100000", a.PercentilePer100000, MinAdmissionPercentile, MaxAdmissionPercentile),
	); err != nil {
		return err
	}
	for i, class := range a.DroppableClasses {
		at := fmt.Sprintf("service.admission.droppableClasses[%d]", i)
		if err := within(at, class, 0, MaxClass); err != nil {
			return err
		}
		if slices.Index(a.DroppableClasses, class) < i {
			return invalid(at, "class %d occurs twice; keep one", class)
		}
	}
	return nil
}

func validateMembers(members []Member) *FieldError {
	var ports claims
	total := 0
	for i, m := range members {
		at := fmt.Sprintf("members[%d]", i)
		ip, bad := address(at+".address", m.Address)
		if err := first(bad,
			within(at+".firstPort", m.FirstPort, 1, 65535),
			within(at+".workers", m.Workers, 1, MaxWorkersPerReplica),
		); err != nil {
			return err
		}
		if m.FirstPort+m.Workers-1 > 65535 {
			return invalid(at+".workers", "ports %d..%d pass 65535; lower firstPort or workers", m.FirstPort, m.FirstPort+m.Workers-1)
		}
		if err := nonEmpty(at+".name", m.Name); err != nil {
			return err
		}
		if total += m.Workers; total > MaxWorkers {
			return invalid("members", "must have at most %d workers in all; got %d", MaxWorkers, total)
		}
		for p := m.FirstPort; p < m.FirstPort+m.Workers; p++ {
			ports.take(ip, p, i)
		}
	}
	return ports.clash("members", "is already a worker of")
}

// claims are the UDP ports given away so far, by list index of their owner.
type claims struct {
	taken   map[netip.AddrPort]int
	clashes []clash
}

type clash struct {
	port        netip.AddrPort
	late, first int
}

func (c *claims) take(ip netip.Addr, port, owner int) {
	if c.taken == nil {
		c.taken = map[netip.AddrPort]int{}
	}
	key := netip.AddrPortFrom(ip, uint16(port))
	if other, dup := c.taken[key]; dup {
		c.clashes = append(c.clashes, clash{key, owner, other})
		return
	}
	c.taken[key] = owner
}

// clash reports the first entry that wants a port somebody before it has.
func (c *claims) clash(list, what string) *FieldError {
	if len(c.clashes) == 0 {
		return nil
	}
	f := c.clashes[0]
	return invalid(fmt.Sprintf("%s[%d]", list, f.late), "port %s %s %s[%d]", f.port, what, list, f.first)
}

func validateRouters(routers []Router) *FieldError {
	if len(routers) > MaxRouters {
		return invalid("routers", "must have at most %d entries; got %d", MaxRouters, len(routers))
	}
	var ports claims
	for i, r := range routers {
		at := fmt.Sprintf("routers[%d]", i)
		ip, bad := address(at+".address", r.Address)
		if err := first(bad,
			within(at+".requestPort", r.RequestPort, 1, 65535),
			within(at+".feedbackPort", r.FeedbackPort, 1, 65535),
			nonEmpty(at+".name", r.Name),
		); err != nil {
			return err
		}
		if r.RequestPort == r.FeedbackPort {
			return invalid(at+".feedbackPort", "must differ from requestPort; both are %d", r.RequestPort)
		}
		ports.take(ip, r.RequestPort, i)
		ports.take(ip, r.FeedbackPort, i)
	}
	return ports.clash("routers", "already belongs to")
}

func validateKeyIDs(ids []int) *FieldError {
	if len(ids) > MaxKeyIDs {
		return invalid("keyIds", "must have at most %d entries; got %d", MaxKeyIDs, len(ids))
	}
	for i, id := range ids {
		at := fmt.Sprintf("keyIds[%d]", i)
		if err := within(at, id, 1, 255); err != nil {
			return err
		}
		if slices.Index(ids, id) < i {
			return invalid(at, "key %d occurs twice; keep one", id)
		}
	}
	return nil
}

func first(errs ...*FieldError) *FieldError {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}

func within(field string, v, low, high int) *FieldError {
	if v < low || v > high {
		return invalid(field, "must be %d..%d; got %d", low, high, v)
	}
	return nil
}

func oneOf(field, v string, allowed []string) *FieldError {
	if !slices.Contains(allowed, v) {
		return invalid(field, "must be one of %s; got %q", strings.Join(allowed, ", "), v)
	}
	return nil
}

// maxText bounds every string; Kubernetes names end at 253.
const maxText = 253

func nonEmpty(field, v string) *FieldError {
	if v == "" {
		return invalid(field, "must not be empty")
	}
	return bounded(field, v)
}

func bounded(field, v string) *FieldError {
	if len(v) > maxText {
		return invalid(field, "must have at most %d bytes; got %d", maxText, len(v))
	}
	return nil
}

// address reads an IP address. IPv4-mapped IPv6 is the same machine as its
// IPv4 form, so both count as one when duplicates are looked for.
func address(field, v string) (netip.Addr, *FieldError) {
	ip, err := netip.ParseAddr(v)
	if err != nil || ip.Zone() != "" {
		return ip, invalid(field, "must be an IP address; got %q", v)
	}
	ip = ip.Unmap()
	reserved := ip.Is4() && ip.As4()[0] >= 240 // 240.0.0.0/4, broadcast among them
	if ip.IsUnspecified() || ip.IsMulticast() || reserved {
		return ip, invalid(field, "must be a unicast address; got %q", v)
	}
	return ip, nil
}
