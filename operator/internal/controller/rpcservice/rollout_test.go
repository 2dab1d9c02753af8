// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
)

func TestUnfinishedRollout(t *testing.T) {
	two := int32(2)
	deployment := func(generation, observed int64, replicas, updated int32) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Generation: generation}, Spec: appsv1.DeploymentSpec{Replicas: &two},
			Status: appsv1.DeploymentStatus{ObservedGeneration: observed, Replicas: replicas, UpdatedReplicas: updated},
		}
	}
	for _, c := range []struct {
		name string
		d    *appsv1.Deployment
		want string
	}{
		{"done", deployment(4, 4, 2, 2), ""},
		{"not read yet", nil, "just been changed"},
		{"what was read is older than what was written", deployment(3, 3, 2, 2), "just been changed"},
		{"its controller has not seen it", deployment(4, 3, 2, 2), "just been changed"},
		{"stuck at the first new pod", deployment(4, 4, 3, 1), "1 of 2 pods"},
		{"an old pod is left", deployment(4, 4, 3, 2), "1 pods of Deployment echo-server are of an earlier specification"},
	} {
		if got := unfinishedRollout("echo-server", c.d, "g4"); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Enough ready pods do not make a service ready when they are the wrong ones.
func TestReadyAsksForTheRightPods(t *testing.T) {
	s := &snapshot{service: aService()}
	for i, ip := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		s.servers = append(s.servers, aPod("s"+string(rune('1'+i)), ip, "rRJ"))
	}
	s.routers = append(s.routers, aPod("r1", "10.0.1.1", "rR"), aPod("r2", "10.0.1.2", "rR"))
	rolling := ""
	fine := verdict.Yes("", "")
	if v := decideReady(s, fine, fine, rolling); !v.OK() {
		t.Fatalf("not ready: %s", v.Message)
	}
	rolling = "1 of 2 pods of Deployment echo-server are of the present specification"
	if v := decideReady(s, fine, fine, rolling); v.OK() || v.Reason != v1alpha1.ReasonRollingOut || !strings.Contains(v.Message, "1 of 2 pods") {
		t.Errorf("%v %s: %s", v.OK(), v.Reason, v.Message)
	}
}
