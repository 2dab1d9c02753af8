// SPDX-License-Identifier: Apache-2.0

// Cores of servers that schedule requests themselves: what they say, whether they have
// what was asked for, and whose CPU is changed in place. Pure.
package rpcservice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/message"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// lanesWithin is how long a server may run before it says what its cores do.
const lanesWithin = 30 * time.Second

// coresReport is what a server that was asked to schedule says; says nil: nothing yet.
type coresReport struct {
	pod  *corev1.Pod
	says *dataplane.SchedulingState
}

// coresReports are those of live pods that were made for the present mode and answer.
func coresReports(s *snapshot) []coresReport {
	c := s.service.Spec.Scheduling
	if c == nil {
		return nil
	}
	var out []coresReport
	for _, p := range s.servers {
		a := s.states[p.Name]
		if live(p) && p.Annotations[render.AnnotationScheduling] == string(c.Mode) && a.Reply != nil && a.Reply.Dataplane != nil {
			out = append(out, coresReport{pod: p, says: a.Reply.Dataplane.Scheduling})
		}
	}
	return out
}

// schedulingStatus sums up what servers say; nil: they say nothing, or nobody asked.
func schedulingStatus(s *snapshot, resizing []string) *v1alpha1.SchedulingStatus {
	out := &v1alpha1.SchedulingStatus{Resizing: message.Bounded(strings.Join(resizing, "; "), 1024)}
	var steals, parks, slow, longest uint64
	for _, r := range coresReports(s) {
		c := r.says
		if c == nil {
			continue
		}
		out.Replicas++
		out.ActiveCores += int32(c.ActiveCores) // #nosec G115 -- at most 64 a pod
		out.AllowedCores += int32(c.MaxCores)   // #nosec G115
		steals, parks, slow = steals+c.Steals, parks+c.Parks, slow+c.SlowHandlers
		longest = max(longest, c.LongestNanoseconds)
	}
	if out.Replicas == 0 && out.Resizing == "" {
		return nil
	}
	out.Steals, out.Parks, out.SlowHandlers = twoDigits(float64(steals)), twoDigits(float64(parks)), twoDigits(float64(slow))
	out.LongestHandlerMicroseconds = twoDigits(float64(longest) / 1000)
	return out
}

// readyWithLanes is the verdict of Ready once servers have said what their cores do.
func readyWithLanes(s *snapshot, ready verdict.Verdict) verdict.Verdict {
	if !ready.OK() {
		return ready
	}
	var silent, waiting []string
	for _, r := range coresReports(s) {
		switch since := runningSince(r.pod); {
		case r.says != nil:
		case !since.IsZero() && s.now.Sub(since) >= lanesWithin:
			silent = append(silent, r.pod.Name)
		default:
			waiting = append(waiting, r.pod.Name)
		}
	}
	switch {
	case len(silent) > 0:
		return verdict.Failed(v1alpha1.ReasonServerIgnoresScheduling, fmt.Sprintf(
			"%s; the program of %s does not say what its cores do: it knows nothing of `spec.scheduling` and serves as without it; run one that does, or leave the field out",
			ready.Message, list(silent)))
	case len(waiting) > 0:
		return verdict.No(v1alpha1.ReasonLanesNotReported, ready.Message+"; waiting for what the cores do of "+list(waiting))
	}
	return ready
}

// runningSince is when the server of a pod was started last; zero: it does not run.
func runningSince(p *corev1.Pod) time.Time {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == p.Spec.Containers[0].Name && c.State.Running != nil {
			return c.State.Running.StartedAt.Time
		}
	}
	return time.Time{}
}

// decideCores is the verdict of CoresAsAsked; none: nobody asked for cores.
func decideCores(s *snapshot) verdict.Verdict {
	c := s.service.Spec.Scheduling
	if c == nil {
		return verdict.Verdict{}
	}
	var refused []verdict.Verdict
	n := 0
	for _, r := range coresReports(s) {
		if r.says != nil {
			n++
			refused = append(refused, coresByThemselves(r, int(c.MaxCores), render.Exclusive(s.service)))
		}
	}
	if v, ok := verdict.Refusals(refused...); !ok {
		return v
	}
	if n == 0 {
		return verdict.Unknown(v1alpha1.ReasonNothingReported, "no running server has said yet how many processors it may use")
	}
	return verdict.Yes(v1alpha1.ReasonAsAsked, fmt.Sprintf("%d servers have the processors that `scheduling.maxCores` asks for", n))
}

// coresByThemselves says what of a pod's processors was not asked for; none: all was.
func coresByThemselves(r coresReport, want int, exclusive bool) verdict.Verdict {
	switch got := r.says.Processors; {
	case got == 0: // it cannot say
	case got < want:
		return verdict.No(v1alpha1.ReasonFewerProcessors, fmt.Sprintf(
			"pod %s may use %d processors and `scheduling.maxCores` is %d: it runs with what is there; lower it, or let the pod have more", r.pod.Name, got, want))
	case exclusive && got > want:
		return verdict.No(v1alpha1.ReasonCPUsShared, fmt.Sprintf(
			"pod %s has %d processors for itself and may run on %d; let the kubelet's CPU manager be static", r.pod.Name, want, got))
	}
	return verdict.Verdict{}
}

// resize is a pod whose CPU is to be changed in place.
type resize struct {
	pod   *corev1.Pod
	cores render.Cores
}

// decideResizes are the pods with another CPU than the specification wants.
func decideResizes(s *snapshot) []resize {
	cores, lends := render.LendsCores(s.service)
	var out []resize
	for _, p := range s.servers {
		if !lends || !live(p) || p.Annotations[render.AnnotationCores] == "" || p.Annotations[render.AnnotationScheduling] != string(s.service.Spec.Scheduling.Mode) {
			continue
		}
		has := p.Spec.Containers[0].Resources
		wants := render.WithCores(has, cores)
		if has.Requests.Cpu().Cmp(*wants.Requests.Cpu()) != 0 || has.Limits.Cpu().Cmp(*wants.Limits.Cpu()) != 0 {
			out = append(out, resize{pod: p, cores: cores})
		}
	}
	return out
}

// unfinishedResizes says of which pods the kubelet has not put the CPU into force, and
// why; refused is what the API server said against a change, by pod.
func unfinishedResizes(s *snapshot, refused map[string]string) []string {
	var out []string
	for _, p := range s.servers {
		if why := refused[p.Name]; why != "" {
			out = append(out, p.Name+": "+why)
			continue
		}
		for _, c := range p.Status.Conditions {
			if (c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress) && c.Status == corev1.ConditionTrue {
				out = append(out, fmt.Sprintf("%s: %s: %s", p.Name, cmp.Or(c.Reason, string(c.Type)), cmp.Or(c.Message, "the kubelet is at it")))
			}
		}
	}
	slices.Sort(out)
	return out
}
