//go:build cluster

// SPDX-License-Identifier: Apache-2.0

package mainjob

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// elsewhere installs the chart in another namespace after it was uninstalled: refused
// at first, because the CRDs that were kept belong to the old release, and then by the
// way that the notes of the chart name first (K-9). The CRDs are the same objects
// before and after: with them every RpcService would be.
func elsewhere(ctx context.Context, t *testing.T, s *suite) {
	const other = "bobtail-elsewhere"
	uids := func() string {
		out, err := s.env.Kubectl(ctx, "get", "crd", "-l", "app.kubernetes.io/part-of=bobtail", "-o", "jsonpath={.items[*].metadata.uid}")
		check(t, err)
		return out
	}
	install := func() (string, error) {
		return s.env.Helm(ctx, "install", "bobtail", filepath.Join(s.env.Root, "charts", "bobtail"),
			"--namespace", other, "--create-namespace", "--wait", "--timeout", "180s")
	}
	before := uids()
	if out, err := install(); err == nil || !strings.Contains(err.Error(), "meta.helm.sh/release-namespace") {
		t.Fatalf("installed without a word over CRDs of another release, or refused for another reason: %v\n%s", err, out)
	}
	notes, err := s.env.Helm(ctx, "install", "bobtail", filepath.Join(s.env.Root, "charts", "bobtail"), "--namespace", other, "--dry-run=client")
	check(t, err)
	command := first(notes, "kubectl annotate crd")
	command = strings.NewReplacer("=NAMESPACE", "="+other, "=NAME", "=bobtail").Replace(command)
	_, err = s.env.Run(ctx, command, "bash", "-euo", "pipefail")
	check(t, err)
	_, err = install()
	check(t, err)
	if after := uids(); before == "" || after != before {
		t.Errorf("the CRDs are others than before: %s, %s", before, after)
	}
	_, err = s.env.Helm(ctx, "uninstall", "bobtail", "--namespace", other, "--wait", "--timeout", "120s")
	check(t, err)
	// The next run is one of the usual namespace again.
	command = strings.ReplaceAll(command, "="+other, "="+harness.SystemNamespace)
	_, err = s.env.Run(ctx, command, "bash", "-euo", "pipefail")
	check(t, err)
	_, err = s.env.Kubectl(ctx, "delete", "namespace", other, "--wait=true")
	check(t, err)
}

// first is the first command in a text that begins so, with the lines it goes on in.
func first(text, begin string) string {
	_, rest, ok := strings.Cut(text, begin)
	if !ok {
		return "echo 'the notes do not name " + begin + "' >&2; exit 1"
	}
	command := begin
	for line := range strings.Lines(rest) {
		command += line
		if !strings.HasSuffix(strings.TrimSpace(line), `\`) {
			break
		}
	}
	return command
}
