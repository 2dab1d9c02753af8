// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func waits(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func ended(code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error"}}
}

// What keeps a pod's containers from running, in words that stay the same while the kubelet counts, and what tells more.
func TestOfPod(t *testing.T) {
	for _, row := range []struct {
		name              string
		init, main        corev1.ContainerStatus
		short, says, next string
	}{
		{"it crashes", corev1.ContainerStatus{}, corev1.ContainerStatus{State: waits("CrashLoopBackOff", "back-off 20s"), LastTerminationState: ended(2)},
			"container member: CrashLoopBackOff, exit code 2", "container member: CrashLoopBackOff, exit code 2: back-off 20s", "kubectl -n shop logs p -c member --previous"},
		{"it crashes, and nobody knows how", corev1.ContainerStatus{}, corev1.ContainerStatus{State: waits("CrashLoopBackOff", "")},
			"container member: CrashLoopBackOff", "container member: CrashLoopBackOff", "kubectl -n shop logs p -c member --previous"},
		{"it has just ended", corev1.ContainerStatus{}, corev1.ContainerStatus{State: ended(1)},
			"container member: Error, exit code 1", "container member: Error, exit code 1", "kubectl -n shop logs p -c member"},
		{"no image", corev1.ContainerStatus{}, corev1.ContainerStatus{State: waits("ImagePullBackOff", "not there")},
			"container member: ImagePullBackOff", "container member: ImagePullBackOff: not there", "kubectl -n shop describe pod p"},
		{"the init container first", corev1.ContainerStatus{State: waits("CrashLoopBackOff", "")}, corev1.ContainerStatus{State: waits("PodInitializing", "")},
			"container init: CrashLoopBackOff", "container init: CrashLoopBackOff", "kubectl -n shop logs p -c init --previous"},
	} {
		row.init.Name, row.main.Name = "init", "member"
		got := OfPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"},
			Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{row.init}, ContainerStatuses: []corev1.ContainerStatus{row.main}}})
		if got == nil {
			t.Fatalf("%s: nothing is found", row.name)
		}
		if got.Short() != row.short || got.Says() != row.says || got.Next() != row.next {
			t.Errorf("%s: %q, %q, %q", row.name, got.Short(), got.Says(), got.Next())
		}
	}
	for name, state := range map[string]corev1.ContainerState{"it begins": waits("ContainerCreating", ""), "it is done": ended(0), "it runs": {}} {
		if got := OfPod(&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: state}}}}); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if OfPod(nil) != nil {
		t.Error("no pod is stuck")
	}
}
