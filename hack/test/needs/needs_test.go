// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

// said is a test that keeps what is said to it, and ends as one does.
type said struct {
	testing.TB
	fatal, skipped string
}

type ended struct{}

func (s *said) Helper()                       {}
func (s *said) Fatal(words ...any)            { s.fatal = fmt.Sprint(words...); panic(ended{}) }
func (s *said) Fatalf(f string, words ...any) { s.Fatal(fmt.Sprintf(f, words...)) }
func (s *said) Skip(words ...any)             { s.skipped = fmt.Sprint(words...); panic(ended{}) }

func ask(t *testing.T, what func(testing.TB)) (s *said) {
	t.Helper()
	s = &said{TB: t}
	defer func() {
		if r := recover(); r != nil && r != any(ended{}) {
			panic(r)
		}
	}()
	what(s)
	return s
}

// What is missing is skipped on a developer's machine and fails where all tests are meant to run.
func TestWhatIsMissing(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("BOBTAIL_BUILD", empty)
	t.Setenv("BOBTAIL_CACHE", empty)
	t.Setenv("KUBEBUILDER_ASSETS", "")
	t.Setenv("PATH", empty)
	for name, what := range map[string]func(testing.TB){
		"hack/dataplane build release":    func(t testing.TB) { CProgram(t, "bobtail-router") },
		"run hack/deps/install":           func(t testing.TB) { Tool(t, "helm") },
		"hack/deps/install --only=api":    func(t testing.TB) { APIServer(t) },
		"bobtail-router is not built":     func(t testing.TB) { CProgram(t, "bobtail-router") },
		"no kube-apiserver (stat kube-ap": func(t testing.TB) { APIServer(t) },
	} {
		t.Setenv("CI", "")
		t.Setenv(privileged.Variable, "")
		if s := ask(t, what); s.fatal != "" || !strings.Contains(s.skipped, name) {
			t.Errorf("a developer reads %q, %q; want a skip with %q", s.skipped, s.fatal, name)
		}
		for _, variable := range []string{"CI", privileged.Variable} {
			t.Setenv("CI", "")
			t.Setenv(privileged.Variable, "")
			t.Setenv(variable, "true")
			if s := ask(t, what); s.skipped != "" || !strings.Contains(s.fatal, name) {
				t.Errorf("with %s: %q, %q; want a failure with %q", variable, s.skipped, s.fatal, name)
			}
		}
	}
}

func TestWhatIsThere(t *testing.T) {
	build := t.TempDir()
	program := filepath.Join(build, "apps", "x", "x")
	tool := filepath.Join(build, "helm-v1", "bin", "helm")
	server := filepath.Join(build, "envtest-1", "kube-apiserver")
	for _, path := range []string{program, tool, server} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	t.Setenv("BOBTAIL_BUILD", build)
	t.Setenv("BOBTAIL_CACHE", build)
	t.Setenv("KUBEBUILDER_ASSETS", "")
	if got := CProgram(t, "x"); got != program {
		t.Errorf("%s, want %s", got, program)
	}
	if got := Tool(t, "helm"); got != tool {
		t.Errorf("%s, want %s", got, tool)
	}
	if got := APIServer(t); got != filepath.Dir(server) {
		t.Errorf("%s, want %s", got, filepath.Dir(server))
	}
}
