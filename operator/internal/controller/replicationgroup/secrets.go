// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/internal/controller/apply"
)

// believed is how long a Secret that was read is taken for what it is: Secrets are not
// cached, and a settled group is looked at every few seconds.
const believed = 30 * time.Second

// secretsRead remembers Secrets by group and name. Its zero value is ready.
type secretsRead struct {
	mu   sync.Mutex
	read map[types.NamespacedName]map[string]secretRead
}

type secretRead struct {
	secret *corev1.Secret
	at     time.Time
}

// get returns a Secret of a group that was read a moment ago, or nil.
func (m *secretsRead) get(group types.NamespacedName, owner types.UID, name string, now time.Time) *corev1.Secret {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.read[group][name]
	if !ok || !now.Before(r.at.Add(believed)) || !apply.OwnedBy(r.secret, owner) {
		return nil
	}
	return r.secret.DeepCopy()
}

func (m *secretsRead) put(group types.NamespacedName, s *corev1.Secret, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read == nil {
		m.read = map[types.NamespacedName]map[string]secretRead{}
	}
	if m.read[group] == nil {
		m.read[group] = map[string]secretRead{}
	}
	m.read[group][s.Name] = secretRead{secret: s.DeepCopy(), at: now}
}

// forget makes the next look at any Secret of the group a real one.
func (m *secretsRead) forget(group types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.read, group)
}
