// SPDX-License-Identifier: Apache-2.0

// What a pod's own status says, in the words the decisions use.
package rpcservice

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// running says that a pod has an address and its processes have been started.
func running(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && p.Status.PodIP != ""
}

// live says that a pod is running and meant to stay.
func live(p *corev1.Pod) bool { return running(p) && p.DeletionTimestamp == nil }

// finished says that no process of the pod will run again.
func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func ready(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && conditionStatus(p, corev1.PodReady) == corev1.ConditionTrue
}

func conditionStatus(p *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

func sortByAge(pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
}

// choosePeers picks the pods that the configuration names. Where a rollout has
// more pods for a moment than one router set handles, the youngest wait.
func choosePeers(s *snapshot, keyIDs []int) render.Peers {
	peers := render.Peers{KeyIDs: keyIDs}
	workers := 0
	for _, p := range s.servers {
		if p.DeletionTimestamp != nil || s.address(p) == "" || finished(p) {
			continue
		}
		n := render.Workers(p)
		if workers+n > maxWorkers {
			continue
		}
		workers += n
		peers.Servers = append(peers.Servers, p)
	}
	most := maxRouters
	if s.service.Status.Switch != nil || render.OnSwitch(s.service) {
		most-- // a switch is one, too
	}
	// Live routers first, then the draining ones: they lose nothing but the
	// comfort of an orderly end when there are too many.
	for _, draining := range []bool{false, true} {
		for _, p := range s.routers {
			if s.address(p) == "" || finished(p) || (p.DeletionTimestamp != nil) != draining || len(peers.Routers) == most {
				continue
			}
			peers.Routers = append(peers.Routers, p)
		}
	}
	return peers
}

// mostWorkers is the number of workers of the pod that has the most of them.
func mostWorkers(pods []*corev1.Pod) int32 {
	most := 0
	for _, p := range pods {
		if !finished(p) {
			most = max(most, render.Workers(p))
		}
	}
	return int32(most) // 64 at most
}

// hasAllWorkers says whether a router has heard from every worker of a pod.
func hasAllWorkers(router *dataplane.State, p *corev1.Pod, address string) bool {
	joined := map[int]bool{}
	for _, m := range router.Members {
		if m.Address == address && m.Joined {
			joined[m.Port] = true
		}
	}
	for i := range render.Workers(p) {
		if !joined[render.WorkerPort+i] {
			return false
		}
	}
	return true
}
