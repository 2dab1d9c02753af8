// SPDX-License-Identifier: Apache-2.0

// The authority lives in one Secret of the operator's namespace. The store
// reads it, makes it when it is missing, and follows it when it changes.
package pki

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// SecretName is where the authority lives.
const SecretName = "bobtail-ca"

// reread is how long the store believes what it has read.
const reread = time.Minute

// retry is how long it goes on with what it has after a read that failed.
const retry = 5 * time.Second

// Store keeps the authority. It is safe for concurrent use.
type Store struct {
	// Reader reads past the cache: Secrets are not cached.
	Reader client.Reader
	// Writer writes the Secret.
	Writer client.Writer
	// Namespace is the operator's own.
	Namespace string
	// Now is the clock.
	Now func() time.Time
	// OnChange, when set, is told that the authority has changed, so that
	// connections made with the old one are given up.
	OnChange func()

	mu        sync.Mutex
	authority *Authority
	readAt    time.Time
	client    tls.Certificate
	clientEnd time.Time
}

// Authority returns the authority, making it on the first call of its life.
func (s *Store) Authority(ctx context.Context) (*Authority, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load(ctx)
}

// Credentials are what the operator presents to sidecars and trusts of them.
func (s *Store) Credentials() (dataplane.Credentials, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.load(ctx)
	if err != nil {
		return dataplane.Credentials{}, err
	}
	if now := s.Now(); now.After(s.clientEnd) {
		c, err := a.IssueClient(dataplane.OperatorCommonName, now)
		if err != nil {
			return dataplane.Credentials{}, err
		}
		s.client, s.clientEnd = c, now.Add(clientLife/2)
	}
	return dataplane.Credentials{Certificate: s.client, Roots: a.Pool()}, nil
}

func (s *Store) load(ctx context.Context) (*Authority, error) {
	now := s.Now()
	if s.authority != nil && now.Before(s.readAt.Add(reread)) {
		return s.authority, nil
	}
	secret := &corev1.Secret{}
	err := s.Reader.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: SecretName}, secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing && s.authority != nil && !s.authority.Expiring(now) {
		// An API server that stumbles does not make a good authority bad: the
		// dataplane can still be read. Look again soon, not at every call.
		s.readAt = now.Add(retry - reread)
		return s.authority, nil
	}
	if err != nil && !missing {
		return nil, fmt.Errorf("read Secret %s/%s, which holds the operator's certificate authority: %w", s.Namespace, SecretName, err)
	}
	a, err := s.ensure(ctx, secret, missing, now)
	if err != nil {
		return nil, err
	}
	if s.authority == nil || !s.authority.certificate.Equal(a.certificate) {
		s.clientEnd = time.Time{}
		if s.authority != nil && s.OnChange != nil {
			s.OnChange()
		}
	}
	s.authority, s.readAt = a, now
	return a, nil
}

// ensure parses the Secret, or fills it when it is new, broken or near its end.
// An optimistic write keeps two leaders in a hand-over from overwriting each
// other: the loser reads the winner's next time.
func (s *Store) ensure(ctx context.Context, secret *corev1.Secret, missing bool, now time.Time) (*Authority, error) {
	a, err := ParseAuthority(secret.Data)
	if err == nil && !a.Expiring(now) {
		return a, nil
	}
	a, err = NewAuthority(now, secret.Data[KeyBundle])
	if err != nil {
		return nil, err
	}
	if secret.Data, err = a.Data(); err != nil {
		return nil, err
	}
	if missing {
		secret.ObjectMeta = metav1.ObjectMeta{Namespace: s.Namespace, Name: SecretName}
		err = s.Writer.Create(ctx, secret)
	} else {
		err = s.Writer.Update(ctx, secret)
	}
	if err != nil {
		return nil, fmt.Errorf("write Secret %s/%s, which holds the operator's certificate authority: %w", s.Namespace, SecretName, err)
	}
	return a, nil
}
