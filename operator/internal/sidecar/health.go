// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"errors"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// health is how the sidecar fares with its ConfigMap. Whoever asks must see a token
// that the API server takes no more: the dataplane serves on with what it has, and
// nothing else would show that it hears of no change.
type health struct {
	now func() time.Time

	mu      sync.Mutex
	hash    string
	read    time.Time // zero: never
	failing time.Time // since when; zero: the last attempt did not fail
	err     error
}

// worked notes an answer of the API server.
func (h *health) worked(hash string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.read, h.failing, h.err = h.now(), time.Time{}, nil
	if hash != "" {
		h.hash = hash
	}
}

// failed notes an attempt that failed.
func (h *health) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err = err; h.failing.IsZero() {
		h.failing = h.now()
	}
}

func (h *health) state() *dataplane.WatchState {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := &dataplane.WatchState{Hash: h.hash, ReadSecondsAgo: -1}
	if !h.read.IsZero() {
		w.ReadSecondsAgo = int64(h.now().Sub(h.read).Seconds())
	}
	if h.err == nil {
		return w
	}
	w.FailingSeconds, w.Error = int64(h.now().Sub(h.failing).Seconds()), h.err.Error()
	var refused *statusError
	if errors.As(h.err, &refused) {
		w.Status = refused.Code
	}
	return w
}
