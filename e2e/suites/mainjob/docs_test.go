//go:build cluster

// SPDX-License-Identifier: Apache-2.0

package mainjob

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	yamlBlock  = regexp.MustCompile("(?ms)^```yaml[^\n]*\n(.*?)^```")
	shellBlock = regexp.MustCompile("(?ms)^```sh cluster[^\n]*\n(.*?)^```")
)

// documentation applies (server-side, dry) every manifest that examples and
// pages show, and runs every shell block tagged `cluster`, in this cluster.
func documentation(ctx context.Context, t *testing.T, s *suite) {
	pages, err := filepath.Glob(filepath.Join(s.env.Root, "docs", "*", "*.md"))
	check(t, err)
	pages = append(pages, filepath.Join(s.env.Root, "README.md"), filepath.Join(s.env.Root, "examples", "README.md"))
	manifests, commands := 0, 0
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		check(t, err)
		for _, m := range yamlBlock.FindAllStringSubmatch(string(raw), -1) {
			if !strings.Contains(m[1], "apiVersion:") || !strings.Contains(m[1], "kind:") {
				continue
			}
			manifests++
			if _, err := s.env.Run(ctx, m[1], "kubectl", "apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", "-"); err != nil {
				t.Errorf("%s: a manifest shown there is refused: %v", filepath.Base(page), err)
			}
		}
		for _, m := range shellBlock.FindAllStringSubmatch(string(raw), -1) {
			commands++
			if _, err := s.env.Run(ctx, m[1], "bash", "-euo", "pipefail"); err != nil {
				t.Errorf("%s: a command block fails: %v", filepath.Base(page), err)
			}
		}
	}
	// A dry run makes no namespace: that of the demo is here, this one is not.
	_, err = s.env.Kubectl(ctx, "create", "namespace", portsNamespace)
	check(t, err)
	examples, err := filepath.Glob(filepath.Join(s.env.Root, "examples", "*.yaml"))
	check(t, err)
	for _, file := range examples {
		manifests++
		if _, err := s.env.Kubectl(ctx, "apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", file); err != nil {
			t.Errorf("%s is refused: %v", filepath.Base(file), err)
		}
	}
	_, err = s.env.Kubectl(ctx, "delete", "namespace", portsNamespace, "--wait=true")
	check(t, err)
	s.steps.Say("     %d manifests and %d command blocks of the documentation hold", manifests, commands)
	if manifests < 4 {
		t.Errorf("found only %d manifests in the documentation; the search must be wrong", manifests)
	}
}
