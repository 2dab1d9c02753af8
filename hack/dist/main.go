// SPDX-License-Identifier: Apache-2.0

// Command dist makes what a release is made of, into a folder: the chart as an archive
// and as an OCI layout, one file for `kubectl apply`, the kubectl plugin with its krew
// manifest, the digests of the images that were built, and the sums of it all.
//
//	dist --out=build/dist --helm=helm [--registry=registry.example/team] [--url=https://…] [--here]
//
// The same tree gives the same bytes, but for what Helm writes into its archive.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// options are what a release is made with.
type options struct {
	out, helm, registry, url, version string
	platforms                         []platform
}

// platform is an operating system and a processor, as Go calls them.
type platform struct{ system, machine string }

// namespace is where install.yaml puts the operator.
const namespace = "bobtail-system"

// everywhere are the platforms of a release's plugin.
var everywhere = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func main() {
	o := options{platforms: everywhere}
	flag.StringVar(&o.out, "out", "build/dist", "folder to write; what was there is removed")
	flag.StringVar(&o.helm, "helm", "helm", "the helm program")
	flag.StringVar(&o.registry, "registry", "localhost", "registry of the images in install.yaml")
	flag.StringVar(&o.url, "url", "https://downloads.example/bobtail", "where the archives of the plugin will be found")
	here := flag.Bool("here", false, "the plugin for this machine's platform alone")
	flag.Parse()
	if *here {
		o.platforms = []platform{{runtime.GOOS, runtime.GOARCH}}
	}
	if err := o.make(); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func (o *options) make() error {
	text, err := os.ReadFile("VERSION")
	if err != nil {
		return fmt.Errorf("run it at the top of the tree: %w", err)
	}
	o.version = strings.TrimSpace(string(text))
	if err := errors.Join(os.RemoveAll(o.out), os.MkdirAll(o.out, 0o755)); err != nil {
		return err
	}
	for _, step := range []func() error{o.chart, o.install, o.plugin, o.images, o.sums} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// run is a program's output; its errors have its words.
func run(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out.Bytes(), nil
}

// chart packs it, and writes the archive into an OCI layout as registries keep charts.
func (o *options) chart() error {
	if _, err := run(o.helm, "package", "charts/bobtail", "--destination", o.out); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(o.out, "bobtail-*.tgz"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("helm package made %q: %v", found, err)
	}
	archive, err := os.ReadFile(found[0])
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(found[0]), ".tgz")
	return layout(filepath.Join(o.out, "chart"), strings.TrimPrefix(name, "bobtail-"), archive)
}

// descriptor names a blob of a layout.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// layout is an OCI image layout of one chart: `skopeo copy oci:DIR:VERSION docker://…`
// pushes it, and `helm pull oci://…` finds it there.
func layout(dir, version string, archive []byte) error {
	blobs := filepath.Join(dir, "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return err
	}
	put := func(mediaType string, b []byte) (descriptor, error) {
		sum := digest(b)
		return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(b)}, os.WriteFile(filepath.Join(blobs, sum), b, 0o644)
	}
	about, err := json.Marshal(map[string]string{"name": "bobtail", "version": version, "apiVersion": "v2", "type": "application"})
	if err != nil {
		return err
	}
	config, err := put("application/vnd.cncf.helm.config.v1+json", about)
	if err != nil {
		return err
	}
	layer, err := put("application/vnd.cncf.helm.chart.content.v1.tar+gzip", archive)
	if err != nil {
		return err
	}
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": []descriptor{layer},
		"annotations": map[string]string{"org.opencontainers.image.title": "bobtail", "org.opencontainers.image.version": version},
	})
	if err != nil {
		return err
	}
	whole, err := put(manifestType, manifest)
	if err != nil {
		return err
	}
	whole.Annotations = map[string]string{"org.opencontainers.image.ref.name": version}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{whole}})
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "index.json"), index, 0o644),
		os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644))
}

// install is what `kubectl apply -f` takes: the namespace, and the chart with its
// defaults in it.
func (o *options) install() error {
	rendered, err := run(o.helm, "template", "bobtail", "charts/bobtail", "--namespace", namespace, "--set", "image.registry="+o.registry,
		"--no-hooks", "--skip-tests", "--kube-version", "1.36.0")
	if err != nil {
		return err
	}
	head := fmt.Sprintf("# Bobtail %s: kubectl apply -f install.yaml\n---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", o.version, namespace)
	return os.WriteFile(filepath.Join(o.out, "install.yaml"), append([]byte(head), rendered...), 0o644)
}

// plugin is kubectl-bobtail for each platform, and the manifest by which krew finds it.
func (o *options) plugin() error {
	dir := filepath.Join(o.out, "plugin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	licence, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	var rows strings.Builder
	for _, p := range o.platforms {
		binary, err := p.build(o.version)
		if err != nil {
			return err
		}
		archive, err := packed(map[string][]byte{"kubectl-bobtail": binary, "LICENSE": licence})
		if err != nil {
			return err
		}
		name := fmt.Sprintf("kubectl-bobtail_%s_%s_%s.tar.gz", o.version, p.system, p.machine)
		if err := os.WriteFile(filepath.Join(dir, name), archive, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&rows, krewPlatform, p.system, p.machine, o.url, name, digest(archive))
	}
	return os.WriteFile(filepath.Join(dir, "bobtail.yaml"), fmt.Appendf(nil, krewManifest, o.version, rows.String()), 0o644)
}

const krewManifest = `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: bobtail
spec:
  version: v%s
  shortDescription: Look after RPC services with measured latency objectives
  description: |
    Shows what Bobtail's operator, routers and servers do, why a service is slow,
    and what a change would do to its latency.
  platforms:
%s`

const krewPlatform = `  - selector:
      matchLabels:
        os: %s
        arch: %s
    uri: %s/%s
    sha256: %s
    bin: kubectl-bobtail
    files:
    - {from: kubectl-bobtail, to: .}
    - {from: LICENSE, to: .}
`

// build is the plugin for one platform.
func (p platform) build(version string) ([]byte, error) {
	file, err := os.CreateTemp("", "kubectl-bobtail-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	file.Close()
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w -X main.version="+version, "-o", file.Name(), "./operator/cmd/kubectl-bobtail")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.system, "GOARCH="+p.machine)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build for %s/%s: %w: %s", p.system, p.machine, err, bytes.TrimSpace(out))
	}
	return os.ReadFile(file.Name())
}

// packed is a tar.gz that bears no time and no owner.
func packed(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		mode := int64(0o644)
		if name == "kubectl-bobtail" {
			mode = 0o755
		}
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(files[name])), Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return nil, err
		}
	}
	// Both write their ends when they are closed: only then is out the whole archive.
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// images are the digests of those that images/build made; none: the file says so.
func (o *options) images() error {
	archives, err := filepath.Glob("build/images/*.tar")
	if err != nil {
		return err
	}
	found := map[string]string{}
	for _, archive := range archives {
		d, err := imageDigest(archive)
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		found[strings.TrimSuffix(filepath.Base(archive), ".tar")] = d
	}
	text, err := json.MarshalIndent(map[string]any{"version": o.version, "digests": found}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, "images.json"), append(text, '\n'), 0o644)
}

// imageDigest is the digest of the one image in an OCI archive, as a registry will have it.
func imageDigest(archive string) (string, error) {
	file, err := os.Open(archive)
	if err != nil {
		return "", err
	}
	defer file.Close()
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if err != nil {
			return "", fmt.Errorf("no index.json: %w", err)
		}
		if filepath.Clean(h.Name) != "index.json" {
			continue
		}
		var index struct{ Manifests []descriptor }
		if err := json.NewDecoder(r).Decode(&index); err != nil {
			return "", err
		}
		if len(index.Manifests) != 1 {
			return "", fmt.Errorf("%d images, want one", len(index.Manifests))
		}
		return index.Manifests[0].Digest, nil
	}
}

// sums is what `sha256sum -c SHA256SUMS` reads.
func (o *options) sums() error {
	var out strings.Builder
	err := filepath.WalkDir(o.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, file); err != nil {
			return err
		}
		name, err := filepath.Rel(o.out, path)
		fmt.Fprintf(&out, "%s  %s\n", hex.EncodeToString(sum.Sum(nil)), name)
		return err
	})
	return errors.Join(err, os.WriteFile(filepath.Join(o.out, "SHA256SUMS"), []byte(out.String()), 0o644))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
