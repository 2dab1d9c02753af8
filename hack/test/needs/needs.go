// SPDX-License-Identifier: Apache-2.0

// Package needs is how a test says what it needs of the machine: our C programs, a
// tool of hack/deps, time. It decides in one place what becomes of the test where
// that is missing: skipped where a developer runs it, failed where all tests are
// meant to run, so that none is left out unseen.
package needs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

// CProgram is the path of a program of dataplane/apps, from $BOBTAIL_BUILD, else
// from build/dataplane of this tree.
func CProgram(t testing.TB, name string) string {
	t.Helper()
	build := os.Getenv("BOBTAIL_BUILD")
	if build == "" {
		build = filepath.Join(top(t), "build", "dataplane")
	}
	path, err := filepath.Abs(filepath.Join(build, "apps", name, name))
	if err == nil {
		err = executable(path)
	}
	if err != nil {
		lacking(t, fmt.Sprintf("%s is not built: run `hack/dataplane build release`, or point BOBTAIL_BUILD to a build: %v", name, err))
	}
	return path
}

// Tool is the path of a program that hack/deps/install puts into its cache, else
// of one that is found in $PATH.
func Tool(t testing.TB, name string) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(cache(), name+"-*", "bin", name))
	if len(found) > 0 {
		return found[len(found)-1]
	}
	path, err := exec.LookPath(name)
	if err != nil {
		lacking(t, name+" is missing: run hack/deps/install")
	}
	return path
}

// APIServer is the folder with kube-apiserver and etcd, for envtest.
func APIServer(t testing.TB) string {
	t.Helper()
	dir, err := APIServerFolder()
	if err != nil {
		lacking(t, err.Error())
	}
	return dir
}

// APIServerFolder is the same where there is no test yet, in TestMain.
func APIServerFolder() (string, error) {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if found, _ := filepath.Glob(filepath.Join(cache(), "envtest-*")); dir == "" && len(found) > 0 {
		dir = found[len(found)-1]
	}
	if err := executable(filepath.Join(dir, "kube-apiserver")); err != nil {
		return "", fmt.Errorf("no kube-apiserver (%w): run `hack/deps/install --only=api`, or set KUBEBUILDER_ASSETS", err)
	}
	return dir, nil
}

// Time ends a test that a short run leaves to a whole one; what says what takes
// the time.
func Time(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skip("left to a whole run: " + what)
	}
}

// Draws is Time for statistics of many draws.
func Draws(t testing.TB) {
	t.Helper()
	Time(t, "statistics of many draws")
}

// Unraced ends a test under the race detector in a short run: one that computes for
// long in one goroutine, which the detector makes ten times longer to see nothing. The
// packages of such tests are tested without it, too (hack/test/goroutines.py).
func Unraced(t testing.TB) {
	t.Helper()
	if raceDetector {
		Time(t, "computes in one goroutine, which is tested without the race detector")
	}
}

// CI sets its own variable; hack/test/run.py as root another.
func lacking(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	privileged.Lacking(t, why)
}
