// SPDX-License-Identifier: Apache-2.0

// Package harness drives a cluster the way a user does: kubectl, helm and the
// embedded cluster's own command, nothing of the operator's inside.
package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Env is one cluster to work against.
type Env struct {
	// Root is the top of the repository.
	Root string
	// Version is the product version, which is also the image tag.
	Version string
	// Log receives every command and its output.
	Log io.Writer

	vars    []string
	release *release // nil: the chart of the tree
	api     api
}

// NewEnv finds the repository's top and asks bobtail-cluster how to reach the
// cluster. A running cluster is needed; the error says how to start one.
func NewEnv(ctx context.Context, root string, log io.Writer) (*Env, error) {
	version, err := os.ReadFile(filepath.Join(root, "VERSION"))
	if err != nil {
		return nil, fmt.Errorf("read VERSION at the top of the repository: %w", err)
	}
	e := &Env{Root: root, Version: strings.TrimSpace(string(version)), Log: log, vars: os.Environ()}
	out, err := e.Cluster(ctx, "env")
	if err != nil {
		return nil, fmt.Errorf("ask bobtail-cluster for the environment (start one with `make cluster-up`): %w", err)
	}
	e.vars = append(e.vars, parseExports(out)...)
	return e, nil
}

// AddPath looks for programs in a folder first, as the pages have their readers do.
func (e *Env) AddPath(dir string) {
	e.vars = append(e.vars, "PATH="+dir+string(filepath.ListSeparator)+e.value("PATH"))
}

// Local runs programs at the top of a tree without a cluster, for tests of suites.
func Local(root string, log io.Writer) *Env {
	return &Env{Root: root, Log: log, vars: os.Environ()}
}

// parseExports turns the lines `export NAME=VALUE` into NAME=VALUE, values
// unquoted and $PATH expanded.
func parseExports(out string) []string {
	var vars []string
	for _, line := range strings.Split(out, "\n") {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "export ")
		if !ok {
			continue
		}
		name, value, ok := strings.Cut(rest, "=")
		if !ok {
			continue
		}
		vars = append(vars, name+"="+os.ExpandEnv(strings.Trim(value, `'"`)))
	}
	return vars
}

// lookPath finds a program in the environment's own PATH, the last one set.
func (e *Env) lookPath(name string) string {
	for _, dir := range filepath.SplitList(e.value("PATH")) {
		if full := filepath.Join(dir, name); executable(full) {
			return full
		}
	}
	return name
}

// value of a variable of the environment, the last one set.
func (e *Env) value(name string) string {
	for i := len(e.vars) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(e.vars[i], name+"="); ok {
			return value
		}
	}
	return ""
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// Run runs a program of the environment's PATH and returns its standard output.
// The error carries the last lines of its standard error.
func (e *Env) Run(ctx context.Context, stdin string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, e.lookPath(name), args...)
	cmd.Env, cmd.Dir = e.vars, e.Root
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	fmt.Fprintf(e.Log, "$ %s %s\n%s%s", name, strings.Join(args, " "), out.String(), errs.String())
	if err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lastLines(errs.String(), 5))
	}
	return out.String(), nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Kubectl runs kubectl.
func (e *Env) Kubectl(ctx context.Context, args ...string) (string, error) {
	return e.Run(ctx, "", "kubectl", args...)
}

// Apply applies a manifest given as text.
func (e *Env) Apply(ctx context.Context, manifest string) error {
	_, err := e.Run(ctx, manifest, "kubectl", "apply", "-f", "-")
	return err
}

// Get reads one object (or list) as JSON into the value.
func (e *Env) Get(ctx context.Context, into any, args ...string) error {
	out, err := e.Kubectl(ctx, append([]string{"get", "-o", "json"}, args...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("kubectl get %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// Helm runs helm.
func (e *Env) Helm(ctx context.Context, args ...string) (string, error) {
	return e.Run(ctx, "", "helm", args...)
}

// Cluster runs the embedded cluster's command.
func (e *Env) Cluster(ctx context.Context, args ...string) (string, error) {
	return e.Run(ctx, "", filepath.Join(e.Root, "build", "bin", "bobtail-cluster"), args...)
}
