// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAReleaseIsInstalledWithItsDigests(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(want string) {
		t.Helper()
		e := &Env{Root: dir}
		if err := e.UseRelease(dir); err == nil || !strings.Contains(err.Error(), want) || e.release != nil {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
	refused("0 archives")
	put("bobtail-0.2.0.tgz", "")
	refused("images.json")
	put("images.json", `{"version": "0.2.0", "digests": {"operator": "sha256:1"}}`)
	refused("no digest of the image agent")
	put("images.json", `{"version": "0.2.0", "digests": {"operator": "sha256:1", "agent": "sha256:2", "load": "sha256:3"}}`)
	e := &Env{Root: dir}
	if err := e.UseRelease(dir); err != nil {
		t.Fatal(err)
	}
	want := []string{"--set", "image.digests.agent=sha256:2", "--set", "image.digests.operator=sha256:1"}
	if got := e.release.values(); !slices.Equal(got, want) || e.chartName() != "bobtail-0.2.0.tgz" {
		t.Errorf("%q, %s", got, e.chartName())
	}
	put("bobtail-0.1.0.tgz", "")
	refused("2 archives")
}
