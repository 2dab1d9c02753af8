//go:build cluster

// SPDX-License-Identifier: Apache-2.0

// Package mainjob proves the main job on the embedded cluster: the demo's
// phases, then outages of every part of the control plane, rolling updates and
// a killed router under load, and removal without a trace.
package mainjob

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
// unless they would be meaningless without it. Of the short form (go test -short)
// are the parts of the main job itself.
type part struct {
	name        string
	must, short bool
	run         func(context.Context, *testing.T, *suite)
}

var parts = []part{
	{"clean slate", true, true, cleanSlate},
	{"every released chart", false, false, releasedCharts},
	{"install", true, false, install},
	{"upgrade from 0.1.0", true, false, upgrade},
	{"demo phases", true, true, demoPhases},
	{"patient routers", true, true, patient},
	{"invalid manifests", false, true, invalidManifests},
	{"stuck rollout", false, false, stuckRollout},
	{"operator down", false, false, operatorDown},
	{"sidecars down", false, false, sidecarsDown},
	{"apiserver down", false, false, apiserverDown},
	{"rolling update", false, true, rollingUpdate},
	{"router killed", false, false, routerKilled},
	{"nodes drained", false, false, drained},
	{"objects deleted by hand", false, false, deletedByHand},
	{"fast path", false, false, fastPath},
	{"fast path by the cluster", false, false, clusterFastPath},
	{"service in Go", false, false, goService},
	{"ports of their own", false, false, ownPorts},
	{"documentation", false, false, documentation},
	{"helm test", false, false, helmTest},
	{"delete", false, true, deleteService},
	{"uninstall", false, true, uninstall},
	{"installed elsewhere", false, false, elsewhere},
}

// chosen are the parts to play: those that BOBTAIL_ONLY names, a space of a name written
// as a dash, upon what they need; the short form; or all of them.
func chosen(only string, short bool) ([]part, error) {
	if only == "" {
		return slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return short && !p.short }), nil
	}
	named := map[string]part{}
	var all []harness.Part
	for _, p := range parts {
		name := strings.ReplaceAll(p.name, " ", "-")
		named[name] = p
		all = append(all, harness.Part{Name: name})
	}
	wanted, err := harness.Choose(all, strings.Split(only, ","))
	if err != nil {
		return nil, err
	}
	out := []part{{"clean slate", true, true, cleanSlate}}
	found := false // the service that all parts but that of the charts are about
	for _, w := range wanted {
		if w.Name != "every-released-chart" && !found {
			out, found = append(out, part{"service", true, true, served}), true
		}
		out = append(out, named[w.Name])
	}
	return out, nil
}

// served is what the other parts find: the chart of the tree, and the demo's service with
// patient routers.
func served(ctx context.Context, t *testing.T, s *suite) {
	check(t, s.env.Prepare(ctx, s.steps, namespace, service))
	_, err := s.env.ApplyService(ctx, filepath.Join(s.env.Root, "examples", "demo.yaml"), namespace, service)
	check(t, err)
	patient(ctx, t, s)
}

// target names the report: the short form owes fewer figures.
func target() string {
	if testing.Short() {
		return "e2e-main-short"
	}
	return "e2e-main"
}

func TestMainJob(t *testing.T) {
	root := os.Getenv("BOBTAIL_ROOT")
	if root == "" {
		t.Fatal("BOBTAIL_ROOT is not set: run `make e2e-main`, which starts the cluster first")
	}
	ctx := context.Background()
	steps, err := harness.NewSteps(root, target(), os.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	env, err := harness.NewEnv(ctx, root, steps.Log())
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{env: env, steps: steps, got: &harness.Measurements{}}
	defer func() {
		if err := s.got.Write(root, target()); err != nil {
			t.Error(err)
		}
	}()
	play, err := chosen(os.Getenv("BOBTAIL_ONLY"), testing.Short())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range play {
		ok := t.Run(p.name, func(t *testing.T) { p.run(ctx, t, s) })
		if !ok && p.must {
			t.Fatalf("%s failed: the rest would prove nothing; log build/log/%s.log", p.name, target())
		}
	}
}

// check ends the part on an error.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
