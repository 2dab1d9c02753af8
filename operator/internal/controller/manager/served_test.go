// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// servesLater serves a kind from its third question on.
type servesLater struct {
	meta.RESTMapper
	asked atomic.Int32
}

func (m *servesLater) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if m.asked.Add(1) < 3 {
		return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
	}
	return &meta.RESTMapping{}, nil
}

func experimentsWhenServed(m meta.RESTMapper, setup func() error) *whenServed {
	return &whenServed{mapper: m, kind: v1alpha1.GroupVersion.WithKind("LatencyExperiment"), every: time.Millisecond, setup: setup}
}

func TestControllerWaitsForItsKind(t *testing.T) {
	mapper, setUp := &servesLater{}, 0
	w := experimentsWhenServed(mapper, func() error {
		if asked := mapper.asked.Load(); asked != 3 {
			t.Errorf("set up after %d questions, want 3", asked)
		}
		setUp++
		return nil
	})
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if setUp != 1 {
		t.Errorf("set up %d times, want once", setUp)
	}
}

func TestFailedSetUpStopsTheManager(t *testing.T) {
	w := experimentsWhenServed(&servesLater{}, func() error { return errors.New("no room") })
	if err := w.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "LatencyExperiment: no room") {
		t.Errorf("Start() = %v, want the kind and the cause", err)
	}
}

func TestWaitingEndsWithTheManager(t *testing.T) {
	mapper := &servesLater{}
	mapper.asked.Store(-1 << 30)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	w := experimentsWhenServed(mapper, func() error { t.Error("set up without its kind"); return nil })
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
}
