// SPDX-License-Identifier: Apache-2.0

// The status, computed in one place from the snapshot and the outcome, and the
// conditions of pods.
package rpcservice

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// withStatus is the service with the status it should have.
func withStatus(s *snapshot, p *plan, done *outcome, v verdicts) *v1alpha1.RpcService {
	service := s.service.DeepCopy()
	st := &service.Status
	st.Hedging = p.hedging
	st.ObservedGeneration = service.Generation
	verdict.SetAll(&st.Conditions, map[string]verdict.Verdict{
		v1alpha1.ConditionAccepted: v.accepted, v1alpha1.ConditionProgrammed: v.programmed, v1alpha1.ConditionReady: v.ready,
	}, service.Generation, s.now)
	for kind, about := range map[string]verdict.Verdict{v1alpha1.ConditionDeviceUsable: v.usable, v1alpha1.ConditionAddressed: v.addressed, v1alpha1.ConditionDeviceAsAsked: v.asAsked, v1alpha1.ConditionCoresAsAsked: v.cores} {
		if about.Reason == "" {
			meta.RemoveStatusCondition(&st.Conditions, kind)
			continue
		}
		verdict.Set(&st.Conditions, kind, about, service.Generation, s.now)
	}

	st.Replicas = countExisting(s.servers)
	st.Selector = labels.SelectorFromSet(render.Selector(service.Name, v1alpha1.ComponentServer)).String()
	st.ReadyWorkers = int32(countReadyWorkers(s)) // bounded by maxWorkers plus a rollout
	st.DesiredWorkers = render.Replicas(service) * service.Spec.Lanes()
	st.Workers = fmt.Sprintf("%d/%d", st.ReadyWorkers, st.DesiredWorkers)
	if p.overTCP {
		st.Addresses = frontAddresses(s)
	}
	st.Address = render.Address(service, st.Addresses)
	st.Device, st.Devices, st.DeviceChoice = string(p.device.device.Type), p.device.entries, p.device.choice
	st.PodDevices = podDevices(s)
	st.Policy, st.Forwarding = inEffect(service)
	st.Routers = routerStatus(s, done.document)
	st.Switch = p.onSwitch.status
	st.FastPath = fastPathStatus(s, p.fastPath)
	st.Jitter = jitterStatus(s)
	st.FlowControl = flowControlStatus(s)
	st.Scheduling = schedulingStatus(s, unfinishedResizes(s, done.resizeRefused))
	if done.document.hash != "" {
		st.ConfigHash = done.document.hash
	}
	return service
}

// inEffect is who gets what, and with which address.
func inEffect(s *v1alpha1.RpcService) (policy, forwarding string) {
	switch none := string(v1alpha1.PlacementNone); {
	case render.ByCRAB(s):
		return string(s.Spec.TCP.Policy), none
	case !render.HasRouter(s):
		return none, none
	}
	return string(s.Spec.Router.Policy), string(render.Forwarding(s))
}

func countExisting(pods []*corev1.Pod) int32 {
	var n int32
	for _, p := range pods {
		if p.DeletionTimestamp == nil && !finished(p) {
			n++
		}
	}
	return n
}

func routerStatus(s *snapshot, d desired) []v1alpha1.RouterStatus {
	var out []v1alpha1.RouterStatus
	for _, p := range s.routers {
		if s.address(p) == "" || finished(p) || len(out) == 64 {
			continue
		}
		out = append(out, v1alpha1.RouterStatus{
			Name: p.Name, Address: net.JoinHostPort(s.address(p), strconv.Itoa(render.RequestPort)), State: routerState(s, d, p),
		})
	}
	slices.SortFunc(out, func(a, b v1alpha1.RouterStatus) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func routerState(s *snapshot, d desired, p *corev1.Pod) v1alpha1.RouterState {
	a := s.states[p.Name]
	switch {
	case p.DeletionTimestamp != nil:
		return v1alpha1.RouterDraining
	case running(p) && a.Reply == nil:
		return v1alpha1.RouterUnreachable
	case ready(p) && a.Reply != nil && d.runs(a.Reply.AppliedHash):
		return v1alpha1.RouterReady
	}
	return v1alpha1.RouterStarting
}

// lastTransition is when a condition last changed its status, or when the
// specification did.
func lastTransition(s *v1alpha1.RpcService) time.Time {
	last := s.CreationTimestamp.Time
	for _, c := range s.Status.Conditions {
		if c.LastTransitionTime.After(last) {
			last = c.LastTransitionTime.Time
		}
	}
	return last
}

func sameStatus(a, b *v1alpha1.RpcService) bool {
	return equality.Semantic.DeepEqual(a.Status, b.Status)
}

// announce makes an event of every condition that changed its reason.
func (r *Reconciler) announce(before, after *v1alpha1.RpcService) {
	for _, c := range after.Status.Conditions {
		old := meta.FindStatusCondition(before.Status.Conditions, c.Type)
		if old != nil && old.Reason == c.Reason && old.Status == c.Status {
			continue
		}
		kind := corev1.EventTypeNormal
		if warns(c) {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(after, nil, kind, c.Reason, c.Type, "%s is %s: %s", c.Type, c.Status, c.Message)
	}
	if h, old := after.Status.Hedging, before.Status.Hedging; h != nil && h.DecidedTime != nil && (old == nil || h.Mode != old.Mode) {
		r.Events.Eventf(after, nil, corev1.EventTypeNormal, string(h.Reason), "Hedging", "hedged requests are %s: %s", h.Mode, h.Message)
	}
	r.announceFastPath(before, after)
}

// announceFastPath makes an event when requests begin or cease to be decided in
// the kernel. What is on its way is not worth one.
func (r *Reconciler) announceFastPath(before, after *v1alpha1.RpcService) {
	f, old := after.Status.FastPath, before.Status.FastPath
	if f == nil || (old != nil && f.State == old.State && f.Reason == old.Reason) ||
		f.Reason == v1alpha1.FastPathReasonRollingOut || f.Reason == v1alpha1.FastPathReasonNoAnswer {
		return
	}
	kind := corev1.EventTypeNormal
	if f.State != v1alpha1.FastPathActive {
		kind = corev1.EventTypeWarning
	}
	r.Events.Eventf(after, nil, kind, v1alpha1.EventFastPath, "FastPath", "%s (%s): %s", f.State, f.Reason, f.Message)
}

// warns says whether somebody has to do something about a condition.
func warns(c metav1.Condition) bool {
	switch {
	case c.Reason == v1alpha1.ReasonFallingBack:
		return true
	case c.Status != metav1.ConditionFalse:
		return false
	}
	return c.Type == v1alpha1.ConditionAccepted || c.Type == v1alpha1.ConditionDeviceUsable ||
		c.Reason == v1alpha1.ReasonServerIgnoresScheduling || c.Type == v1alpha1.ConditionCoresAsAsked && c.Status == metav1.ConditionFalse ||
		c.Type == v1alpha1.ConditionDeviceAsAsked && c.Status == metav1.ConditionFalse ||
		c.Type == v1alpha1.ConditionAddressed && c.Reason != v1alpha1.ReasonNetworkStatusMissing || c.Type == v1alpha1.ConditionProgrammed && !passes[c.Reason]
}

// passes are reasons for not being programmed that pass by themselves. All others
// are somebody's to mend: a dataplane or CRAB refuses, or is not there.
var passes = map[string]bool{
	v1alpha1.ReasonReconciling: true, v1alpha1.ReasonUnreachable: true, v1alpha1.ReasonNoPods: true, v1alpha1.ReasonNotAccepted: true,
}

func join(hashes []string) string { return strings.Join(hashes, ",") }
