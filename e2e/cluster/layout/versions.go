// SPDX-License-Identifier: Apache-2.0

// Package layout says where everything of an embedded cluster lives: the
// cached tools, the state folder, and the files in it.
package layout

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// versionsFile is the one place where tool versions are pinned.
const versionsFile = "hack/deps/versions.env"

// Versions maps a tool ("kubernetes", "etcd", …) to its pinned version.
type Versions map[string]string

// FindVersions looks for hack/deps/versions.env in the working directory, the
// folder of the running program, and their parents.
func FindVersions() (Versions, error) {
	var starts []string
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			path := filepath.Join(dir, versionsFile)
			if _, err := os.Stat(path); err == nil {
				return readVersions(path)
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return nil, fmt.Errorf("no %s in %s or above: run this inside a Bobtail checkout", versionsFile, strings.Join(starts, " or "))
}

func readVersions(path string) (Versions, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	v := Versions{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if strings.HasSuffix(name, "_SHA256") && value != "" {
			continue // of an archive that hack/deps fetches
		}
		tool, isVersion := strings.CutSuffix(name, "_VERSION")
		if !ok || !isVersion || value == "" {
			return nil, fmt.Errorf("%s:%d: want NAME_VERSION=x.y.z, got %q", path, n, line)
		}
		v[strings.ToLower(strings.ReplaceAll(tool, "_", "-"))] = value
	}
	return v, lines.Err()
}
