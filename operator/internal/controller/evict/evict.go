// SPDX-License-Identifier: Apache-2.0

// Package evict asks the API server to take a pod away, which holds that to the
// disruption budget.
package evict

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNoRoom says that the disruption budget has no room yet.
var ErrNoRoom = errors.New("the disruption budget has no room yet")

// Pod evicts just this pod, and not another one that has its name by now. It says whether the API server took it; one that is
// gone already is no error.
func Pod(ctx context.Context, c client.Client, p *corev1.Pod) (bool, error) {
	err := c.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}},
	})
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsTooManyRequests(err):
		return false, ErrNoRoom
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	}
	return false, fmt.Errorf("evict pod %s: %w", p.Name, err)
}
