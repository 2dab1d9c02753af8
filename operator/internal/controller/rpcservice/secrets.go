// SPDX-License-Identifier: Apache-2.0

// Secrets are not cached, so that the operator need not be allowed to list
// them; each look is a request. A settled service is looked at every few
// seconds, and nobody but the operator has reason to write its Secrets: so what
// was read is believed for a while.
package rpcservice

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// believed is how long a Secret that was read is taken for what it is.
const believed = 30 * time.Second

// secretsRead remembers Secrets by service and name. Its zero value is ready.
type secretsRead struct {
	mu   sync.Mutex
	read map[types.NamespacedName]map[string]secretRead
}

type secretRead struct {
	secret *corev1.Secret
	at     time.Time
}

// get returns a Secret of a service that was read a moment ago, or nil.
func (m *secretsRead) get(service types.NamespacedName, owner types.UID, name string, now time.Time) *corev1.Secret {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.read[service][name]
	if !ok || !now.Before(r.at.Add(believed)) || ownerUID(r.secret) != owner {
		return nil
	}
	return r.secret.DeepCopy()
}

func (m *secretsRead) put(service types.NamespacedName, s *corev1.Secret, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read == nil {
		m.read = map[types.NamespacedName]map[string]secretRead{}
	}
	if m.read[service] == nil {
		m.read[service] = map[string]secretRead{}
	}
	m.read[service][s.Name] = secretRead{secret: s.DeepCopy(), at: now}
}

// forget makes the next look at any Secret of the service a real one.
func (m *secretsRead) forget(service types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.read, service)
}

func ownerUID(o metav1.Object) types.UID {
	if owner := metav1.GetControllerOf(o); owner != nil {
		return owner.UID
	}
	return ""
}
