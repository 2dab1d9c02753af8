// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"context"
	"encoding/hex"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// Keys are numbered from 1 to 255, the lowest two are told to members; where the Secret is gone, those that run.
func TestKeyNumbers(t *testing.T) {
	data := func(names ...string) *corev1.Secret {
		s := &corev1.Secret{Data: map[string][]byte{}}
		for _, n := range names {
			s.Data[n] = []byte("k")
		}
		return s
	}
	for _, c := range []struct {
		keys  *corev1.Secret
		fresh bool
		want  string
	}{
		{data("1"), false, "[1]"}, {data("0", "-1", "x", "256", "255", "1"), false, "[1 255]"}, {data("9", "3", "7"), false, "[3 7]"},
		{nil, false, "[5]"}, {nil, true, "[1]"},
	} {
		s := &snapshot{keys: c.keys, live: &dataplane.GroupConfig{KeyIDs: []int{5}}}
		if got := fmt.Sprint(keyIDs(s, c.fresh)); got != c.want {
			t.Errorf("%v, fresh %v: %s, want %s", c.keys, c.fresh, got, c.want)
		}
	}
}

// A key is made for a group that has neither a Secret nor a document: members of any other would be strangers with it.
func TestWhenAKeyIsMade(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene)
		want   bool
	}{
		"neither": {func(s *scene) { s.keys, s.live = nil, nil }, true}, "a document": {func(s *scene) { s.keys = nil }, false},
		"a Secret": {func(s *scene) { s.live = nil }, false}, "both": {func(*scene) {}, false},
	} {
		s := newScene(t).formedBy(3)
		c.change(s)
		if p := planFor(s.snapshot); p.newKey != c.want {
			t.Errorf("%s: %v", name, p.newKey)
		}
	}
	if key := newKey(); len(key) != 32 || string(key) == string(newKey()) {
		t.Errorf("%q", key)
	} else if _, err := hex.DecodeString(string(key)); err != nil {
		t.Error(err)
	}
	stand := newStand(t)
	if err := stand.writeKeys(context.Background(), newScene(t).snapshot, &plan{}); err != nil {
		t.Errorf("none is planned: %v", err)
	}
}

// The document waits for members to be written down, and names those whose pods are gone where they were, in their order.
func TestBookOfLostPods(t *testing.T) {
	s := newScene(t).formedBy(3)
	delete(s.pods, 0)
	s.places = s.places[1:]
	if got := names(planFor(s.snapshot).doc); got != "1=orders-member-0-a@10.0.0.1 2=orders-member-1-a@10.0.0.2 3=orders-member-2-a@10.0.0.3 founded by []" {
		t.Error(got)
	}
	p := &plan{record: record{cluster: "c"}}
	if p.planDocument(s.snapshot); p.doc != nil || p.hash != "" {
		t.Errorf("a document of nobody: %+v", p.doc)
	}
	four := int32(4)
	s = newScene(t).formedBy(3)
	s.set.Spec.Replicas = &four
	if got := decideReplicas(s.snapshot, recordOf(s.group)); got != 3 {
		t.Errorf("a group that is led keeps %d pods", got)
	}
}
