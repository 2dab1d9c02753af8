// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// counter makes keys that can be told apart: 000…1, 000…2.
func counter() func() []byte {
	n := 0
	return func() []byte {
		n++
		return []byte(fmt.Sprintf("%032x", n))
	}
}

// TestRotation walks through a whole rotation, second by second, with peers
// that take a while to acknowledge.
func TestRotation(t *testing.T) {
	type step struct {
		after        time.Duration // since the step before
		token        string
		acknowledged bool
		ids, named   []int
		stage        string
	}
	newKey := counter()
	k := parseKeyring(nil, nil)
	now := start
	for i, s := range []step{
		{0, "", false, []int{1}, []int{1}, stageNone},
		{time.Hour, "", true, []int{1}, []int{1}, stageNone},
		{keyLife - time.Hour - time.Second, "", true, []int{1}, []int{1}, stageNone},
		// Asked for by the annotation.
		{0, "today", true, []int{1, 2}, []int{1}, stageDistributing},
		{distribution - time.Second, "today", true, []int{1, 2}, []int{1}, stageDistributing},
		{time.Second, "today", true, []int{1, 2}, []int{1, 2}, stageOverlapping},
		{time.Hour, "today", false, []int{1, 2}, []int{1, 2}, stageOverlapping}, // one peer lags
		{time.Second, "today", true, []int{1, 2}, []int{2, 1}, stageSwitching},
		{settle, "today", false, []int{1, 2}, []int{2, 1}, stageSwitching},
		{time.Second, "today", true, []int{1, 2}, []int{2}, stageRetiring},
		{settle - time.Second, "today", true, []int{1, 2}, []int{2}, stageRetiring},
		{time.Second, "today", false, []int{1, 2}, []int{2}, stageRetiring},
		{time.Second, "today", true, []int{2}, []int{2}, stageNone},
		{time.Hour, "today", true, []int{2}, []int{2}, stageNone}, // the same token asks once
		// By age.
		{keyLife, "today", true, []int{2, 3}, []int{2}, stageDistributing},
		// A new token during a rotation waits for its end.
		{distribution, "again", true, []int{2, 3}, []int{2, 3}, stageOverlapping},
		{settle, "again", true, []int{2, 3}, []int{3, 2}, stageSwitching},
		{settle, "again", true, []int{2, 3}, []int{3}, stageRetiring},
		{settle, "again", true, []int{3}, []int{3}, stageNone},
		{time.Second, "again", true, []int{3, 4}, []int{3}, stageDistributing},
	} {
		now = now.Add(s.after)
		k = roundTrip(t, k.advance(now, s.token, s.acknowledged, newKey))
		if !slices.Equal(k.ids(), s.ids) || !slices.Equal(k.named(), s.named) || k.stage != s.stage {
			t.Fatalf("step %d: keys %v, named %v, stage %q; want %v, %v, %q", i, k.ids(), k.named(), k.stage, s.ids, s.named, s.stage)
		}
	}
}

// roundTrip stores the keyring in a Secret and reads it back: a restart of the
// operator must not disturb a rotation.
func roundTrip(t *testing.T, k keyring) keyring {
	t.Helper()
	data, annotations := k.secret()
	back := parseKeyring(data, annotations)
	if !back.equal(k) {
		t.Fatalf("read back %+v, wrote %+v", back, k)
	}
	return back
}

// A key never changes once made. And from each step to the next, whatever a
// peer of either configuration signs (its first key), a peer of the other
// accepts, the wrap from 255 to 1 included.
func TestRotationNeverCutsPeersOff(t *testing.T) {
	newKey := counter()
	now := start
	k := parseKeyring(nil, nil).advance(now, "", false, newKey)
	wrapped := false
	for i := range 20000 {
		now = now.Add(7 * time.Minute)
		next := k.advance(now, fmt.Sprint(i/50), i%3 != 0, newKey)
		for id, value := range next.keys {
			if old, ok := k.keys[id]; ok && string(old) != string(value) {
				t.Fatalf("step %d: key %d changed", i, id)
			}
		}
		if !slices.Contains(next.named(), k.named()[0]) || !slices.Contains(k.named(), next.named()[0]) {
			t.Fatalf("step %d: from %v to %v", i, k.named(), next.named())
		}
		for _, id := range next.named() {
			if _, ok := k.keys[id]; !ok {
				t.Fatalf("step %d: key %d is named before it was distributed", i, id)
			}
		}
		if len(next.ids()) > 2 || next.ids()[0] < 1 || slices.Max(next.ids()) > maxKeyID {
			t.Fatalf("step %d: keys %v", i, next.ids())
		}
		wrapped = wrapped || slices.Equal(next.ids(), []int{1, maxKeyID})
		k = next
	}
	if !wrapped {
		t.Error("the numbers never wrapped")
	}
}

func TestSuccessor(t *testing.T) {
	if successor(1) != 2 || successor(maxKeyID) != 1 {
		t.Errorf("successors %d, %d", successor(1), successor(maxKeyID))
	}
}

// A Secret that somebody has damaged does not stop the service: what cannot be
// read is not there, and a new key is made when none is left.
func TestDamagedKeys(t *testing.T) {
	k := parseKeyring(map[string][]byte{"1": []byte("short"), "x": make([]byte, 32), "0": make([]byte, 32), "256": make([]byte, 32)},
		map[string]string{annotationSince: "yesterday"})
	if len(k.keys) != 0 {
		t.Errorf("keys %v", k.ids())
	}
	k = k.advance(start, "", true, newKey)
	if len(k.keys) != 1 || len(k.keys[1]) != 32 {
		t.Errorf("keys %v", k.keys)
	}
	two := parseKeyring(map[string][]byte{"1": newKey(), "2": newKey()}, nil)
	if two = two.advance(start, "", true, newKey); two.stage != stageDistributing {
		t.Errorf("two keys and no stage became %q", two.stage)
	}
}

func TestKeyAnnotationsStayOnTheSecret(t *testing.T) {
	k := parseKeyring(nil, nil).advance(start, "now", true, newKey)
	_, annotations := k.secret()
	if annotations[v1alpha1.AnnotationRotateKeys] != "now" || annotations[annotationSince] != "2026-03-01T12:00:00Z" {
		t.Errorf("annotations %v", annotations)
	}
}

// peers whose keys are lost to the operator go on with what they have. A
// new key never takes a number that a running peer knows, is named only after
// every pod has had the time to get it, and is rotated like any other then.
func TestLostKeysAreReplaced(t *testing.T) {
	for _, c := range []struct {
		running []int
		id      int
		named   int
	}{
		{[]int{1}, 2, 1}, {[]int{255}, 1, 255}, {[]int{7, 8}, 9, 8}, {[]int{8, 7}, 9, 8}, {[]int{255, 1}, 2, 1}, {[]int{1, 255}, 2, 1},
	} {
		k := roundTrip(t, replaceLost(c.running, start, "today", newKey))
		if !slices.Equal(k.ids(), []int{c.id}) || !slices.Equal(k.named(), []int{c.named}) {
			t.Errorf("running %v: keys %v, named %v", c.running, k.ids(), k.named())
		}
		k = k.advance(start.Add(distribution-time.Second), "today", true, newKey)
		if !slices.Equal(k.named(), []int{c.named}) {
			t.Errorf("running %v: named %v before it was distributed", c.running, k.named())
		}
		k = roundTrip(t, k.advance(start.Add(distribution), "today", false, newKey))
		if !slices.Equal(k.ids(), []int{c.id}) || !slices.Equal(k.named(), []int{c.id}) || k.stage != stageNone {
			t.Errorf("running %v: in the end keys %v, named %v, stage %q", c.running, k.ids(), k.named(), k.stage)
		}
		if k = k.advance(start.Add(distribution), "again", true, newKey); len(k.ids()) != 2 {
			t.Errorf("running %v: not rotated afterwards: %v", c.running, k.ids())
		}
	}
}
