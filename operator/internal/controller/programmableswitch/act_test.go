// SPDX-License-Identifier: Apache-2.0

package programmableswitch

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/keeper"
)

// remembering is a keeper that only notes what it is told.
type remembering struct {
	set, cleared, forgotten int
	last                    keeper.Desired
}

func (r *remembering) Set(_ string, d keeper.Desired)    { r.set++; r.last = d }
func (r *remembering) Clear(string)                      { r.cleared++ }
func (r *remembering) Forget(string)                     { r.forgotten++ }
func (r *remembering) State(string) (keeper.State, bool) { return keeper.State{}, false }

// patching is an API server that takes patches, or answers with a conflict.
type patching struct {
	client.Client
	conflict bool
	patches  int
}

func (p *patching) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	p.patches++
	if p.conflict {
		return apierrors.NewConflict(schema.GroupResource{Resource: "programmableswitches"}, "leaf", nil)
	}
	return nil
}

// The finalizer is there before the first entry, and goes after the last; when it cannot
// go yet, what is known of the switch stays, or nobody would ever know that it is clear.
func TestAct(t *testing.T) {
	ctx := context.Background()
	k, api := &remembering{}, &patching{}
	r := &Reconciler{Client: api, Switches: k}
	s := world(t, nil)
	if _, err := r.act(ctx, s, planFor(s)); err != nil || api.patches != 1 || k.set != 1 || len(s.psw.Finalizers) != 1 {
		t.Errorf("%v, %d patches, set %d times, finalizers %v", err, api.patches, k.set, s.psw.Finalizers)
	}
	if _, err := r.act(ctx, s, plan{}); err != nil || k.set != 1 {
		t.Errorf("a specification that is not accepted reached the keeper: %v", err)
	}

	s.psw.DeletionTimestamp = &metav1.Time{Time: time.Unix(200, 0)}
	if gone, err := r.act(ctx, s, planFor(s)); gone || err != nil || k.set != 2 || !k.last.Clear {
		t.Errorf("gone %v, %v, %+v", gone, err, k.last)
	}
	if gone, err := r.act(ctx, s, plan{}); gone || err != nil || k.cleared != 1 {
		t.Errorf("gone %v, %v: what was accepted last is not cleared", gone, err)
	}
	s.state.Cleared, api.conflict = true, true
	if _, err := r.act(ctx, s, planFor(s)); err == nil || k.forgotten != 0 {
		t.Errorf("%v, forgotten %d times before the finalizer went", err, k.forgotten)
	}
	s.psw.Finalizers, api.conflict = []string{v1alpha1.FinalizerSwitch}, false
	if gone, err := r.act(ctx, s, planFor(s)); !gone || err != nil || k.forgotten != 1 || len(s.psw.Finalizers) != 0 {
		t.Errorf("gone %v, %v, forgotten %d times", gone, err, k.forgotten)
	}
}
