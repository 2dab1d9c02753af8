// SPDX-License-Identifier: Apache-2.0

package programmableswitch

import (
	"context"
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// listing is an API server that has some switches, or fails.
type listing struct {
	client.Client
	names []string
	fails error
}

func (l *listing) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	for _, name := range l.names {
		all := list.(*v1alpha1.ProgrammableSwitchList)
		all.Items = append(all.Items, v1alpha1.ProgrammableSwitch{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return l.fails
}

// Of which switches something is asked: of the one that is named, else of each there is.
func TestWhichSwitchesAreAsked(t *testing.T) {
	for what, c := range map[string]struct {
		named string
		api   *listing
		want  []string
	}{
		"one":                 {"leaf", &listing{fails: errors.New("nobody asks")}, []string{"leaf"}},
		"all":                 {"", &listing{names: []string{"leaf", "spine"}}, []string{"leaf", "spine"}},
		"none":                {"", &listing{}, nil},
		"what cannot be read": {"", &listing{names: []string{"leaf"}, fails: errors.New("gone")}, nil},
	} {
		r := &Reconciler{Client: c.api}
		var got []string
		for _, request := range r.asked(context.Background(), &v1alpha1.ProgrammableSwitch{ObjectMeta: metav1.ObjectMeta{Name: c.named}}) {
			got = append(got, request.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: asked of %q, want %q", what, got, c.want)
		}
	}
}
