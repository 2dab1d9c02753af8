// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/bobtail-dev/bobtail/hack/test/controlplane"
	"github.com/bobtail-dev/bobtail/hack/test/needs"
)

// made is a release of this tree, of this machine's platform alone.
func made(t *testing.T) (dir, program string) {
	t.Helper()
	program = needs.Tool(t, "helm")
	t.Chdir("../..")
	home := t.TempDir()
	for _, v := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		t.Setenv(v, home)
	}
	dir = filepath.Join(t.TempDir(), "dist")
	o := options{out: dir, helm: program, registry: "registry.example/team", url: "https://releases.example", platforms: []platform{{runtime.GOOS, runtime.GOARCH}}}
	if err := o.make(); err != nil {
		t.Fatal(err)
	}
	return dir, program
}

func read(t *testing.T, parts ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What is in the folder is what its sums say, and everything in it is used from there:
// the chart out of its OCI layout gives the same objects as install.yaml, the plugin out
// of the archive that the krew manifest names runs, and an API server takes
// install.yaml from `kubectl apply`, which keeps the whole of each object in an annotation.
func TestARelease(t *testing.T) {
	needs.Time(t, "builds a release")
	dir, program := made(t)
	sums := exec.Command("sha256sum", "-c", "--quiet", "SHA256SUMS")
	sums.Dir = dir
	if out, err := sums.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	fromLayout(t, dir, program)
	pluginRuns(t, dir)
	var images struct{ Version string }
	if err := json.Unmarshal(read(t, dir, "images.json"), &images); err != nil || images.Version == "" {
		t.Errorf("images.json: %+v, %v", images, err)
	}
	applied(t, dir)
}

// fromLayout goes from the index to the chart, as a registry's client does.
func fromLayout(t *testing.T, dir, program string) {
	t.Helper()
	blob := func(d descriptor) []byte {
		b := read(t, dir, "chart", "blobs", "sha256", strings.TrimPrefix(d.Digest, "sha256:"))
		if "sha256:"+digest(b) != d.Digest || len(b) != d.Size {
			t.Errorf("%s is not what it is called", d.Digest)
		}
		return b
	}
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	if err := json.Unmarshal(read(t, dir, "chart", "index.json"), &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("%+v, %v", index, err)
	}
	if err := json.Unmarshal(blob(index.Manifests[0]), &manifest); err != nil || len(manifest.Layers) != 1 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	blob(manifest.Config)
	chart := filepath.Join(t.TempDir(), "chart.tgz")
	if err := os.WriteFile(chart, blob(manifest.Layers[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	rendered, err := run(program, "template", "bobtail", chart, "--namespace", namespace, "--set", "image.registry=registry.example/team", "--no-hooks", "--skip-tests", "--kube-version", "1.36.0")
	if err != nil {
		t.Fatal(err)
	}
	if text := read(t, dir, "install.yaml"); !bytes.HasSuffix(text, rendered) || len(rendered) < 10_000 || !bytes.Contains(text, []byte("registry.example/team/bobtail/operator:")) {
		t.Error("the chart of the layout and install.yaml differ")
	}
}

// pluginRuns takes the archive that the manifest names.
func pluginRuns(t *testing.T, dir string) {
	t.Helper()
	manifest := string(read(t, dir, "plugin", "bobtail.yaml"))
	_, uri, _ := strings.Cut(manifest, "uri: https://releases.example/")
	name, rest, _ := strings.Cut(uri, "\n")
	archive := read(t, dir, "plugin", name)
	if !strings.Contains(rest, "sha256: "+digest(archive)) {
		t.Errorf("the manifest has another sum for %s", name)
	}
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "kubectl-bobtail")
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if h.Name != "kubectl-bobtail" {
			continue
		}
		b, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(program, b, os.FileMode(h.Mode))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(program, "--version").CombinedOutput(); err != nil || !bytes.Contains(out, bytes.TrimSpace(read(t, "VERSION"))) {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := exec.Command(program, "--help").CombinedOutput(); err != nil || !bytes.Contains(out, []byte("explain")) {
		t.Errorf("%v: %s", err, out)
	}
}

// applied is `kubectl apply -f install.yaml` against a real API server, twice.
func applied(t *testing.T, dir string) {
	t.Helper()
	assets := needs.APIServer(t)
	env := controlplane.At(assets)
	if _, err := env.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	}()
	user, err := env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl := func(args ...string) []byte {
		out, err := run(filepath.Join(assets, "kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	install := filepath.Join(dir, "install.yaml")
	first := kubectl("apply", "-f", install)
	if n := bytes.Count(first, []byte(" created")); n < 15 || !bytes.Contains(first, []byte("rpcservices.bobtail.dev created")) {
		t.Errorf("%d objects: %s", n, first)
	}
	for line := range strings.Lines(string(kubectl("apply", "-f", install))) {
		// kubectl's patch of a budget always has its selector, which is to be replaced as a whole: "configured" says nothing.
		if !strings.HasSuffix(strings.TrimSpace(line), " unchanged") && !strings.HasPrefix(line, "poddisruptionbudget.policy/") {
			t.Errorf("applied a second time: %s", line)
		}
	}
	if g := kubectl("get", "poddisruptionbudgets", "-A", "-o", "jsonpath={.items[*].metadata.generation}"); string(g) != "1" {
		t.Errorf("applied a second time, the budget has generation %s", g)
	}
}

// An archive has its end: it is read to the last byte, and each file is what went in.
func TestPackedIsWhole(t *testing.T) {
	files := map[string][]byte{"LICENSE": []byte("a licence"), "kubectl-bobtail": bytes.Repeat([]byte("program "), 10_000)}
	archive, err := packed(files)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]byte{}
	r := tar.NewReader(zip)
	for h, err := r.Next(); err != io.EOF; h, err = r.Next() {
		if err != nil {
			t.Fatal(err)
		}
		if got[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	if !maps.EqualFunc(got, files, bytes.Equal) {
		t.Errorf("%d files came out, or not as they went in", len(got))
	}
	if _, err := io.ReadAll(zip); err != nil {
		t.Errorf("after the last file: %v", err)
	}
}
