// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/netstatus"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// losesDevice does what a kubelet does when the program of a pod, which it started then, has lost its device.
func (s *sidecar) losesDevice(started time.Time) {
	s.world.t.Helper()
	says(s.world.t, s.world.getPod(s.pod), func(p *corev1.Pod) {
		p.Status.StartTime = &metav1.Time{Time: started}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name:  s.role,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 69,
				Message: "drained\nbobtail-serve error: --driver=dpdk: interface net1 was taken away: the kernel has it no more here\n"}},
		}}
	})
}

// A pod whose device is gone is named with its program's last words, and evicted when it is not quite new; a healthy one stays.
func TestAPodThatLostItsDevice(t *testing.T) {
	t.Parallel()
	operator(t)
	w := newWorld(t, "lost")
	w.create(`{spec: {workersPerReplica: 2, device: {type: AFXDP, networkAttachment: data}}}`)
	w.template = map[string]string{netstatus.AnnotationNetwork: w.ns + "/data", render.AnnotationDevice: "AFXDP " + w.ns + "/data"}
	healthy, lost := w.pod(v1alpha1.ComponentServer, 2), w.pod(v1alpha1.ComponentServer, 2)
	w.attach(healthy, `"10.77.0.1"`)
	w.attach(lost, `"10.77.0.2"`)
	lost.losesDevice(time.Now())
	got := w.waitCondition(v1alpha1.ConditionDeviceAsAsked, metav1.ConditionFalse, v1alpha1.ReasonDeviceLost)
	for _, c := range got.Status.Conditions {
		if c.Type == v1alpha1.ConditionDeviceAsAsked && (!strings.Contains(c.Message, lost.pod) || !strings.Contains(c.Message, "interface net1 was taken away")) {
			t.Errorf("%s", c.Message)
		}
	}
	w.getPod(lost.pod) // it is new
	lost.losesDevice(time.Now().Add(-2 * time.Minute))
	eventually(t, "the pod is evicted", func() (bool, string) {
		err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: lost.pod}, &corev1.Pod{})
		return apierrors.IsNotFound(err), "it is still there"
	})
	w.getPod(healthy.pod)
}
