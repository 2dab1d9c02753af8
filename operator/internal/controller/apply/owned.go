// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// OwnedBy says that an object is controlled by the one of that UID.
func OwnedBy(o metav1.Object, owner types.UID) bool { return ownerUID(o) == owner }

// Taken says that an object of the wanted name exists and is not the owner's. The cache
// holds only objects that carry our label, so what it lacks is asked of the API server.
func Taken(ctx context.Context, cached, live client.Reader, wanted render.Object, owner types.UID) (bool, error) {
	gvk := wanted.GetObjectKind().GroupVersionKind()
	key := types.NamespacedName{Namespace: wanted.GetNamespace(), Name: wanted.GetName()}
	found, ok := wanted.DeepCopyObject().(client.Object)
	if !ok {
		return false, fmt.Errorf("%s is no API object", gvk.Kind)
	}
	if err := cached.Get(ctx, key, found); err == nil && OwnedBy(found, owner) {
		return false, nil
	}
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(gvk)
	err := live.Get(ctx, key, there)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether %s %s is free: %w", gvk.Kind, key.Name, err)
	}
	return !OwnedBy(there, owner), nil
}
