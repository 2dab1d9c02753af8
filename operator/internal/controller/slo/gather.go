// SPDX-License-Identifier: Apache-2.0

// Gather reads the target of an objective and the histograms of everybody who
// measures for it.
package slo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// Sidecars reads what dataplanes have measured.
type Sidecars interface {
	Histogram(ctx context.Context, t dataplane.Target, name string, windowSeconds int) (*dataplane.HistogramReply, error)
}

// latency is the histogram an objective is about.
const latency = "latency"

// snapshot is the world as one reconciliation sees it.
type snapshot struct {
	slo    *v1alpha1.ServiceLevelObjective
	target *v1alpha1.RpcService // nil when it does not exist
	parts  []part
}

// part is what one router or server has measured.
type part struct {
	pod string
	// required says that the picture is incomplete without it: the pod is in
	// rotation. A pod that is starting or draining adds what it has.
	required bool
	reply    *dataplane.HistogramReply
	err      error
}

func (r *Reconciler) gather(ctx context.Context, slo *v1alpha1.ServiceLevelObjective) (*snapshot, error) {
	s := &snapshot{slo: slo}
	target := &v1alpha1.RpcService{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: slo.Namespace, Name: slo.Spec.TargetRef.Name}, target)
	if apierrors.IsNotFound(err) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the target RpcService %s: %w", slo.Spec.TargetRef.Name, err)
	}
	s.target = target
	pods := &corev1.PodList{}
	err = r.Client.List(ctx, pods, client.InNamespace(slo.Namespace), client.MatchingLabels{
		v1alpha1.LabelService: target.Name, v1alpha1.LabelComponent: measuringComponent(target),
	})
	if err != nil {
		return nil, fmt.Errorf("list the pods that measure for %s: %w", target.Name, err)
	}
	s.parts = r.read(ctx, slo, target, pods.Items)
	return s, nil
}

// measuringComponent is who sees every request: the routers, or, without any,
// the servers.
func measuringComponent(target *v1alpha1.RpcService) string {
	if target.Spec.Router.Placement == v1alpha1.PlacementNone {
		return v1alpha1.ComponentServer
	}
	return v1alpha1.ComponentRouter
}

// reads bounds how many sidecars are read at a time.
const reads = 16

func (r *Reconciler) read(ctx context.Context, slo *v1alpha1.ServiceLevelObjective, target *v1alpha1.RpcService, pods []corev1.Pod) []part {
	var mu sync.Mutex
	var wait sync.WaitGroup
	var parts []part
	slots := make(chan struct{}, reads)
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase != corev1.PodRunning || p.Status.PodIP == "" {
			continue
		}
		wait.Add(1)
		go func() {
			defer wait.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			t := dataplane.NewTarget(p.Status.PodIP, target.Name, target.Namespace)
			reply, err := r.Sidecars.Histogram(ctx, t, latency, int(slo.Spec.WindowSeconds))
			mu.Lock()
			defer mu.Unlock()
			parts = append(parts, part{pod: p.Name, required: inRotation(p), reply: reply, err: err})
		}()
	}
	wait.Wait()
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.pod, b.pod) })
	return parts
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
