// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/heartbeat"
)

// The Secret with the key of heartbeats. The chart makes it, empty; the first
// agent writes the key. To exchange the key, move it to "previous", write another
// one, and restart the agents; then remove "previous".
const (
	secretName  = "bobtail-heartbeat"
	keyCurrent  = "key"
	keyPrevious = "previous"
)

// heartbeatKeys reads the keys, the one to sign with first, and makes the first one.
func heartbeatKeys(ctx context.Context, c client.Client, namespace string) ([][]byte, error) {
	for {
		s := &corev1.Secret{}
		if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: secretName}, s); err != nil {
			return nil, fmt.Errorf("read the key of heartbeats: %w", err)
		}
		if key := s.Data[keyCurrent]; len(key) >= heartbeat.MinKey {
			keys := [][]byte{key}
			if previous := s.Data[keyPrevious]; len(previous) >= heartbeat.MinKey {
				keys = append(keys, previous)
			}
			return keys, nil
		} else if len(key) > 0 {
			return nil, fmt.Errorf("the key of heartbeats: Secret %s/%s: %s has %d bytes, at least %d are needed", namespace, secretName, keyCurrent, len(key), heartbeat.MinKey)
		}
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[keyCurrent] = key
		// Whoever comes second finds another version there, and takes that key.
		if err := c.Update(ctx, s); err != nil && !apierrors.IsConflict(err) {
			return nil, fmt.Errorf("write the key of heartbeats: %w", err)
		}
	}
}
