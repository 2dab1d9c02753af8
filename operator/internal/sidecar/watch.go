// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// desired is what the ConfigMap says, or why it says nothing usable.
type desired struct {
	text []byte
	hash string
	bad  *dataplane.ApplyError
}

// watcher follows one ConfigMap through restarts and outages of the API
// server, and hands every new content to out.
type watcher struct {
	kube   *kubeClient
	log    *slog.Logger
	out    func(desired)
	health *health
	failed func() // called once per failed round, for the metric

	minWait, maxWait time.Duration
}

// run returns when ctx ends.
func (w *watcher) run(ctx context.Context) {
	wait := w.minWait
	for ctx.Err() == nil {
		err := w.round(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			wait = w.minWait
		} else {
			w.failed()
			w.health.failed(err)
			w.log.Warn("ConfigMap not readable, the dataplane keeps what it has", "error", err, "retryIn", wait.String())
		}
		// Half of the wait is random, so that a thousand sidecars do not
		// return to a restarted API server in one instant.
		pause := wait/2 + rand.N(wait/2+1)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if err != nil {
			wait = min(2*wait, w.maxWait)
		}
	}
}

// round reads the ConfigMap and follows it until the watch ends. Starting
// every round with a get repairs whatever a broken watch missed.
func (w *watcher) round(ctx context.Context) error {
	version := ""
	cm, err := w.kube.get(ctx)
	switch {
	case hasStatus(err, http.StatusNotFound):
		w.health.worked("")
		w.out(missing(w.kube))
	case err != nil:
		return err
	default:
		w.take(cm)
		version = cm.Metadata.ResourceVersion
	}
	err = w.kube.watch(ctx, version, w.event)
	if hasStatus(err, http.StatusGone) {
		return nil // the version is too old to watch from: get again at once
	}
	return err
}

func (w *watcher) event(e watchEvent) error {
	switch e.Type {
	case "ADDED", "MODIFIED":
		cm := &configMap{}
		if err := json.Unmarshal(e.Object, cm); err != nil {
			return fmt.Errorf("API server: decode a watch event: %w", err)
		}
		w.take(cm)
	case "BOOKMARK":
		w.health.worked("")
	case "DELETED":
		w.health.worked("")
		w.out(missing(w.kube))
	case "ERROR":
		var s struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		}
		_ = json.Unmarshal(e.Object, &s)
		return &statusError{s.Code, s.Message}
	}
	return nil
}

// take hands a content on and notes that it was read.
func (w *watcher) take(cm *configMap) {
	d := read(cm)
	w.health.worked(d.hash)
	w.out(d)
}

// Codes of what is wrong before the dataplane is even asked.
const (
	codeMissing      = "ConfigMapMissing"
	codeIncomplete   = "ConfigMapIncomplete"
	codeHashMismatch = "HashMismatch"
)

func missing(k *kubeClient) desired {
	return desired{bad: &dataplane.ApplyError{
		Code:    codeMissing,
		Message: fmt.Sprintf("ConfigMap %s/%s does not exist; the operator creates it", k.namespace, k.name),
	}}
}

// read checks the ConfigMap against its own hash: a half-written or hand-edited
// one must not reach the dataplane.
func read(cm *configMap) desired {
	text, hash := cm.Data[dataplane.ConfigMapKeyConfig], cm.Data[dataplane.ConfigMapKeyHash]
	for key, value := range map[string]string{dataplane.ConfigMapKeyConfig: text, dataplane.ConfigMapKeyHash: hash} {
		if value == "" {
			return desired{bad: &dataplane.ApplyError{Code: codeIncomplete, Field: "data." + key, Message: "is missing", Hash: hash}}
		}
	}
	if got := dataplane.HashConfig([]byte(text)); got != hash {
		return desired{bad: &dataplane.ApplyError{
			Code: codeHashMismatch, Field: "data." + dataplane.ConfigMapKeyHash, Hash: hash,
			Message: fmt.Sprintf("must be the SHA-256 of data.%s, %s; let the operator write both", dataplane.ConfigMapKeyConfig, got),
		}}
	}
	return desired{text: []byte(text), hash: hash}
}
