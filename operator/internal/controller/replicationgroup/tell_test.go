// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
)

// listing has groups, or fails.
type listing struct {
	client.Client
	groups []v1alpha1.ReplicationGroup
	fails  error
}

// List is of client.Client.
func (l *listing) List(_ context.Context, to client.ObjectList, _ ...client.ListOption) error {
	if list, is := to.(*v1alpha1.ReplicationGroupList); is {
		list.Items = l.groups
	}
	return l.fails
}

// A switch hears once of all groups that name it, also that there are none; before that nobody concludes anything.
func TestSwitchesHearOfAllGroups(t *testing.T) {
	gone := metav1.NewTime(start)
	onLeaf := func(name string, change func(*v1alpha1.ReplicationGroup)) v1alpha1.ReplicationGroup {
		g := newScene(t).switched().group
		g.Name, g.Status.ClusterID = name, "00112233445566778899aabbccddeeff"
		change(g)
		return *g
	}
	world := &listing{fails: errors.New("not now"), groups: []v1alpha1.ReplicationGroup{
		onLeaf("orders", func(*v1alpha1.ReplicationGroup) {}),
		onLeaf("pods", func(g *v1alpha1.ReplicationGroup) { g.Spec.Aggregator = nil }),
		onLeaf("gone", func(g *v1alpha1.ReplicationGroup) { g.DeletionTimestamp = &gone }),
	}}
	r := &Reconciler{Client: world, Board: switchboard.New()}
	if err := r.askForAll(context.Background()); err == nil {
		t.Error("nothing could be read, and nobody says so")
	}
	if _, told := r.Board.Groups("leaf"); told {
		t.Error("a switch is told of groups that nobody could read")
	}
	world.fails = nil
	if err := r.tellBoard(context.Background()); err != nil {
		t.Fatal(err)
	}
	all, told := r.Board.Groups("leaf")
	if !told || len(all) != 1 || all[0].Name != "orders" || all[0].Known || all[0].Cluster == 0 || all[0].Number == 0 {
		t.Errorf("told %v: %+v", told, all)
	}
	none := &Reconciler{Client: &listing{}, Board: switchboard.New()}
	if err := none.tellBoard(context.Background()); err != nil {
		t.Fatal(err)
	}
	if all, told := none.Board.Groups("leaf"); !told || len(all) != 0 {
		t.Errorf("without groups: told %v, %+v", told, all)
	}
}
