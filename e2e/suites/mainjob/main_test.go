//go:build cluster

// SPDX-License-Identifier: Apache-2.0

// Package mainjob proves the main job on the embedded cluster: the demo's
// phases, then outages of every part of the control plane, rolling updates and
// a killed router under load, and removal without a trace.
package mainjob

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/suites/demo"
)

const (
	namespace = demo.Namespace
	service   = demo.Service
	// outage is how long each part of the control plane is gone.
	outage = 32 * time.Second
)

// suite is what the ordered parts of the test share.
type suite struct {
	env    *harness.Env
	steps  *harness.Steps
	got    *harness.Measurements
	before map[string]bool
}

// part is one step of the story; a part that fails does not stop the next ones
// unless they would be meaningless without it.
type part struct {
	name string
	must bool
	run  func(context.Context, *testing.T, *suite)
}

func TestMainJob(t *testing.T) {
	root := os.Getenv("BOBTAIL_ROOT")
	if root == "" {
		t.Fatal("BOBTAIL_ROOT is not set: run `make e2e-main`, which starts the cluster first")
	}
	ctx := context.Background()
	steps, err := harness.NewSteps(root, "e2e-main", os.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	env, err := harness.NewEnv(ctx, root, steps.Log())
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{env: env, steps: steps, got: &harness.Measurements{}}
	defer func() {
		if err := s.got.Write(root, "e2e-main"); err != nil {
			t.Error(err)
		}
	}()
	for _, p := range []part{
		{"install", true, install},
		{"upgrade from 0.1.0", true, upgrade},
		{"demo phases", true, demoPhases},
		{"patient routers", true, patient},
		{"invalid manifests", false, invalidManifests},
		{"stuck rollout", false, stuckRollout},
		{"operator down", false, operatorDown},
		{"sidecars down", false, sidecarsDown},
		{"apiserver down", false, apiserverDown},
		{"rolling update", false, rollingUpdate},
		{"router killed", false, routerKilled},
		{"objects deleted by hand", false, long(deletedByHand)},
		{"fast path", false, fastPath},
		{"fast path by the cluster", false, clusterFastPath},
		{"service in Go", false, goService},
		{"ports of their own", false, ownPorts},
		{"documentation", false, documentation},
		{"helm test", false, helmTest},
		{"delete", false, deleteService},
		{"uninstall", false, uninstall},
	} {
		ok := t.Run(p.name, func(t *testing.T) { p.run(ctx, t, s) })
		if !ok && p.must {
			t.Fatalf("%s failed: the rest would prove nothing; log build/log/e2e-main.log", p.name)
		}
	}
}

// long leaves a part out where the short form is asked for, by BOBTAIL_SHORT.
func long(run func(context.Context, *testing.T, *suite)) func(context.Context, *testing.T, *suite) {
	return func(ctx context.Context, t *testing.T, s *suite) {
		if os.Getenv("BOBTAIL_SHORT") != "" {
			t.Skip("left out of the short form")
		}
		run(ctx, t, s)
	}
}

// check ends the part on an error.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
