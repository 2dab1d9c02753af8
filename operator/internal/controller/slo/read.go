// SPDX-License-Identifier: Apache-2.0

// Read asks many sidecars, or agents, the same question at once.
package slo

import (
	"context"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// source is who is asked: the sidecar of a pod, or a node's agent.
type source struct {
	name     string
	required bool
	target   dataplane.Target
}

// reading is the answer of one source.
type reading[T any] struct {
	pod string // or node
	// required says that the picture is incomplete without it: the pod is in
	// rotation. A pod that is starting or draining adds what it has.
	required bool
	reply    T
	err      error
}

// reads bounds how many sidecars are read at a time.
const reads = 16

// running are the sidecars of the pods that run.
func running(target *v1alpha1.RpcService, pods []corev1.Pod) (out []source) {
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase == corev1.PodRunning && p.Status.PodIP != "" {
			out = append(out, source{p.Name, inRotation(p), dataplane.NewTarget(p.Status.PodIP, target.Name, target.Namespace)})
		}
	}
	return out
}

// readAll asks every source; the answers are sorted by name.
func readAll[T any](ctx context.Context, sources []source, ask func(context.Context, dataplane.Target) (T, error)) []reading[T] {
	var mu sync.Mutex
	var wait sync.WaitGroup
	var out []reading[T]
	slots := make(chan struct{}, reads)
	for _, s := range sources {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			reply, err := ask(ctx, s.target)
			mu.Lock()
			defer mu.Unlock()
			out = append(out, reading[T]{pod: s.name, required: s.required, reply: reply, err: err})
		})
	}
	wait.Wait()
	slices.SortFunc(out, func(a, b reading[T]) int { return strings.Compare(a.pod, b.pod) })
	return out
}

func inRotation(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// unread lists the pods whose answer is missing from the picture.
func unread[T any](all []reading[T]) (pods []string) {
	for _, r := range all {
		if r.required && r.err != nil {
			pods = append(pods, r.pod)
		}
	}
	return pods
}
