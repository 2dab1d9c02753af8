// SPDX-License-Identifier: Apache-2.0

// The status, computed in one place from the snapshot and the outcome, and the
// conditions of pods.
package rpcservice

import (
	"context"
	"errors"
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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// outcome is what one reconciliation came to.
type outcome struct {
	accepted, programmed, ready verdict
	desired                     desired
	joined                      map[string]verdict // by server pod
}

// writeStatus fills in the status of the snapshot's service.
func writeStatus(s *snapshot, out *outcome) {
	service := s.service
	st := &service.Status
	if out.programmed.reason == "" {
		out.programmed = verdict{reason: v1alpha1.ReasonReconciling, message: "the configuration has not been written yet"}
	}
	out.ready = decideReady(s, out.accepted, out.programmed)
	st.ObservedGeneration = service.Generation
	for kind, v := range map[string]verdict{
		v1alpha1.ConditionAccepted: out.accepted, v1alpha1.ConditionProgrammed: out.programmed, v1alpha1.ConditionReady: out.ready,
	} {
		setCondition(&st.Conditions, kind, v, service.Generation, s.now)
	}
	slices.SortFunc(st.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })

	st.Replicas = countExisting(s.servers)
	st.Selector = labels.SelectorFromSet(render.Selector(service.Name, v1alpha1.ComponentServer)).String()
	st.ReadyWorkers = int32(countReadyWorkers(s)) // bounded by maxWorkers plus a rollout
	st.DesiredWorkers = render.Replicas(service) * service.Spec.WorkersPerReplica
	st.Workers = fmt.Sprintf("%d/%d", st.ReadyWorkers, st.DesiredWorkers)
	if render.TCP(service) {
		st.Addresses = frontAddresses(s)
	}
	st.Address = render.Address(service)
	st.Device = string(service.Spec.Device.Type)
	st.Policy, st.Forwarding = inEffect(service)
	st.Routers = routerStatus(s, out.desired)
	st.FastPath = fastPathStatus(s)
	st.Jitter = jitterStatus(s)
	if out.desired.hash != "" {
		st.ConfigHash = out.desired.hash
	}
}

// inEffect is who gets what, and with which address.
func inEffect(s *v1alpha1.RpcService) (policy, forwarding string) {
	switch none := string(v1alpha1.PlacementNone); {
	case render.TCP(s):
		return string(s.Spec.TCP.Policy), none
	case !render.HasRouter(s):
		return none, none
	}
	return string(s.Spec.Router.Policy), string(render.Forwarding(s))
}

func setCondition(conditions *[]metav1.Condition, kind string, v verdict, generation int64, now time.Time) {
	status := metav1.ConditionFalse
	if v.ok {
		status = metav1.ConditionTrue
	}
	const longest = 4096 // well below the API server's 32768
	if len(v.message) > longest {
		v.message = v.message[:longest]
	}
	old := meta.FindStatusCondition(*conditions, kind)
	c := metav1.Condition{
		Type: kind, Status: status, Reason: v.reason, Message: v.message, ObservedGeneration: generation,
		LastTransitionTime: metav1.NewTime(now),
	}
	if old != nil && old.Status == status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	meta.SetStatusCondition(conditions, c)
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
		if p.Status.PodIP == "" || finished(p) || len(out) == 64 {
			continue
		}
		out = append(out, v1alpha1.RouterStatus{
			Name: p.Name, Address: net.JoinHostPort(p.Status.PodIP, strconv.Itoa(render.RequestPort)), State: routerState(s, d, p),
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
	case running(p) && a.state == nil:
		return v1alpha1.RouterUnreachable
	case ready(p) && a.state != nil && d.runs(a.state.AppliedHash):
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
		r.Events.Eventf(after, nil, corev1.EventTypeNormal, string(h.Reason), "Hedging", "second copies are %s: %s", h.Mode, h.Message)
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
	return c.Type == v1alpha1.ConditionAccepted || c.Type == v1alpha1.ConditionProgrammed && !passes[c.Reason]
}

// passes are reasons for not being programmed that pass by themselves. All others
// are somebody's to mend: a dataplane or CRAB refuses, or is not there.
var passes = map[string]bool{
	v1alpha1.ReasonReconciling: true, v1alpha1.ReasonUnreachable: true, v1alpha1.ReasonNoPods: true, v1alpha1.ReasonNotAccepted: true,
}

// patchJoined writes the readiness gate of server pods where it has changed.
// Each condition is an entry of its own in a server-side apply, so the kubelet's
// conditions are not touched.
func (r *Reconciler) patchJoined(ctx context.Context, s *snapshot, joined map[string]verdict) error {
	var failed error
	for _, p := range s.servers {
		v, ok := joined[p.Name]
		if !ok || sameJoined(p, v) {
			continue
		}
		u := joinedPatch(p, v, s.now)
		err := r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(fieldManager), client.ForceOwnership)
		if client.IgnoreNotFound(err) != nil {
			failed = errors.Join(failed, fmt.Errorf("set %s of pod %s: %w", v1alpha1.PodConditionJoined, p.Name, err))
		}
	}
	return failed
}

func sameJoined(p *corev1.Pod, v verdict) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.PodConditionJoined {
			return (c.Status == corev1.ConditionTrue) == v.ok && c.Reason == v.reason && c.Message == v.message
		}
	}
	return false
}

func joinedPatch(p *corev1.Pod, v verdict, now time.Time) *unstructured.Unstructured {
	status := string(corev1.ConditionFalse)
	if v.ok {
		status = string(corev1.ConditionTrue)
	}
	since := now
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.PodConditionJoined && string(c.Status) == status {
			since = c.LastTransitionTime.Time
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": p.Name, "namespace": p.Namespace, "uid": string(p.UID)},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": v1alpha1.PodConditionJoined, "status": status, "reason": v.reason, "message": v.message,
			"lastTransitionTime": since.UTC().Format(time.RFC3339),
		}}},
	}}
}

func join(hashes []string) string { return strings.Join(hashes, ",") }
