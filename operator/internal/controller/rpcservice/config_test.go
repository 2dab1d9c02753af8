// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// stored is the ConfigMap as the operator would have written it.
func stored(t *testing.T, s *snapshot, d desired) *corev1.ConfigMap {
	t.Helper()
	cm := render.ConfigMap(render.Input{Service: s.service}, d.text, d.hash)
	if len(d.sameGeneration) > 0 {
		cm.Annotations = map[string]string{dataplane.AnnotationSameGeneration: join(d.sameGeneration)}
	}
	return cm
}

// planOf is a plan in which keys are named and nothing else was decided.
func planOf(ids []int) *plan {
	p := &plan{keys: keyring{keys: map[int][]byte{}, stage: stageOverlapping}}
	for _, id := range ids {
		p.keys.keys[id] = nil
	}
	return p
}

func decide(t *testing.T, s *snapshot, accepted bool, keys []int) desired {
	t.Helper()
	d, err := decideConfig(s, planOf(keys), accepted)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Hashes of one generation are remembered across changes of pods and keys, and
// forgotten with the generation.
func TestHistoryOfHashes(t *testing.T) {
	s := &snapshot{service: aService(), servers: pods("r")}
	first := decide(t, s, true, []int{1})
	if first.hash != dataplane.HashConfig(first.text) || len(first.sameGeneration) != 0 {
		t.Fatalf("first: %+v", first)
	}
	s.live = readLive(stored(t, s, first))
	s.servers = pods("r r")
	second := decide(t, s, true, []int{1})
	if second.hash == first.hash || !slices.Equal(second.sameGeneration, []string{first.hash}) {
		t.Fatalf("second: %+v", second)
	}
	s.live = readLive(stored(t, s, second))
	if again := decide(t, s, true, []int{1}); again.hash != second.hash || !slices.Equal(again.sameGeneration, second.sameGeneration) {
		t.Errorf("nothing changed, but: %+v", again)
	}
	s.servers = pods("r")
	back := decide(t, s, true, []int{1})
	if back.hash != first.hash || !slices.Equal(back.sameGeneration, []string{second.hash}) {
		t.Errorf("back to the first: %+v", back)
	}
	if !back.runs(first.hash) || !back.runs(second.hash) || back.runs("") || back.runs("other") {
		t.Error("runs() is wrong about the hashes of the generation")
	}
	s.service.Generation++
	if next := decide(t, s, true, []int{1}); len(next.sameGeneration) != 0 {
		t.Errorf("a new generation inherits %v", next.sameGeneration)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	s := &snapshot{service: aService()}
	for n := range 40 {
		s.servers = pods(string(slices.Repeat([]byte("r "), n+1)))
		s.live = readLive(stored(t, s, decide(t, s, true, []int{1})))
	}
	if d := decide(t, s, true, []int{1, 2}); len(d.sameGeneration) != maxHistory {
		t.Errorf("%d hashes are remembered, want %d", len(d.sameGeneration), maxHistory)
	}
}

// While the specification is not accepted, only pods and keys change.
func TestNotAcceptedKeepsTheLastSpecification(t *testing.T) {
	s := &snapshot{service: aService(), servers: pods("r")}
	if d := decide(t, s, false, []int{1}); d.hash != "" {
		t.Errorf("something is configured that never was accepted: %s", d.text)
	}
	s.live = readLive(stored(t, s, decide(t, s, true, []int{1})))
	s.service.Spec.Router.WorkerQueueDepth, s.service.Generation = 60, 5
	s.servers = pods("r r")
	d := decide(t, s, false, []int{1, 2})
	doc, err := dataplane.ParseConfig(d.text)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Service.WorkerQueueDepth != 3 || doc.Sources[0].Generation != 4 || len(doc.Members) != 2 || len(doc.KeyIDs) != 2 {
		t.Errorf("document %s", d.text)
	}
}

func TestBrokenConfigMapIsReplaced(t *testing.T) {
	s := &snapshot{service: aService(), servers: pods("r")}
	s.live = readLive(&corev1.ConfigMap{Data: map[string]string{dataplane.ConfigMapKeyConfig: "{"}})
	if d := decide(t, s, true, []int{1}); d.hash == "" || len(d.sameGeneration) != 0 {
		t.Errorf("got %+v", d)
	}
}

// A rotation goes on only when every live peer runs the very document.
func TestAcknowledgedExactly(t *testing.T) {
	s := &snapshot{service: aService(), servers: pods("r"), routers: []*corev1.Pod{aPod("router", "10.0.1.1", "r"), aPod("gone", "10.0.1.2", "rd")}}
	d := decide(t, s, true, []int{1, 2})
	s.live = readLive(stored(t, s, d))
	s.states = map[string]stateRead{"p0": runs(d.hash), "router": runs(d.hash)}
	if !acknowledgedExactly(s, []int{1, 2}) {
		t.Error("all live peers run it")
	}
	if acknowledgedExactly(s, []int{2}) {
		t.Error("the document names other keys")
	}
	s.states["router"] = runs("older")
	if acknowledgedExactly(s, []int{1, 2}) {
		t.Error("a router runs an older document")
	}
	s.states["router"] = silent
	if acknowledgedExactly(s, []int{1, 2}) {
		t.Error("a router is silent")
	}
}

// A document that breaks a bound is an error that names the field.
func TestUnusableDocument(t *testing.T) {
	s := &snapshot{service: aService(), servers: []*corev1.Pod{aPod("a", "10.0.0.1", "r"), aPod("b", "10.0.0.1", "r")}}
	_, err := decideConfig(s, planOf([]int{1}), true)
	if refusal(err) != "InvalidConfiguration" {
		t.Errorf("two pods on one address: %v", err)
	}
}

// An objective that enforces is in the document and among its sources; the same
// service without one has the document it always had.
func TestTheDocumentCarriesTheEnforcedObjective(t *testing.T) {
	s := &snapshot{service: aService(), servers: pods("r")}
	without := decide(t, s, true, nil)
	slo := v1alpha1.ServiceLevelObjective{}
	slo.Name, slo.Namespace, slo.UID, slo.Generation = "p99", s.service.Namespace, "u", 4
	slo.Spec = v1alpha1.ServiceLevelObjectiveSpec{
		TargetRef: v1alpha1.TargetReference{Name: s.service.Name}, Percentile: "99", LatencyMicroseconds: 300,
		Enforcement: v1alpha1.Enforcement{Mode: v1alpha1.EnforcementReject},
	}
	s.objectives = []v1alpha1.ServiceLevelObjective{slo}
	d := decide(t, s, true, nil)
	doc, err := dataplane.ParseConfig(d.text)
	if err != nil || doc.Service.Admission == nil || doc.Service.Admission.LatencyMicroseconds != 300 || len(doc.Sources) != 2 || doc.Sources[1].Generation != 4 {
		t.Fatalf("%s %v", d.text, err)
	}
	s.objectives[0].Spec.Enforcement.Mode = v1alpha1.EnforcementObserve
	if again := decide(t, s, true, nil); again.hash != without.hash {
		t.Errorf("an observing objective changes the document: %s", again.text)
	}
}
