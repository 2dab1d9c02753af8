// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// lagsSeen remembers by service and pod since when a peer has run another document than
// the ConfigMap's. Its zero value is ready.
type lagsSeen struct {
	mu sync.Mutex
	of map[types.NamespacedName]map[string]time.Time
}

func (m *lagsSeen) get(service types.NamespacedName) map[string]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[service]
}

func (m *lagsSeen) put(service types.NamespacedName, pods map[string]time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(pods) == 0 {
		delete(m.of, service)
		return
	}
	if m.of == nil {
		m.of = map[types.NamespacedName]map[string]time.Time{}
	}
	m.of[service] = pods
}
