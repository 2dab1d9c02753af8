// SPDX-License-Identifier: Apache-2.0

// The certificate of CRAB's agents lives in one Secret of the operator's namespace,
// which they all mount.
package pki

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// AgentSecretName is where that certificate lives.
const AgentSecretName = "bobtail-agent-tls"

// Agents keeps the agents' certificate fresh while this operator leads.
type Agents struct {
	Store *Store
	// Client reads past the cache, and writes.
	Client client.Client
}

// NeedLeaderElection is true: one operator writes.
func (a *Agents) NeedLeaderElection() bool { return true }

// Start looks at the certificate every minute until ctx ends.
func (a *Agents) Start(ctx context.Context) error {
	tick := time.NewTicker(reread)
	defer tick.Stop()
	for {
		if why, err := a.renew(ctx); err != nil {
			log.FromContext(ctx).Error(err, "the agents' certificate could not be looked after; it is tried again in a minute")
		} else if why != "" {
			log.FromContext(ctx).Info("agents' certificate issued anew", "why", why)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// renew issues it anew where it must be, and says why. The chart makes the Secret,
// so that it goes away with the chart; one that somebody has deleted is not made here,
// because that cannot be told from a chart that is being taken away.
func (a *Agents) renew(ctx context.Context) (why string, err error) {
	secret := &corev1.Secret{}
	if err := a.Client.Get(ctx, types.NamespacedName{Namespace: a.Store.Namespace, Name: AgentSecretName}, secret); apierrors.IsNotFound(err) {
		return "", fmt.Errorf("there is no Secret %s/%s: `helm upgrade` makes it again, and it is filled within a minute; without it agents that start later are not read, "+
			"and objectives on TCP services become MeasurementIncomplete", a.Store.Namespace, AgentSecretName)
	} else if err != nil {
		return "", fmt.Errorf("read Secret %s: %w", AgentSecretName, err)
	}
	authority, err := a.Store.Authority(ctx)
	if err != nil {
		return "", err
	}
	now := a.Store.Now()
	if why = authority.Stale(secret.Data, dataplane.AgentServerName, now); why == "" {
		return "", nil
	}
	before := secret.DeepCopy()
	if secret.Data, err = authority.IssueServer(dataplane.AgentServerName, now); err != nil {
		return "", err
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := a.Client.Patch(ctx, secret, patch); err != nil {
		return "", fmt.Errorf("write Secret %s: %w", AgentSecretName, err)
	}
	return why, nil
}
