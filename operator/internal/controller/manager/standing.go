// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/redirection"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/rpcservice"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/slo"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// standing asks CRAB's controller, once there is one: it begins when the API server
// serves its kind, which may be later than the services ask.
type standing struct {
	by      atomic.Pointer[redirection.Reconciler]
	awaited *awaited // set before the manager starts
	port    int      // of the agents
}

// of is nil where the operator is told of no CRAB.
func (s *standing) of(o Options) rpcservice.Redirection {
	if !o.CRAB {
		return nil
	}
	return s
}

// Standing is what the agents of all nodes say of a Service.
func (s *standing) Standing(ctx context.Context, service *corev1.Service) (bool, string, string, error) {
	by := s.by.Load()
	if by == nil {
		if _, missing := s.awaited.Lacks(); len(missing) > 0 {
			return false, v1alpha1.ReasonReconciling, "the operator waits for " + strings.Join(missing, "; ") + "; if that lasts, upgrade its chart, CRDs included (crds.install=true)", nil
		}
		return false, v1alpha1.ReasonReconciling, "the operator has just started", nil
	}
	ok, reason, message, err := by.Standing(ctx, service)
	var early *cache.ErrCacheNotStarted
	if errors.As(err, &early) {
		return false, v1alpha1.ReasonReconciling, "the operator has just started", nil
	}
	return ok, reason, message, err
}

// agents is nil where the operator is told of no CRAB.
func (s *standing) agents(o Options) slo.Agents {
	if !o.CRAB {
		return nil
	}
	return s
}

// Agents lists those of all nodes.
func (s *standing) Agents(ctx context.Context) ([]slo.Agent, error) {
	by := s.by.Load()
	if by == nil {
		return nil, slo.ErrEarly
	}
	all, err := by.Agents(ctx)
	var early *cache.ErrCacheNotStarted
	if errors.As(err, &early) {
		return nil, slo.ErrEarly
	}
	var out []slo.Agent
	for _, a := range all {
		out = append(out, slo.Agent{Node: a.Node, Version: a.Version, Expected: a.AtWork, Target: dataplane.AgentTarget(a.Address, s.port)})
	}
	return out, err
}
