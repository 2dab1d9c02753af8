// SPDX-License-Identifier: Apache-2.0

// What somebody deletes comes back, but not as it was: a ServiceAccount that was made
// anew takes no token of the one before, and a key that was lost is lost. Here is
// decided which pods have to be replaced for it, and what they are waited for. Pure.
package rpcservice

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// watchPatience is how long a sidecar may fail to read its ConfigMap, or run an earlier
// document, before somebody is told: an API server that restarts takes less.
const watchPatience = 30 * time.Second

// renewals says, by component, for which ServiceAccount its pods are made anew. The
// rollout replaces them one by one, as any change of the template does.
func renewals(s *snapshot) map[string]string {
	out := map[string]string{}
	for component, of := range map[string]struct {
		deployment *appsv1.Deployment
		pods       []*corev1.Pod
	}{
		v1alpha1.ComponentServer: {s.serverDeployment, s.servers}, v1alpha1.ComponentRouter: {s.routerDeployment, s.routers},
	} {
		if ownAccount(s.service, component) {
			continue
		}
		if uid := renewalFor(s, of.deployment, of.pods); uid != "" {
			out[component] = uid
		}
	}
	return out
}

// ownAccount says that a component's template names an account of the user's, which
// somebody else looks after.
func ownAccount(service *v1alpha1.RpcService, component string) bool {
	t := service.Spec.Server.PodTemplate
	if component == v1alpha1.ComponentRouter {
		t = service.Spec.Router.PodTemplate
	}
	return t != nil && t.Spec.ServiceAccountName != ""
}

// renewalFor keeps what the template says until a pod needs another account's token:
// to take it away again would replace all pods for nothing.
func renewalFor(s *snapshot, d *appsv1.Deployment, pods []*corev1.Pod) string {
	said := ""
	if d != nil {
		said = d.Spec.Template.Annotations[render.AnnotationAccount]
	}
	if s.account == nil {
		return said // it is made now; its identity is known at the next look
	}
	uid := string(s.account.UID)
	for _, p := range pods {
		if p.DeletionTimestamp == nil && !finished(p) && p.Annotations[render.AnnotationAccount] != uid && tokenDead(s, p) {
			return uid
		}
	}
	return said
}

// tokenDead says that the API server does not take the token of a pod's sidecar: it is
// of an account before this one, or the API server has said so for a while. The kubelet
// does not renew a token before most of its life is over, so only a new pod gets one.
func tokenDead(s *snapshot, p *corev1.Pod) bool {
	if p.CreationTimestamp.Before(&s.account.CreationTimestamp) {
		return true
	}
	read := s.states[p.Name].Reply
	return read != nil && read.Watch.Failing() && read.Watch.Status == http.StatusUnauthorized && seconds(read.Watch.FailingSeconds) >= watchPatience
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// blind says why a sidecar hears of no change; empty: it does, or has for long enough
// not to be called blind. That the API server refuses it does not pass by itself.
func blind(state *dataplane.SidecarState) string {
	w := state.Watch
	if !w.Failing() {
		return ""
	}
	if w.Status != http.StatusUnauthorized && w.Status != http.StatusForbidden && seconds(w.FailingSeconds) < watchPatience {
		return ""
	}
	return w.Error
}

// lagging is since when each live peer has run another document than the ConfigMap's.
func lagging(s *snapshot) map[string]time.Time {
	out := map[string]time.Time{}
	for _, p := range slices.Concat(s.servers, s.routers) {
		read := s.states[p.Name].Reply
		if !live(p) || read == nil || s.live.hash == "" || read.AppliedHash == s.live.hash {
			continue
		}
		out[p.Name] = s.now
		if since, ok := s.lagged[p.Name]; ok {
			out[p.Name] = since
		}
	}
	return out
}

// lags says that a peer has run an earlier document of the generation for too long to
// be merely on its way.
func lags(s *snapshot, p *corev1.Pod, applied, hash string) bool {
	since, ok := s.lagged[p.Name]
	return applied != hash && ok && s.now.Sub(since) >= watchPatience
}

// runningKeys are those that peers go on with when their Secret is gone: what the
// ConfigMap names, and what the sidecars say where that is gone, too.
func runningKeys(s *snapshot) []int {
	ids := slices.Clone(s.live.keyIDs())
	for _, p := range slices.Concat(s.servers, s.routers) {
		if read := s.states[p.Name].Reply; live(p) && read != nil {
			ids = append(ids, read.KeyIDs...)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// keptAlive says that the lost keys still serve: both sides of the wire have pods that
// hold them. Pods made since the loss do not.
func keptAlive(s *snapshot, since time.Time) bool {
	holds := func(pods []*corev1.Pod) bool {
		return slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return live(p) && p.CreationTimestamp.Time.Before(since) })
	}
	return holds(s.servers) && (!render.HasRouter(s.service) || holds(s.routers))
}

// withoutHolders ends the wait for a new key where nobody is left to be waited for.
func withoutHolders(s *snapshot, k keyring) keyring {
	if k.stage == stageReplacing && !keptAlive(s, k.since) {
		k.stage, k.since = stageNone, s.now
	}
	return k
}

// decideKeysLost says what a lost key means while it is being replaced; ok: none is.
func decideKeysLost(s *snapshot, k keyring) (v verdict.Verdict, ok bool) {
	if k.stage != stageReplacing {
		return v, true
	}
	return verdict.No(v1alpha1.ReasonKeysLost, fmt.Sprintf(
		"the packet keys in Secret %s were lost; running pods go on with those they hold, pods that start wait for the new key until %s",
		render.KeysName(s.service), k.since.Add(distribution).UTC().Format(time.RFC3339))), false
}
