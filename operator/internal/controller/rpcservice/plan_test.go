// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"context"
	"reflect"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// gathered is a snapshot of the bench, with a key that is no chance.
func (b *bench) gathered() *snapshot {
	b.t.Helper()
	s, err := b.gather(context.Background(), b.service())
	if err != nil {
		b.t.Fatal(err)
	}
	s.freshKey = []byte("00112233445566778899aabbccddeeff")
	return s
}

// A plan follows from the snapshot alone and leaves it as it was, so that whoever
// judges the outcome sees what the plan saw.
func TestAPlanLeavesItsSnapshot(t *testing.T) {
	b := newBench(t)
	service := b.service()
	service.Spec.Hedging = &v1alpha1.RpcServiceHedging{Mode: v1alpha1.HedgingAuto, BusyPercent: 50, BudgetPercent: 100}
	service.Spec.Router.FastPath = v1alpha1.FastPathAuto
	if err := b.Client.Update(context.Background(), service); err != nil {
		t.Fatal(err)
	}
	for _, settled := range []int{0, 3} {
		b.must(settled)
		s, untouched := b.gathered(), b.gathered()
		p, again := planFor(s), planFor(s)
		if !reflect.DeepEqual(s, untouched) {
			t.Errorf("after %d steps: the plan wrote to its snapshot", settled)
		}
		if !reflect.DeepEqual(p, again) {
			t.Errorf("after %d steps: a second plan is another one", settled)
		}
		done := &outcome{accepted: p.accepted, document: p.document, written: map[string]string{}}
		if withStatus(s, p, done, conclude(s, p, done)); !reflect.DeepEqual(s, untouched) {
			t.Errorf("after %d steps: the status was written into the snapshot", settled)
		}
	}
}
