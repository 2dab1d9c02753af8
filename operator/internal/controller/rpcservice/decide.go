// SPDX-License-Identifier: Apache-2.0

// Decisions: from a snapshot to verdicts, by pure functions. Nothing here reads
// or writes anything, so every case is a row of a table in the tests.
package rpcservice

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// Bounds of one configuration document.
const (
	maxWorkers = 1024
	maxRouters = 16
)

// verdict is the answer for one condition.
type verdict struct {
	ok      bool
	reason  string
	message string
}

// decideAccepted says whether the specification can be acted on.
func decideAccepted(s *snapshot) verdict {
	if len(s.conflicts) > 0 {
		slices.Sort(s.conflicts)
		return verdict{reason: v1alpha1.ReasonNameConflict, message: fmt.Sprintf(
			"%s: exists and does not belong to this RpcService; delete or rename it, or choose another name for the service",
			strings.Join(s.conflicts, ", "))}
	}
	return verdict{ok: true, reason: v1alpha1.ReasonAccepted, message: "the specification is valid"}
}

// desired is the configuration that should be running.
type desired struct {
	// text and hash are the document; hash is empty when there is none.
	text []byte
	hash string
	// sameGeneration are hashes of documents that were made from the same
	// generation and differ only in pods or keys. A peer that still runs one
	// of them runs this specification.
	sameGeneration []string
}

// runs says whether a dataplane runs the specification's generation.
func (d desired) runs(applied string) bool {
	return applied != "" && (applied == d.hash || slices.Contains(d.sameGeneration, applied))
}

// decideProgrammed says whether every live router and server has acknowledged.
func decideProgrammed(s *snapshot, d desired) verdict {
	var waiting, unreachable []string
	counts := map[string][2]int{} // component → acknowledged, live
	for component, pods := range map[string][]*corev1.Pod{"server": s.servers, "router": s.routers} {
		for _, p := range pods {
			if !live(p) {
				continue
			}
			n := counts[component]
			n[1]++
			a := s.states[p.Name]
			switch {
			case a.state == nil:
				unreachable = append(unreachable, p.Name)
			case refused(a.state, d.hash):
				e := a.state.LastError
				return verdict{reason: v1alpha1.ReasonRejected, message: fmt.Sprintf(
					"%s refused the configuration: %s: %s; the previous one keeps serving", p.Name, e.Field, e.Message)}
			case d.runs(a.state.AppliedHash):
				n[0]++
			default:
				waiting = append(waiting, p.Name)
			}
			counts[component] = n
		}
	}
	return summarize(s, counts, waiting, unreachable)
}

func refused(state *dataplane.SidecarState, hash string) bool {
	return state.LastError != nil && state.LastError.Hash == hash && state.AppliedHash != hash
}

// summarize turns counts into the verdict of Programmed.
func summarize(s *snapshot, counts map[string][2]int, waiting, unreachable []string) verdict {
	servers, routers := counts["server"], counts["router"]
	tally := fmt.Sprintf("%d of %d routers and %d of %d servers acknowledged generation %d",
		routers[0], routers[1], servers[0], servers[1], s.service.Generation)
	switch {
	case len(waiting) > 0:
		return verdict{reason: v1alpha1.ReasonReconciling, message: tally + "; waiting for " + list(waiting)}
	case len(unreachable) > 0:
		return verdict{reason: v1alpha1.ReasonUnreachable, message: tally + "; no answer from the sidecar of " + list(unreachable)}
	case servers[1] == 0 && render.Replicas(s.service) > 0:
		return verdict{reason: v1alpha1.ReasonNoPods, message: "no server pod is running yet"}
	case routers[1] == 0 && render.HasRouter(s.service):
		return verdict{reason: v1alpha1.ReasonNoPods, message: "no router pod is running yet"}
	}
	return verdict{ok: true, reason: v1alpha1.ReasonProgrammed, message: tally}
}

// list names the first few pods, in order, so that messages stay short and do
// not change without cause.
func list(names []string) string {
	slices.Sort(names)
	if len(names) > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:5], ", "), len(names)-5)
	}
	return strings.Join(names, ", ")
}

// decideReady is the summary condition.
func decideReady(s *snapshot, accepted, programmed verdict) verdict {
	want := render.Replicas(s.service)
	readyWorkers, wantWorkers := countReadyWorkers(s), int(want*s.service.Spec.WorkersPerReplica)
	serving := fmt.Sprintf("%d of %d workers and %d routers ready", readyWorkers, wantWorkers, countReady(s.routers))
	if render.TCP(s.service) {
		serving = fmt.Sprintf("%d of %d servers ready", readyWorkers, wantWorkers)
	}
	switch {
	case !accepted.ok:
		return verdict{reason: v1alpha1.ReasonNotAccepted, message: "the last accepted configuration keeps serving: " + serving}
	case want == 0:
		return verdict{reason: v1alpha1.ReasonScaledToZero, message: "`spec.replicas` is 0"}
	case readyWorkers < wantWorkers:
		return verdict{reason: v1alpha1.ReasonWorkersNotReady, message: because(serving, s.serverDeployment, s.servers)}
	case render.HasRouter(s.service) && countReady(s.routers) < int(s.service.Spec.Router.Replicas):
		return verdict{reason: v1alpha1.ReasonRoutersNotReady, message: because(serving, s.routerDeployment, s.routers)}
	case s.rollingOut != "":
		return verdict{reason: v1alpha1.ReasonRollingOut, message: serving + "; " + s.rollingOut}
	case !programmed.ok:
		return verdict{reason: v1alpha1.ReasonNotProgrammed, message: serving + "; " + programmed.message}
	}
	return verdict{ok: true, reason: v1alpha1.ReasonReady, message: serving}
}

func countReady(pods []*corev1.Pod) int {
	n := 0
	for _, p := range pods {
		if ready(p) {
			n++
		}
	}
	return n
}

func countReadyWorkers(s *snapshot) int {
	n := 0
	for _, p := range s.servers {
		if ready(p) {
			n += render.Workers(p)
		}
	}
	return n
}

// decideJoined says for every live server pod whether it counts as joined.
//
// A pod becomes joined when every ready router has all its workers. It stops
// being joined only when no router that answers has them any more: a router
// that has just started has heard of nobody yet and must not take the whole
// service out of rotation.
func decideJoined(s *snapshot, d desired) map[string]verdict {
	out := map[string]verdict{}
	for _, p := range s.servers {
		if !live(p) {
			continue
		}
		if !render.HasRouter(s.service) {
			out[p.Name] = joinedWithoutRouter(s, d, p)
			continue
		}
		out[p.Name] = joinedAtRouters(s, p)
	}
	return out
}

// joinedAtRouters counts ready routers alone: one that is starting neither
// helps nor hinders.
func joinedAtRouters(s *snapshot, p *corev1.Pod) verdict {
	need, answered, have := 0, 0, 0
	for _, r := range s.routers {
		if !live(r) || !ready(r) {
			continue
		}
		need++
		a := s.states[r.Name]
		if a.state == nil || a.state.Dataplane == nil {
			continue
		}
		answered++
		if hasAllWorkers(a.state.Dataplane, p) {
			have++
		}
	}
	was := conditionStatus(p, v1alpha1.PodConditionJoined) == corev1.ConditionTrue
	message := fmt.Sprintf("%d of %d routers have all workers of the pod", have, need)
	if need > 0 && have == need || was && (have > 0 || answered == 0) {
		return verdict{ok: true, reason: v1alpha1.ReasonJoined, message: message}
	}
	return verdict{reason: v1alpha1.ReasonWaitingForJoin, message: message}
}

func joinedWithoutRouter(s *snapshot, d desired, p *corev1.Pod) verdict {
	a := s.states[p.Name]
	was := conditionStatus(p, v1alpha1.PodConditionJoined) == corev1.ConditionTrue
	if a.state == nil && was || a.state != nil && (d.runs(a.state.AppliedHash) || was && a.state.AppliedHash != "") {
		return verdict{ok: true, reason: v1alpha1.ReasonJoined, message: "the pod runs its configuration"}
	}
	return verdict{reason: v1alpha1.ReasonWaitingForJoin, message: "the pod has not acknowledged its configuration yet"}
}
