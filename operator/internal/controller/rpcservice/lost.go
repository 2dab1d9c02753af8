// SPDX-License-Identifier: Apache-2.0

// Devices that were taken from under their programs. A container that is started again in
// its pod does not get another one, so the pod is evicted and another comes in its place.
package rpcservice

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/evict"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// deviceLostExit is what a program ends with whose device was taken away, or not there when
// it began (dataplane/apps/shell/stop.h).
const deviceLostExit = 69

// replaceAfter is how long ago the kubelet took a pod in: one that gets a device that is gone, because a
// device plugin has not noticed, is not replaced without pause.
const replaceAfter = time.Minute

// faultyEnd is how the program of a pod ended, if it ended for a fault and does not run
// again; nil: it did not.
func faultyEnd(p *corev1.Pod) *corev1.ContainerStateTerminated {
	if p.DeletionTimestamp != nil || len(p.Spec.Containers) == 0 {
		return nil
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.Name != p.Spec.Containers[0].Name || c.State.Running != nil && c.Started != nil && *c.Started {
			continue
		}
		for _, end := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if end != nil && end.ExitCode != 0 {
				return end
			}
		}
	}
	return nil
}

// decideReplaced are the pods whose device is gone for good.
func decideReplaced(s *snapshot, d v1alpha1.Device) (out []*corev1.Pod) {
	if render.OnKernel(d) {
		return nil
	}
	for _, p := range s.pods() {
		end := faultyEnd(p)
		if end != nil && end.ExitCode == deviceLostExit && !finished(p) && madeFor(s, p, d) && takenIn(s, p) {
			out = append(out, p)
		}
	}
	return out
}

func takenIn(s *snapshot, p *corev1.Pod) bool {
	return p.Status.StartTime != nil && s.now.Sub(p.Status.StartTime.Time) >= replaceAfter
}

// replaceLost evicts them. The condition DeviceAsAsked names each until it is gone.
func (r *Reconciler) replaceLost(ctx context.Context, s *snapshot, p *plan, out *outcome) {
	for _, pod := range p.replaced {
		done, err := evict.Pod(ctx, r.Client, pod)
		if done {
			r.Events.Eventf(s.service, nil, corev1.EventTypeWarning, v1alpha1.EventDeviceLost, "Replace", "pod %s was evicted: %s", pod.Name, lastWords(faultyEnd(pod).Message))
		}
		if err != nil && !errors.Is(err, evict.ErrNoRoom) {
			out.failed = errors.Join(out.failed, err)
		}
	}
}
