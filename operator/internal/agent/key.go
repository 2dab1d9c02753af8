// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/heartbeat"
)

// The Secret with the key of heartbeats. The chart makes it, empty; the first
// agent writes the key. To exchange the key, move it to "previous" and write
// another one (docs/guides/crab.md).
const (
	secretName  = "bobtail-heartbeat"
	keyCurrent  = "key"
	keyPrevious = "previous"
	// keysEvery is how often the mounted Secret is looked at. The kubelet brings it
	// up to date within two minutes.
	keysEvery = 2 * time.Second
)

// heartbeatKeys reads the keys, the one to sign with first, and makes the first
// one. It asks the API server, because the mounted Secret may be out of date.
func heartbeatKeys(ctx context.Context, c client.Client, namespace string) ([][]byte, error) {
	for {
		s := &corev1.Secret{}
		if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: secretName}, s); err != nil {
			return nil, fmt.Errorf("read the key of heartbeats: %w", err)
		}
		if keys, err := keysOf(s.Data); err != nil || keys != nil {
			return keys, err
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

// keysOf reads the Secret; nil when there is no key yet.
func keysOf(data map[string][]byte) ([][]byte, error) {
	var keys [][]byte
	for _, name := range []string{keyCurrent, keyPrevious} {
		key := data[name]
		if len(key) == 0 && name == keyCurrent {
			return nil, nil
		}
		if len(key) == 0 {
			continue
		}
		if len(key) < heartbeat.MinKey {
			return nil, fmt.Errorf("the key of heartbeats: Secret %s: %s has %d bytes, at least %d are needed", secretName, name, len(key), heartbeat.MinKey)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// keyring follows the mounted Secret.
type keyring struct {
	dir  string
	set  func([][]byte) error
	seen map[string][]byte
	// loaded and refused count changes of the Secret.
	loaded, refused atomic.Uint64
}

// newKeyring takes what is mounted now for known: only a change counts, because
// what the API server said a moment ago may be newer.
func newKeyring(dir string, set func([][]byte) error) *keyring {
	k := &keyring{dir: dir, set: set}
	k.seen, _ = k.read()
	return k
}

func (k *keyring) run(ctx context.Context) {
	tick := time.NewTicker(keysEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.look()
		}
	}
}

// look for a change. A Secret that cannot be used changes nothing, and is told of once.
func (k *keyring) look() {
	data, err := k.read()
	if err == nil && bytes.Equal(data[keyCurrent], k.seen[keyCurrent]) && bytes.Equal(data[keyPrevious], k.seen[keyPrevious]) {
		return
	}
	if err != nil {
		return // the kubelet is exchanging it, or it is not mounted
	}
	k.seen = data
	keys, err := keysOf(data)
	if err == nil && keys == nil {
		err = errors.New("the key of heartbeats is gone from the Secret; the last one goes on")
	}
	if err == nil {
		err = k.set(keys)
	}
	if err != nil {
		k.refused.Add(1)
		slog.Error("another key of heartbeats was not taken", "error", err)
		return
	}
	k.loaded.Add(1)
	slog.Info("the keys of heartbeats were read anew", "keys", len(keys))
}

func (k *keyring) read() (map[string][]byte, error) {
	data := map[string][]byte{}
	for _, name := range []string{keyCurrent, keyPrevious} {
		raw, err := os.ReadFile(filepath.Join(k.dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		data[name] = raw
	}
	return data, nil
}
