// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package lifecycle

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

// TestWholeLife starts a cluster of its own, proves it from inside, takes the
// API server away and gives it back, and ends it without a trace. Run it with
//
//	go test -tags=cluster -count=1 ./e2e/cluster/lifecycle
//
// as root, on a machine where hack/deps/install has run.
func TestWholeLife(t *testing.T) {
	privileged.Need(t, "makes a cluster of namespaces, mounts and cgroups")
	dir := t.TempDir()
	program := filepath.Join(dir, "bobtail-cluster")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "github.com/bobtail-dev/bobtail/e2e/cluster/cmd/bobtail-cluster")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	state := "--state=" + filepath.Join(dir, "state")
	try := func(args ...string) (string, error) {
		out, err := exec.Command(program, append([]string{args[0], state}, args[1:]...)...).CombinedOutput()
		t.Logf("%s\n%s", strings.Join(args, " "), out)
		return string(out), err
	}
	must := func(args ...string) string {
		out, err := try(args...)
		if err != nil {
			t.Fatalf("%s: %v", strings.Join(args, " "), err)
		}
		return out
	}
	t.Cleanup(func() { _, _ = try("down") })
	must("up", "--nodes=2")
	must("check")
	if out := must("up", "--nodes=2"); !strings.Contains(out, "already up and healthy") {
		t.Errorf("the second up: %s", out)
	}
	if _, err := try("up", "--nodes=3"); err == nil {
		t.Error("another number of nodes must be refused")
	}
	must("stop-apiserver")
	if out := must("status"); !strings.Contains(out, "NOT RUNNING") {
		t.Error("status does not show the outage")
	}
	must("start-apiserver")
	must("check")
	must("down")
	must("down")
}
