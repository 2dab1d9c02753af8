// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// say changes the status of an object in place of whoever is its author: kubelet, a controller of Kubernetes, an agent.
// It is a patch, so what the operator writes into the object meanwhile is no conflict.
func say[T client.Object](api client.Client, o T, change func(T)) error {
	before := o.DeepCopyObject().(client.Object)
	change(o)
	return api.Status().Patch(context.Background(), o, client.MergeFrom(before))
}

func says[T client.Object](t *testing.T, o T, change func(T)) {
	t.Helper()
	if err := say(direct, o, change); err != nil {
		t.Fatal(err)
	}
}

// runsAt is what a kubelet says of a pod that it has started.
func runsAt(ip string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}
	}
}
