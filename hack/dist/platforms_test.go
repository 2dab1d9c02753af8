// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const ours = "github.com/bobtail-dev/bobtail/"

// checker judges the types of our own packages as a platform has them. Those of others
// are taken as this machine has them: they are theirs to keep, and compiling them for
// each platform takes minutes.
type checker struct {
	platform
	files   *token.FileSet
	dirs    map[string]string
	others  types.Importer
	checked map[string]*types.Package
	wrong   []string
}

func (c *checker) Import(path string) (*types.Package, error) {
	if !strings.HasPrefix(path, ours) {
		return c.others.Import(path)
	}
	if p := c.checked[path]; p != nil {
		return p, nil
	}
	context := build.Default
	context.GOOS, context.GOARCH, context.CgoEnabled = c.system, c.machine, false
	found, err := context.ImportDir(c.dirs[path], 0)
	if err != nil {
		return nil, err
	}
	var parsed []*ast.File
	for _, name := range found.GoFiles {
		f, err := parser.ParseFile(c.files, filepath.Join(found.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	judge := types.Config{Importer: c, Error: func(err error) { c.wrong = append(c.wrong, err.Error()) }}
	p, _ := judge.Check(path, c.files, parsed, nil)
	c.checked[path] = p
	return p, nil
}

// needed are the folders and the compiled packages of what a command is made of.
func needed(t *testing.T, command string) (dirs, exports map[string]string) {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Dir}}\t{{.Export}}", command)
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	text, err := list.Output()
	if err != nil {
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			err = fmt.Errorf("%w: %s", err, ended.Stderr)
		}
		t.Fatal(err)
	}
	dirs, exports = map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(text)) {
		if at := strings.Split(strings.TrimSpace(line), "\t"); len(at) == 3 {
			dirs[at[0]], exports[at[0]] = at[1], at[2]
		}
	}
	return dirs, exports
}

// What only Linux has is in no package that the plugin needs: a release has it for every
// platform that users have.
func TestThePluginIsOfEveryPlatform(t *testing.T) {
	t.Chdir("../..")
	dirs, exports := needed(t, "./operator/cmd/kubectl-bobtail")
	if len(everywhere) < 4 || !slices.ContainsFunc(everywhere, func(p platform) bool { return p.system != "linux" }) {
		t.Fatalf("%v", everywhere)
	}
	for _, p := range everywhere {
		files := token.NewFileSet()
		c := &checker{platform: p, files: files, dirs: dirs, checked: map[string]*types.Package{},
			others: importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
		if _, err := c.Import(ours + "operator/cmd/kubectl-bobtail"); err != nil {
			t.Fatal(err)
		}
		if len(c.wrong) > 0 || len(c.checked) < 10 {
			t.Errorf("%s/%s, %d packages:\n%s", p.system, p.machine, len(c.checked), strings.Join(c.wrong, "\n"))
		}
	}
}
