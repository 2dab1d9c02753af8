// SPDX-License-Identifier: Apache-2.0

// Kinds that a newer operator knows and an older installation does not serve.
package manager

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// servedEvery is how often a missing kind is looked for.
const servedEvery = 10 * time.Second

// whenServed sets a controller up as soon as the API server serves its kind.
// Until then a watch of that kind would fail, and with it every other
// controller of the manager.
type whenServed struct {
	mapper meta.RESTMapper
	kind   schema.GroupVersionKind
	every  time.Duration
	setup  func() error
}

// whenKindServed lets a controller wait for one of our kinds.
func whenKindServed(mgr ctrl.Manager, kind string, setup func(ctrl.Manager) error) error {
	return mgr.Add(&whenServed{
		mapper: mgr.GetRESTMapper(), kind: v1alpha1.GroupVersion.WithKind(kind), every: servedEvery,
		setup: func() error { return setup(mgr) },
	})
}

// NeedLeaderElection is false: an operator in waiting prepares itself, too.
func (w *whenServed) NeedLeaderElection() bool { return false }

// Start returns when the controller is set up, or ctx ends.
func (w *whenServed) Start(ctx context.Context) error {
	said := false
	err := wait.PollUntilContextCancel(ctx, w.every, true, func(ctx context.Context) (bool, error) {
		_, err := w.mapper.RESTMapping(w.kind.GroupKind(), w.kind.Version)
		if err == nil {
			return true, nil
		}
		if !said {
			said = true
			log.FromContext(ctx).Info("kind is not served, its controller waits; install the chart's CRDs (crds.install=true)",
				"kind", w.kind.Kind, "answer", err.Error())
		}
		return false, nil
	})
	if err != nil {
		return nil // the manager stops
	}
	if err := w.setup(); err != nil {
		return fmt.Errorf("set up the controller of %s: %w", w.kind.Kind, err)
	}
	return nil
}
