// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// orphan takes the owner from everything, as `kubectl delete --cascade=orphan` does,
// changes what the case wants, and makes the service anew.
func (b *bench) orphan(edit func(client.Object)) {
	b.t.Helper()
	ctx := context.Background()
	for _, o := range b.made() {
		if err := b.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			b.t.Fatal(err)
		}
		o.SetOwnerReferences(nil)
		edit(o)
		if err := b.Client.Update(ctx, o); err != nil {
			b.t.Fatal(err)
		}
	}
	b.remove(aService())
	b.must(1) // what was remembered of it is forgotten
	again := aService()
	again.UID = "anew"
	if err := b.Client.Create(ctx, again); err != nil {
		b.t.Fatal(err)
	}
}

// K-3: objects that bear our labels and belong to nobody are taken over, the keys with
// them, so that pods which run go on.
func TestK3OrphansAreAdopted(t *testing.T) {
	b := newBench(t)
	b.must(4)
	first := string(b.secret("echo-keys").Data["1"])
	b.orphan(func(client.Object) {})
	b.must(5)
	for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed} {
		if c := b.condition(kind); c.Status != metav1.ConditionTrue {
			t.Errorf("%+v", c)
		}
	}
	for _, o := range b.made() {
		if err := b.Client.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		if owner := metav1.GetControllerOf(o); owner == nil || owner.UID != "anew" {
			t.Errorf("%T %s belongs to %+v", o, o.GetName(), owner)
		}
	}
	if data := b.secret("echo-keys").Data; len(data) != 1 || string(data["1"]) != first {
		t.Errorf("%d keys, and the first is another one", len(data))
	}
	for b.told("KeyRotation") {
		t.Error("somebody is told of a rotation that was none")
	}
}

// K-3: what is somebody else's is a conflict, whichever of the three says so.
func TestK3WhatIsAnothersIsAConflict(t *testing.T) {
	yes := true
	for name, edit := range map[string]func(client.Object){
		"another controller": func(o client.Object) {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Thing", Name: "x", UID: "x", Controller: &yes}})
		},
		"not made by us": func(o client.Object) {
			labels := o.GetLabels()
			delete(labels, render.LabelManagedBy)
			o.SetLabels(labels)
		},
		"of another service": func(o client.Object) {
			labels := o.GetLabels()
			labels[v1alpha1.LabelService] = "other"
			o.SetLabels(labels)
		},
	} {
		b := newBench(t)
		b.must(4)
		b.orphan(edit)
		b.must(2)
		c := b.condition(v1alpha1.ConditionAccepted)
		if c.Reason != v1alpha1.ReasonNameConflict || !strings.Contains(c.Message, "Deployment echo-server") || !strings.Contains(c.Message, "Secret echo-keys") {
			t.Errorf("%s: %+v", name, c)
		}
		for _, o := range b.made() {
			if err := b.Client.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
				t.Fatal(err)
			}
			if owner := metav1.GetControllerOf(o); owner != nil && owner.UID == "anew" {
				t.Errorf("%s: %T %s was taken over", name, o, o.GetName())
			}
		}
	}
}
