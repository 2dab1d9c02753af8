// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// cache is where hack/deps/install puts what it builds.
func cache() string {
	if dir := os.Getenv("BOBTAIL_CACHE"); dir != "" {
		return dir
	}
	home, _ := os.UserHomeDir()
	return filepath.Join(home, ".cache", "bobtail")
}

// top is the folder of this tree: tests run in the folder of their package.
func top(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above this folder")
		}
		dir = filepath.Dir(dir)
	}
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err == nil && (info.IsDir() || info.Mode()&0o111 == 0) {
		err = fmt.Errorf("%s cannot be run", path)
	}
	return err
}
