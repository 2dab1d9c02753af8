// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
)

func TestTrouble(t *testing.T) {
	waiting := func(reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "server",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
		}
	}
	with := func(kind corev1.PodConditionType, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Message: message})
		}
	}
	for _, c := range []struct {
		name, how string
		change    func(*corev1.Pod)
		want      string
	}{
		{"ready", "rR", waiting("CrashLoopBackOff", "x"), ""},
		{"being deleted", "rd", waiting("CrashLoopBackOff", "x"), ""},
		{"on its way", "", waiting("ContainerCreating", ""), ""},
		{"no image", "", waiting("ImagePullBackOff", "no such host"), "pod s1, container server: ImagePullBackOff: no such host"},
		{"no node", "", with(corev1.PodScheduled, "0/2 nodes are available"), "pod s1 cannot be scheduled: 0/2 nodes"},
		{"not joined", "r", with(v1alpha1.PodConditionJoined, "1 of 2 routers"), "pod s1 waits to join: 1 of 2 routers"},
		{"sidecar ends", "", func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "sidecar",
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Message: "usage"}}}}
		}, "pod s1, container sidecar ended with exit code 2: usage"},
	} {
		p := aPod("s1", "10.0.0.1", c.how)
		c.change(p)
		if got := trouble(p); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// The Ready condition names the first cause, and a Deployment that cannot make
// pods before any pod.
func TestReadyNamesTheCause(t *testing.T) {
	s := &snapshot{service: aService(), servers: pods("rR r"), routers: pods("rR rR")}
	s.servers[1].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "too little memory"}}
	if v := decideReady(s, verdict.Yes("", ""), verdict.Yes("", ""), ""); !strings.HasPrefix(v.Message, "2 of 4 workers and 2 routers ready; pod p1 cannot") {
		t.Errorf("message %q", v.Message)
	}
	s.serverDeployment = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "echo-server"}, Status: appsv1.DeploymentStatus{
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "violates PodSecurity"}}}}
	if v := decideReady(s, verdict.Yes("", ""), verdict.Yes("", ""), ""); !strings.Contains(v.Message, "Deployment echo-server cannot make pods: violates PodSecurity") {
		t.Errorf("message %q", v.Message)
	}
}
