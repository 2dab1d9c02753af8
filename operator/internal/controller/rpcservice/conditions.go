// SPDX-License-Identifier: Apache-2.0

// What the conditions of a service and of its pods say, once the plan has been
// carried out as far as it could. Pure, so every case is a row of a table in the tests.
package rpcservice

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// verdicts are the answers about a service, and about the joining of its servers.
type verdicts struct {
	accepted, programmed, ready verdict.Verdict
	usable, addressed, asAsked  verdict.Verdict            // with a device other than Kernel
	cores                       verdict.Verdict            // with scheduling
	joined                      map[string]verdict.Verdict // by server pod
}

// conclude judges what came of a plan.
func conclude(s *snapshot, p *plan, done *outcome) verdicts {
	v := verdicts{accepted: done.accepted}
	if p.overTCP {
		v.programmed = decideProgrammedTCP(s, render.TCPService(p.input))
	} else {
		v.programmed = unbalanced(s, programmedBySwitch(s, p.onSwitch, done.document, decideProgrammed(s, done.document)))
		v.joined = decideJoined(s, done.document)
	}
	if lost, none := decideKeysLost(s, p.keys); p.secrets && !none {
		v.programmed = lost
	}
	if refused := p.onSwitch.refused; refused.Reason != "" && v.accepted.OK() {
		// The pods have the whole configuration and stand by: that is not what was asked for.
		v.accepted, v.programmed = refused, verdict.No(v1alpha1.ReasonNotAccepted, serving(p.onSwitch))
	} else if !v.accepted.OK() {
		v.programmed = verdict.No(v1alpha1.ReasonNotAccepted, stillServing(s))
	}
	if p.device.usable.Reason != "" {
		v.usable, v.addressed = p.device.usable, decideAddressed(s)
		v.asAsked = decideAsAsked(s, p.device.device)
	}
	v.cores = decideCores(s)
	v.ready = readyAtSwitch(p.onSwitch, readyWithLanes(s, decideReady(s, v.accepted, v.programmed, rollingOut(s, p.objects, done.written))))
	return v
}

// stillServing says what goes on while a specification is not accepted.
func stillServing(s *snapshot) string {
	switch {
	case s.live.doc == nil && s.serverDeployment == nil:
		return "no specification has been accepted yet, so nothing serves"
	case render.ByCRAB(s.service):
		return "the last accepted specification keeps serving"
	}
	return "the last accepted configuration keeps serving"
}

// decideProgrammed says whether every live router and server has acknowledged.
func decideProgrammed(s *snapshot, d desired) verdict.Verdict {
	var waiting, unreachable, unread []string
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
			case a.Reply == nil:
				unreachable = append(unreachable, p.Name)
			case refused(a.Reply, d.hash):
				e := a.Reply.LastError
				return verdict.No(v1alpha1.ReasonRejected, fmt.Sprintf(
					"%s refused the configuration: %s: %s; the previous one keeps serving", p.Name, e.Field, e.Message))
			case blind(a.Reply) != "":
				unread = append(unread, p.Name+" ("+blind(a.Reply)+")")
			case d.runs(a.Reply.AppliedHash) && !lags(s, p, a.Reply.AppliedHash, d.hash):
				n[0]++
			default:
				waiting = append(waiting, p.Name)
			}
			counts[component] = n
		}
	}
	return summarize(s, counts, missing{waiting, unreachable, unread})
}

func refused(state *dataplane.SidecarState, hash string) bool {
	return state.LastError != nil && state.LastError.Hash == hash && state.AppliedHash != hash
}

// missing are peers that did not acknowledge, by what is known of them.
type missing struct{ waiting, unreachable, unread []string }

// summarize turns counts into the verdict of Programmed.
func summarize(s *snapshot, counts map[string][2]int, m missing) verdict.Verdict {
	servers, routers := counts["server"], counts["router"]
	tally := fmt.Sprintf("%d of %d routers and %d of %d servers acknowledged generation %d",
		routers[0], routers[1], servers[0], servers[1], s.service.Generation)
	switch {
	case len(m.unread) > 0:
		return verdict.No(v1alpha1.ReasonConfigUnreadable, tally+"; the sidecar cannot read its configuration, of "+list(m.unread))
	case len(m.waiting) > 0:
		return verdict.No(v1alpha1.ReasonReconciling, tally+"; waiting for "+list(m.waiting))
	case len(m.unreachable) > 0:
		return verdict.No(v1alpha1.ReasonUnreachable, tally+"; no answer from the sidecar of "+list(m.unreachable))
	case servers[1] == 0 && render.Replicas(s.service) > 0:
		return verdict.No(v1alpha1.ReasonNoPods, "no server pod is running yet")
	case routers[1] == 0 && render.HasRouter(s.service):
		return verdict.No(v1alpha1.ReasonNoPods, "no router pod is running yet")
	}
	return verdict.Yes(v1alpha1.ReasonProgrammed, tally)
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

// decideReady is the summary condition. rollingOut says which Deployment does not run
// the present specification yet.
func decideReady(s *snapshot, accepted, programmed verdict.Verdict, rollingOut string) verdict.Verdict {
	want := render.Replicas(s.service)
	readyWorkers, wantWorkers := countReadyWorkers(s), int(want*s.service.Spec.Lanes())
	serving := fmt.Sprintf("%d of %d workers and %d routers ready", readyWorkers, wantWorkers, countReady(s.routers))
	if render.TCP(s.service) {
		serving = fmt.Sprintf("%d of %d servers ready", readyWorkers, wantWorkers)
	}
	switch {
	case !accepted.OK():
		return verdict.No(v1alpha1.ReasonNotAccepted, stillServing(s)+": "+serving)
	case want == 0:
		return verdict.No(v1alpha1.ReasonScaledToZero, "`spec.replicas` is 0")
	case readyWorkers < wantWorkers:
		return verdict.No(v1alpha1.ReasonWorkersNotReady, because(serving, s.serverDeployment, s.servers))
	case render.HasRouter(s.service) && countReady(s.routers) < int(s.service.Spec.Router.Replicas):
		return verdict.No(v1alpha1.ReasonRoutersNotReady, because(serving, s.routerDeployment, s.routers))
	case rollingOut != "":
		return verdict.No(v1alpha1.ReasonRollingOut, serving+"; "+rollingOut)
	case !programmed.OK():
		return verdict.No(v1alpha1.ReasonNotProgrammed, serving+"; "+programmed.Message)
	}
	return verdict.Yes(v1alpha1.ReasonReady, serving)
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
func decideJoined(s *snapshot, d desired) map[string]verdict.Verdict {
	out := map[string]verdict.Verdict{}
	for _, p := range s.servers {
		if !live(p) {
			continue
		}
		if s.address(p) == "" {
			r := s.peers[p.Name].Refusal
			out[p.Name] = verdict.No(r.Reason, r.Message)
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
func joinedAtRouters(s *snapshot, p *corev1.Pod) verdict.Verdict {
	need, answered, have := 0, 0, 0
	for _, r := range s.routers {
		if !live(r) || !ready(r) {
			continue
		}
		need++
		a := s.states[r.Name]
		if a.Reply == nil || a.Reply.Dataplane == nil {
			continue
		}
		answered++
		if hasAllWorkers(a.Reply.Dataplane, p, s.address(p)) {
			have++
		}
	}
	was := conditionStatus(p, v1alpha1.PodConditionJoined) == corev1.ConditionTrue
	message := fmt.Sprintf("%d of %d routers have all workers of the pod", have, need)
	if need > 0 && have == need || was && (have > 0 || answered == 0) {
		return verdict.Yes(v1alpha1.ReasonJoined, message)
	}
	return verdict.No(v1alpha1.ReasonWaitingForJoin, message)
}

func joinedWithoutRouter(s *snapshot, d desired, p *corev1.Pod) verdict.Verdict {
	a := s.states[p.Name]
	was := conditionStatus(p, v1alpha1.PodConditionJoined) == corev1.ConditionTrue
	if a.Reply == nil && was || a.Reply != nil && (d.runs(a.Reply.AppliedHash) || was && a.Reply.AppliedHash != "") {
		return verdict.Yes(v1alpha1.ReasonJoined, "the pod runs its configuration")
	}
	return verdict.No(v1alpha1.ReasonWaitingForJoin, "the pod has not acknowledged its configuration yet")
}
