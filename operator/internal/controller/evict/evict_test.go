// SPDX-License-Identifier: Apache-2.0

package evict

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Just this pod is asked for, by its UID. One that is gone, or has another's name by now, is no error and was not taken;
// a budget without room is told apart from what fails.
func TestEvictions(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-1", UID: "u-1"}}
	for what, c := range map[string]struct {
		answer error
		taken  bool
		want   string
	}{
		"taken": {nil, true, ""}, "no room": {apierrors.NewTooManyRequests("budget", 1), false, ErrNoRoom.Error()},
		"gone": {apierrors.NewNotFound(pods, "cart-1"), false, ""}, "another by now": {apierrors.NewConflict(pods, "cart-1", nil), false, ""},
		"no right": {errors.New("forbidden"), false, "evict pod cart-1: forbidden"},
	} {
		world := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			SubResourceCreate: func(_ context.Context, _ client.Client, name string, o client.Object, sub client.Object, _ ...client.SubResourceCreateOption) error {
				e, is := sub.(*policyv1.Eviction)
				if !is || name != "eviction" || o.GetName() != "cart-1" || e.Name != "cart-1" || e.Namespace != "shop" || *e.DeleteOptions.Preconditions.UID != "u-1" {
					t.Errorf("%s: asked for %s %+v of %s", what, name, sub, o.GetName())
				}
				return c.answer
			}}).Build()
		taken, err := Pod(t.Context(), world, pod)
		if taken != c.taken || (err == nil) != (c.want == "") || err != nil && err.Error() != c.want || errors.Is(err, ErrNoRoom) != (what == "no room") {
			t.Errorf("%s: %v, %v", what, taken, err)
		}
	}
}
