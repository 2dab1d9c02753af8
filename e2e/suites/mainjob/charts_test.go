//go:build cluster

// SPDX-License-Identifier: Apache-2.0

package mainjob

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// releasedCharts upgrades from every chart that users may have, with their values and
// none of the new defaults, and sets each value of the new chart to null (K-8). The
// API server judges what is rendered.
func releasedCharts(ctx context.Context, t *testing.T, s *suite) {
	check(t, s.env.LoadImages(ctx))
	cleanSlate(ctx, t, s)
	packed, err := filepath.Glob(filepath.Join(s.env.Root, "charts", "testdata", "released", "*.tgz"))
	check(t, err)
	if len(packed) < 9 {
		t.Fatalf("%d packed charts", len(packed))
	}
	failed := 0
	for _, chart := range append([]string{baseline(s)}, packed...) {
		if err := upgradeFrom(ctx, t, s, chart); err != nil {
			failed++
			t.Errorf("from %s: %v", filepath.Base(chart), err)
		}
	}
	s.got.Set("helm_upgrade_failures", failed)
	nulls, err := nullFailures(ctx, t, s)
	check(t, err)
	s.got.Set("helm_values_null_failures", nulls)
	cleanSlate(ctx, t, s)
}

func baseline(s *suite) string {
	return filepath.Join(s.env.Root, "charts", "baseline", "bobtail-0.1.0.tgz")
}

func newChart(s *suite) string { return filepath.Join(s.env.Root, "charts", "bobtail") }

// nobodysKinds are charts whose own kinds no API server takes, with what it says of them: nobody can have them. Their values
// are tried in charts/reuse_test.go, as those of all others are.
var nobodysKinds = map[string]string{
	"bobtail-0.2.0-1.tgz": "properties[router].default: Invalid value: \"object\": no such key: placement",
}

// upgradeFrom waits for the new operator, and for nothing of the old one. Each chart finds
// the kinds that it brings itself, as its users had it, and not newer ones.
func upgradeFrom(ctx context.Context, t *testing.T, s *suite, chart string) error {
	_, err := s.env.Helm(ctx, "install", "bobtail", chart, "--namespace", harness.SystemNamespace, "--create-namespace",
		"--set", "image.version="+s.env.Version)
	switch refused := nobodysKinds[filepath.Base(chart)]; {
	case err != nil && refused != "" && strings.Contains(err.Error(), refused):
		t.Logf("from %s: its kinds are refused, so there is nothing to upgrade from", filepath.Base(chart))
		err = nil
	case err == nil:
		_, err = s.env.Helm(ctx, "upgrade", "bobtail", newChart(s), "--namespace", harness.SystemNamespace, "--reuse-values", "--wait", "--timeout", "120s")
	}
	_, gone := s.env.Helm(ctx, "uninstall", "bobtail", "--namespace", harness.SystemNamespace, "--wait", "--timeout", "120s")
	_, forgotten := s.env.Kubectl(ctx, "delete", "crd", "-l", "app.kubernetes.io/part-of=bobtail", "--ignore-not-found", "--wait=true")
	return errors.Join(err, gone, forgotten)
}

// nullFailures counts values whose null the chart or the API server refuses.
func nullFailures(ctx context.Context, t *testing.T, s *suite) (int, error) {
	text, err := os.ReadFile(filepath.Join(newChart(s), "values.yaml"))
	if err != nil {
		return 0, err
	}
	all := map[string]any{}
	if err := yaml.Unmarshal(text, &all); err != nil {
		return 0, err
	}
	failed := 0
	for _, key := range valueKeys("", all) {
		if _, err := s.env.Helm(ctx, "upgrade", "--install", "bobtail", newChart(s), "--namespace", harness.SystemNamespace, "--dry-run=server",
			"--set", "crab.enabled=true,crab.vipPool={192.0.2.0/28}", "--set", key+"=null"); err != nil {
			failed++
			t.Errorf("--set %s=null: %v", key, err)
		}
	}
	return failed, nil
}

// valueKeys are the paths of all values, sections included.
func valueKeys(path string, of map[string]any) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		at := strings.TrimPrefix(path+"."+key, ".")
		out = append(out, at)
		if section, ok := of[key].(map[string]any); ok {
			out = append(out, valueKeys(at, section)...)
		}
	}
	return out
}
