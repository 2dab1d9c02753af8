// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// A write has seconds, not none, and not for ever: an API server may be slow, or away.
func TestWritesEndOnTheirOwn(t *testing.T) {
	a, left := newAPI(t), []time.Duration(nil)
	watched := interceptor.NewClient(a.WithWatch, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if end, bounded := ctx.Deadline(); bounded {
				left = append(left, time.Until(end))
			}
			return c.Apply(ctx, o, opts...)
		}})
	w := &writer{client: watched, node: "n"}
	w.tell(t.Context(), &v1alpha1.NodeHost{IOMMU: v1alpha1.IOMMUOn})
	if len(left) == 0 || left[0] < time.Second || left[0] > time.Minute {
		t.Errorf("a write has %v", left)
	}
}
