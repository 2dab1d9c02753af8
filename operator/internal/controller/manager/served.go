// SPDX-License-Identifier: Apache-2.0

// Features whose kinds an older chart does not install, or whose rights an older Role
// does not give. A watch that cannot be had ends the manager, and with it every other
// controller: so it begins only once it can be had (decision 0024).
package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/features"
)

// askedEvery is how often something missing is looked for.
const askedEvery = 10 * time.Second

// asking asks the API server, as the operator. It keeps no answer.
type asking struct {
	mapper meta.RESTMapper
	client client.Client
}

// Served says whether the API server serves a kind of ours.
func (a asking) Served(_ context.Context, kind string) (bool, error) {
	gk := v1alpha1.GroupVersion.WithKind(kind)
	_, err := a.mapper.RESTMapping(gk.GroupKind(), gk.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// May says whether the operator may do something everywhere.
func (a asking) May(ctx context.Context, group, resource, verb string) (bool, error) {
	resource, sub, _ := strings.Cut(resource, "/")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: group, Resource: resource, Subresource: sub, Verb: verb},
	}}
	err := a.client.Create(ctx, review)
	if apierrors.IsForbidden(err) { // who may not even ask may hardly do it
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// awaited is a feature that begins as soon as nothing is missing.
type awaited struct {
	feature features.Feature
	cluster features.Cluster
	every   time.Duration
	begin   func() error

	mu      sync.Mutex
	begun   bool
	missing []string // of the last answer
}

// await lets a feature wait for what it needs.
func await(mgr ctrl.Manager, name string, begin func(ctrl.Manager) error) (*awaited, error) {
	w := &awaited{
		feature: features.Find(name), cluster: asking{mgr.GetRESTMapper(), mgr.GetClient()}, every: askedEvery,
		begin: func() error { return begin(mgr) },
	}
	if err := mgr.Add(w); err != nil {
		return nil, fmt.Errorf("wait for what %s needs: %w", w.feature.About, err)
	}
	return w, nil
}

// NeedLeaderElection is false: an operator in waiting prepares itself, too.
func (w *awaited) NeedLeaderElection() bool { return false }

// Start returns when the feature has begun, or ctx ends.
func (w *awaited) Start(ctx context.Context) error {
	said := ""
	err := wait.PollUntilContextCancel(ctx, w.every, true, func(ctx context.Context) (bool, error) {
		missing, err := w.feature.Missing(ctx, w.cluster)
		if err != nil { // nobody knows, which is not to say that something is missing
			missing = []string{"an answer of the API server: " + err.Error()}
		} else {
			w.note(missing)
		}
		if now := strings.Join(missing, "; "); now != said && now != "" {
			said = now
			log.FromContext(ctx).Info("a feature waits for what it needs: upgrade the chart together with the operator, CRDs included (crds.install=true)",
				"feature", w.feature.About, "missing", now)
		}
		return len(missing) == 0, nil
	})
	if err != nil {
		return nil // the manager stops
	}
	if err := w.begin(); err != nil {
		return fmt.Errorf("begin with %s: %w", w.feature.About, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = true
	return nil
}

func (w *awaited) note(missing []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missing = missing
}

// Lacks says what is missing; begun: nothing, and the watches are there. With neither
// there was no answer yet.
func (w *awaited) Lacks() (begun bool, missing []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun, slices.Clone(w.missing)
}
