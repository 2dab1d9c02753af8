// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// A specification whose pods cannot start is not Ready, however many pods of
// the one before it are; not even for the moment in which its Deployment has
// been written and not been read back.
func TestReadyWaitsForTheRollout(t *testing.T) {
	t.Parallel()
	w, _, _ := serving(t, "stuck", `{}`)
	w.patch(&v1alpha1.RpcService{}, "stuck", `{"spec":{"server":{"image":"`+stuckImage+`"}}}`)
	deadline := time.Now().Add(4 * time.Second)
	for time.Now().Before(deadline) {
		s := w.service()
		if c := condition(s, v1alpha1.ConditionReady); c.ObservedGeneration == s.Generation && c.Status == metav1.ConditionTrue {
			t.Fatalf("Ready=True for generation %d, of which no pod runs", s.Generation)
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRollingOut)
	eventually(t, "the message says what is missing", func() (bool, string) {
		c := condition(w.service(), v1alpha1.ConditionReady)
		return strings.Contains(c.Message, "1 of 2 pods of Deployment stuck-server"), c.Message
	})
	w.patch(&v1alpha1.RpcService{}, "stuck", `{"spec":{"server":{"image":"good"}}}`)
	w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

// What the API server refuses keeps the whole specification from the dataplane.
func TestRefusedObjectsChangeNothing(t *testing.T) {
	t.Parallel()
	w, _, _ := serving(t, "refused", `{}`)
	w.patch(&v1alpha1.RpcService{}, "refused",
		`{"spec":{"router":{"workerQueueDepth":9},"server":{"podTemplate":{"spec":{"containers":[{"name":"server","volumeMounts":[{"name":"nothing","mountPath":"/x"}]}]}}}}}`)
	s := w.waitCondition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonApplyFailed)
	if c := condition(s, v1alpha1.ConditionAccepted); !strings.Contains(c.Message, `Not found: "nothing"`) {
		t.Errorf("the message does not say why: %q", c.Message)
	}
	w.waitCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonNotAccepted)
	if doc, _ := w.config(); doc.Service.WorkerQueueDepth != 3 {
		t.Errorf("workerQueueDepth %d reached the dataplane", doc.Service.WorkerQueueDepth)
	}
	w.patch(&v1alpha1.RpcService{}, "refused", `{"spec":{"server":{"podTemplate":null}}}`)
	w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	if doc, _ := w.config(); doc.Service.WorkerQueueDepth != 9 {
		t.Errorf("workerQueueDepth %d afterwards", doc.Service.WorkerQueueDepth)
	}
}
