// SPDX-License-Identifier: Apache-2.0

// Package secrets remembers Secrets that were read a moment ago. Secrets are not
// cached, so that the operator need not be allowed to list them; each look is a
// request. A settled object is looked at every few seconds, and nobody but the
// operator has reason to write its Secrets: so what was read is believed for a while.
package secrets

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/internal/controller/apply"
)

// Believed is how long a Secret that was read is taken for what it is.
const Believed = 30 * time.Second

// Read remembers Secrets by the object they are of and by name. Its zero value is ready.
type Read struct {
	mu   sync.Mutex
	read map[types.NamespacedName]map[string]one
}

type one struct {
	secret *corev1.Secret
	at     time.Time
}

// Get returns a Secret of an object that was read a moment ago, or nil.
func (m *Read) Get(of types.NamespacedName, owner types.UID, name string, now time.Time) *corev1.Secret {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.read[of][name]
	if !ok || !now.Before(r.at.Add(Believed)) || !apply.OwnedBy(r.secret, owner) {
		return nil
	}
	return r.secret.DeepCopy()
}

// Put remembers a Secret that was read or written now.
func (m *Read) Put(of types.NamespacedName, s *corev1.Secret, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read == nil {
		m.read = map[types.NamespacedName]map[string]one{}
	}
	if m.read[of] == nil {
		m.read[of] = map[string]one{}
	}
	m.read[of][s.Name] = one{secret: s.DeepCopy(), at: now}
}

// Forget makes the next look at any Secret of the object a real one.
func (m *Read) Forget(of types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.read, of)
}
