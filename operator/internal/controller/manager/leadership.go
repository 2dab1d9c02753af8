// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/internal/switches/keeper"
)

// leadership says until when this process leads, for those whose writes no API server
// checks (W-20). Only the leader renews its lease, so nobody else leads before the lease
// is over that the leader wrote last.
type leadership struct {
	reader    client.Reader
	namespace string
	// host begins the identity that the controller runtime gives this process.
	host string
	// alone: no lease is held, nor asked for.
	alone bool
	now   func() time.Time

	mu     sync.Mutex
	holder string // as it was read first: ourselves
	term   keeper.Term
	readAt time.Time
}

// Bounds of reading the lease.
const (
	rereadLease  = 2 * time.Second
	leaseTimeout = 3 * time.Second
)

// Term is the term of this process; it fails when it does not lead.
func (l *leadership) Term(ctx context.Context) (keeper.Term, error) {
	if l.alone {
		return keeper.Term{Number: 1}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if l.holder != "" && now.Sub(l.readAt) < rereadLease {
		return l.term, nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	lease := &coordinationv1.Lease{}
	if err := l.reader.Get(ctx, types.NamespacedName{Namespace: l.namespace, Name: LeaseName}, lease); err != nil {
		if l.holder != "" && !l.term.Over(now) { // what is known holds until it is over
			return l.term, nil
		}
		return keeper.Term{}, fmt.Errorf("read the lease: %w", err)
	}
	return l.judge(lease, now)
}

// judge needs l.mu.
func (l *leadership) judge(lease *coordinationv1.Lease, now time.Time) (keeper.Term, error) {
	s := lease.Spec
	if s.HolderIdentity == nil || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return keeper.Term{}, errors.New("nobody holds the lease")
	}
	if !strings.HasPrefix(*s.HolderIdentity, l.host+"_") || l.holder != "" && l.holder != *s.HolderIdentity {
		l.term.Until = now // and no write is begun any more
		return keeper.Term{}, fmt.Errorf("%s holds the lease", *s.HolderIdentity)
	}
	l.holder, l.readAt = *s.HolderIdentity, now
	l.term = keeper.Term{Until: s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds) * time.Second)}
	if s.LeaseTransitions != nil {
		l.term.Number = int64(*s.LeaseTransitions)
	}
	return l.term, nil
}
