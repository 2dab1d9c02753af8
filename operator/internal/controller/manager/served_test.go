// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/features"
)

// givesLater gives everything from its third answer about the kind on.
type givesLater struct {
	asked atomic.Int32
	fails error
}

func (g *givesLater) Served(context.Context, string) (bool, error) {
	return g.asked.Add(1) >= 3, g.fails
}

func (g *givesLater) May(context.Context, string, string, string) (bool, error) { return true, nil }

func experiments(c features.Cluster, begin func() error) *awaited {
	return &awaited{feature: features.Find(features.Experiments), cluster: c, every: time.Millisecond, begin: begin}
}

// Decision 0024: a feature begins once, when nothing is missing any more, and says what is.
func TestFeatureWaitsForWhatItNeeds(t *testing.T) {
	cluster, begun := &givesLater{}, 0
	w := experiments(cluster, func() error {
		if asked := cluster.asked.Load(); asked != 3 {
			t.Errorf("begun after %d questions, want 3", asked)
		}
		begun++
		return nil
	})
	if done, missing := w.Lacks(); done || missing != nil {
		t.Errorf("before the first answer: %v, %v", done, missing)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done, missing := w.Lacks(); begun != 1 || !done || missing != nil {
		t.Errorf("begun %d times, want once; %v, %v", begun, done, missing)
	}
}

// An API server that gives no answer is no reason to say that something is missing.
func TestNoAnswerIsNotALack(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	w := experiments(&givesLater{fails: errors.New("no route to host")}, func() error { t.Error("begun without an answer"); return nil })
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if done, missing := w.Lacks(); done || missing != nil {
		t.Errorf("without an answer: %v, %v", done, missing)
	}
}

func TestFailedBeginningStopsTheManager(t *testing.T) {
	w := experiments(&givesLater{}, func() error { return errors.New("no room") })
	if err := w.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "LatencyExperiment: no room") {
		t.Errorf("Start() = %v, want the feature and the cause", err)
	}
	if done, _ := w.Lacks(); done {
		t.Error("it has begun")
	}
}

func TestWaitingEndsWithTheManager(t *testing.T) {
	cluster := &givesLater{}
	cluster.asked.Store(-1 << 30)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	w := experiments(cluster, func() error { t.Error("begun without its kind"); return nil })
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if done, missing := w.Lacks(); done || len(missing) != 1 || missing[0] != "kind LatencyExperiment" {
		t.Errorf("%v, %v", done, missing)
	}
}
