// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Everything of a folder goes, links before the maps; what is not there is no
// error. A link that stays keeps the maps it uses.
func TestRemoveTakesEverythingAway(t *testing.T) {
	root := filepath.Join(t.TempDir(), "crab")
	put := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	there := func(path string) bool {
		_, err := os.Stat(path)
		return !errors.Is(err, fs.ErrNotExist)
	}
	for range 2 { // the second time there is nothing
		if err := Remove(root); err != nil || there(root) {
			t.Errorf("%v, still there: %v", err, there(root))
		}
	}
	put(filepath.Join(root, "vips"))
	for _, link := range []string{"one", "two"} {
		put(filepath.Join(root, linkFolder, link))
	}
	if err := Remove(root); err != nil || there(root) {
		t.Errorf("%v, still there: %v", err, there(root))
	}
	put(filepath.Join(root, "vips"))
	put(filepath.Join(root, linkFolder, "busy", "file"))
	if err := Remove(root); err == nil || !there(filepath.Join(root, "vips")) {
		t.Errorf("%v, the maps are there: %v", err, there(filepath.Join(root, "vips")))
	}
}
